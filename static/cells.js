// The tiles of a working set are one tab stop: arrows walk among them.
"use strict";
(() => {
  const BY = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
  document.addEventListener("keydown", (event) => {
    const tile = event.target.closest?.(".tile[id]"), by = BY[event.key];
    if (!tile || !by || event.ctrlKey || event.metaKey || event.altKey) return;
    const tiles = [...document.querySelectorAll(".tile[id]")].filter((each) => each.checkVisibility());
    const at = Math.max(0, Math.min(tiles.length - 1, tiles.indexOf(tile) + by));
    event.preventDefault();
    event.stopPropagation();
    tile.tabIndex = -1;
    tiles[at].tabIndex = 0;
    tiles[at].focus();
  }, true);
})();
