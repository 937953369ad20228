// Lines of blocks read as they would with the value that is typed.
"use strict";
(() => {
  const value = document.getElementById("value"), marks = [...document.querySelectorAll("[data-new-value]")];
  function tell() {
    const text = value.value.trim().split(/\s+/).join(" ");
    for (const mark of marks) mark.textContent = text === mark.dataset.newValue || !text ? "…" : text;
  }
  value.addEventListener("input", tell);
  // A page that one comes back to has the value as it was typed.
  addEventListener("pageshow", tell);
})();
