// What is ticked in a list is counted; a box in the heading ticks all that is shown.
"use strict";
(() => {
  const form = document.getElementById("chosen"), count = document.getElementById("chosen-count");
  if (!form) return;
  const boxes = () => [...document.querySelectorAll("input[form=chosen]")];
  const all = Object.assign(document.createElement("input"), { type: "checkbox", ariaLabel: "Choose all that are shown" });
  document.querySelector(".head > .pick").replaceChildren(all);

  function tell() {
    const total = boxes().length, ticked = boxes().filter((box) => box.checked).length;
    count.textContent = ticked ? `: ${ticked}` : "";
    all.checked = total > 0 && ticked === total;
    all.indeterminate = ticked > 0 && ticked < total;
    form.hidden = !ticked;
  }
  all.addEventListener("change", () => {
    for (const box of boxes()) box.checked = all.checked;
    tell();
  });
  document.addEventListener("change", ({ target }) => target.form === form && tell());
  // A page that one comes back to has its boxes as they were.
  addEventListener("pageshow", tell);
  tell();
})();
