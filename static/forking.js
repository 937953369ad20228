// The name offered for a fork follows the number of its event until another is typed.
"use strict";
(() => {
  const name = document.getElementById("name"), seq = document.getElementById("seq");
  const { stem } = name.dataset;
  let last = seq.value;
  seq.addEventListener("input", () => {
    if (name.value === stem + last) name.value = stem + seq.value;
    last = seq.value;
  });
})();
