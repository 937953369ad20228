// The cells of a working set are one tab stop: arrows walk among them.
"use strict";
(() => {
  const BY = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
  document.addEventListener("keydown", (event) => {
    const cell = event.target.closest?.(".cell"), by = BY[event.key];
    if (!cell || !by || event.ctrlKey || event.metaKey || event.altKey) return;
    const cells = [...document.querySelectorAll(".cell")];
    const at = Math.max(0, Math.min(cells.length - 1, cells.indexOf(cell) + by));
    event.preventDefault();
    event.stopPropagation();
    cell.tabIndex = -1;
    cells[at].tabIndex = 0;
    cells[at].focus();
  }, true);
})();
