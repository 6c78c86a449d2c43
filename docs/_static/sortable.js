// Sorts a table of the class `sortable` by the column whose heading is pressed.
"use strict";

for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.querySelectorAll("thead th")];
  const body = table.querySelector("tbody");
  const text = (line, column) => line.cells[column].textContent.trim();
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.title = "Sort by this column";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const falling = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((each) => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", falling ? "descending" : "ascending");
      // Numbers inside a text count as numbers, so that the release 2.6 comes before 2.12.
      const lines = [...body.rows].sort((a, b) =>
        text(a, column).localeCompare(text(b, column), "en", { numeric: true }),
      );
      body.append(...(falling ? lines.reverse() : lines));
    });
  });
}
