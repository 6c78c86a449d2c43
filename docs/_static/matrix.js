"use strict";
// The filters of the matrix. Their state is in the query of the address. On a phone the table is
// shown as a list, a <details> for each operation.
{
  const table = document.getElementById("matrix");
  const box = document.getElementById("matrix-box");
  const heads = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
  const FIRST = 3; // The columns before the answers.
  const phone = window.matchMedia("(max-width: 46em)");
  const make = (tag, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };

  const lines = [...table.tBodies[0].rows].map((row) => ({
    row,
    name: row.cells[0].textContent,
    href: row.cells[0].querySelector("a").getAttribute("href"),
    direction: row.cells[1].textContent,
    devices: row.cells[2].textContent.split(", "),
    words: [...row.cells].slice(FIRST).map((cell) =>
      [...cell.querySelectorAll("b")].map((word) => word.textContent)),
  }));
  const distinct = (values) => [...new Set(values)];
  const ofPyTorch = heads.filter((head) => head.startsWith("torch-"));
  const facets = {
    kind: ["functions of impl", "JAX's primitives"],
    device: distinct(lines.flatMap((line) => line.devices)),
    direction: distinct(lines.map((line) => line.direction)),
    profile: ofPyTorch,
    word: distinct(lines.flatMap((line) => line.words.flat())).sort(),
  };
  const ALL = { kind: "both kinds", device: "any device", direction: "call and gradient",
    profile: "all of PyTorch", word: "any answer" };

  // The controls.
  const text = make("input", { type: "search", name: "q", placeholder: "scatter, pool, lax. …" });
  const selects = Object.entries(facets).map(([name, values]) =>
    make("select", { name }, make("option", { value: "", textContent: ALL[name] }),
      ...values.map((value) => make("option", { value, textContent: value }))));
  const controls = [text, ...selects];
  const status = make("output", { className: "matrix-status" });
  const link = make("a", { textContent: "Link to this view" });
  const clear = make("button", { type: "reset", textContent: "Clear" });
  const form = make("form", { id: "matrix-form", className: "no-print" },
    ...controls.map((control) => make("label", {},
      make("span", { textContent: control.name === "q" ? "name" : control.name }), control)),
    make("p", {}, status, " ", link, " ", clear));
  form.setAttribute("role", "search");
  form.setAttribute("aria-label", "Filters of the table");
  const list = make("div", { id: "matrix-list", hidden: true });
  box.before(form);
  box.after(list);

  // Each cell leads to the answers on the page of its operation. The arrows move between these links, and the
  // tabulator from line to line.
  for (const line of lines) {
    for (const cell of [...line.row.cells].slice(FIRST)) {
      const anchor = make("a", { href: `${line.href}#every-answer`, tabIndex: -1 }, ...cell.childNodes);
      cell.append(anchor);
    }
  }
  const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  table.addEventListener("keydown", (event) => {
    const cell = event.target.closest("th, td");
    if (!cell || !STEPS[event.key]) return;
    const [down, right] = STEPS[event.key];
    const rows = lines.map((line) => line.row).filter((row) => !row.hidden);
    const row = rows[rows.indexOf(cell.parentNode) + down];
    let column = cell.cellIndex + right;
    while (row?.cells[column] && (row.cells[column].hidden || !row.cells[column].querySelector("a")))
      column += right;
    const next = row?.cells[column]?.querySelector("a");
    if (next) {
      event.preventDefault();
      next.focus();
    }
  });

  const state = () => Object.fromEntries(controls.map(({ name, value }) => [name, value.trim()]));

  // The columns that are shown: of PyTorch's profiles, those that were chosen.
  const shown = ({ profile }) => heads.map((head) =>
    !profile || !ofPyTorch.includes(head) || head === profile);

  const matches = (line, chosen, columns) => {
    const words = chosen.q.toLowerCase().split(/\s+/);
    const isPrimitive = line.href.startsWith("primitives/");
    return words.every((word) => line.name.toLowerCase().includes(word)) &&
      (!chosen.kind || (chosen.kind === facets.kind[1]) === isPrimitive) &&
      (!chosen.device || line.devices.includes(chosen.device)) &&
      (!chosen.direction || line.direction === chosen.direction) &&
      (!chosen.word || line.words.some((own, i) => columns[i + FIRST] && own.includes(chosen.word)));
  };

  const fill = (details, group, columns) => {
    for (const line of group) {
      const answers = line.words.flatMap((own, i) => columns[i + FIRST] ? [
        make("dt", { textContent: heads[i + FIRST] }),
        make("dd", {}, ...[...line.row.cells[i + FIRST].querySelectorAll("b")].flatMap(
          (word) => [word.cloneNode(true), " "])),
      ] : []);
      details.append(make("p", { textContent: `${line.direction}, ${line.devices.join(" and ")}` }),
        make("dl", {}, ...answers));
    }
    details.append(make("p", {}, make("a", { href: group[0].href, textContent: "The whole answer" })));
  };

  const showList = (visible, columns) => {
    const groups = new Map();
    for (const line of visible) groups.set(line.href, [...(groups.get(line.href) || []), line]);
    list.replaceChildren(...[...groups.values()].map((group) => {
      const details = make("details", {},
        make("summary", {}, make("code", { textContent: group[0].name })));
      details.addEventListener("toggle", () => fill(details, group, columns), { once: true });
      return details;
    }));
  };

  const show = () => {
    const chosen = state();
    const columns = shown(chosen);
    const visible = lines.filter((line) => matches(line, chosen, columns));
    for (const line of lines) line.row.hidden = true;
    for (const line of visible) line.row.hidden = false;
    for (const row of table.rows) columns.forEach((on, i) => { row.cells[i].hidden = !on; });
    box.hidden = phone.matches;
    list.hidden = !phone.matches;
    if (phone.matches) showList(visible, columns);
    const names = distinct(visible.map((line) => line.href)).length;
    status.textContent = `${names} of ${distinct(lines.map((line) => line.href)).length} operations`;
    const set = Object.entries(chosen).filter(([name, value]) => value !== standard[name]);
    const query = new URLSearchParams(set).toString();
    link.href = `${window.location.pathname}${query && `?${query}`}`;
    // A browser refuses this for a page that was opened as a file. The link works there.
    if (window.location.protocol !== "file:") window.history.replaceState(null, "", link.href);
  };

  // Without a query, the columns are those of one profile of PyTorch: the default one.
  const standard = { q: "", kind: "", device: "", direction: "", word: "",
    profile: table.dataset.profile };
  const asked = new URLSearchParams(window.location.search);
  const set = (values) => {
    for (const control of controls) control.value = values[control.name];
    show();
  };
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", (event) => {
    event.preventDefault();
    set(standard);
    text.focus();
  });
  phone.addEventListener("change", show);
  set({ ...standard, ...Object.fromEntries(asked) });
}
