// Shows a report of the conformance suite that is chosen or dragged here. Nothing leaves the browser.
"use strict";

const FORMAT = 1;
const FIELDS = ["op", "direction", "device", "lowering", "check", "sample", "detail"];

function element(name, text, ...children) {
  const made = document.createElement(name);
  if (text) made.textContent = text;
  made.append(...children);
  return made;
}

function table(caption, heads, lines) {
  const head = element("tr", "", ...heads.map((text) => {
    const cell = element("th", text);
    cell.scope = "col";
    return cell;
  }));
  const body = lines.map((line) => element("tr", "", ...line.map((text) => element("td", text))));
  const made = element("table", "", element("caption", caption), element("thead", "", head),
    element("tbody", "", ...body));
  made.className = "docutils align-default";
  const wrapper = element("div", "", made);
  wrapper.className = "table-wrapper";
  wrapper.tabIndex = 0;
  return wrapper;
}

function counted(records, key) {
  const counts = new Map();
  for (const record of records) {
    const value = String(record[key] ?? "none");
    counts.set(value, (counts.get(value) ?? 0) + 1);
  }
  return [...counts].map(([value, count]) => [value, String(count)]);
}

function contents(text) {
  const report = JSON.parse(text);
  if (report === null || report.format !== FORMAT || !Array.isArray(report.records)) {
    throw new Error(`it is no report of the format ${FORMAT}`);
  }
  const failed = report.records.filter((record) => record.outcome === "failed");
  const passed = report.records.filter((record) => record.outcome === "passed");
  const rows = new Set(passed.filter((record) => record.row).map((record) => record.row));
  const environment = Object.entries(report.environment).map(([name, value]) => [name, String(value)]);
  return [
    element("p", `${report.records.length} checks, made ${report.made}: ${passed.length} passed, ` +
      `${failed.length} failed. ${rows.size} rows have a check that passed.`),
    table("The environment, as it would be sent", ["Name", "Value"], environment),
    table("The checks by their outcome", ["Outcome", "Checks"], counted(report.records, "outcome")),
    table("The checks that passed, by evidence", ["Evidence", "Checks"], counted(passed, "evidence")),
    failed.length
      ? table("The failures", ["row", ...FIELDS],
        failed.map((record) => ["row", ...FIELDS].map((key) => String(record[key] ?? ""))))
      : element("p", "Nothing failed."),
  ];
}

for (const viewer of document.querySelectorAll(".report-viewer")) {
  const shown = viewer.querySelector(".report-shown");
  const show = async (file) => {
    if (!file) return;
    try {
      shown.replaceChildren(...contents(await file.text()));
    } catch (error) {
      shown.replaceChildren(element("p", `${file.name} cannot be shown: ${error.message}`));
    }
  };
  viewer.querySelector("input").addEventListener("change", (event) => show(event.target.files[0]));
  // A file that misses the field would replace the page.
  document.addEventListener("dragover", (event) => event.preventDefault());
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    show(event.dataTransfer.files[0]);
  });
}
