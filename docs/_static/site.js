"use strict";
// A phone shows each line of a wide table as a block, in which each cell has the name of its column.
for (const table of document.querySelectorAll("article table:not(#matrix)")) {
  const names = [...table.querySelectorAll("thead th")].map((head) => head.textContent.trim());
  if (names.length < 4) continue;
  table.classList.add("stacks");
  for (const line of table.tBodies[0].rows) {
    [...line.cells].forEach((cell, column) => (cell.dataset.heading = names[column]));
  }
}

// Lets the keyboard reach each block and table that is wider than its place, to scroll it.
{
  const update = () => {
    for (const box of document.querySelectorAll(".highlight pre, .table-wrapper, .scrolls")) {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    }
  };
  update();
  window.addEventListener("resize", update);
}
