"use strict";
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
