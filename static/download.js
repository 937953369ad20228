// An export says that it is being prepared, and when its download begins: the answer sets a cookie.
"use strict";
(() => {
  const form = document.querySelector("form[data-download]"), told = form.querySelector("[role=status]");
  let waiting;

  form.addEventListener("submit", () => {
    const token = Date.now().toString(36) + Math.random().toString(36).slice(2), begun = new Date().toISOString();
    form.elements.token.value = token;
    const since = Object.assign(document.createElement("time"), { dateTime: begun, textContent: "0 s", ariaHidden: "true" });
    since.dataset.since = "";
    const moving = Object.assign(document.createElement("b"), { className: "moving", textContent: "The file is being prepared" });
    told.replaceChildren(moving, ". The download then begins by itself. ", since);
    told.hidden = false;
    clearInterval(waiting);
    waiting = setInterval(() => {
      if (!document.cookie.includes(`mh_download=${token}`)) return;
      clearInterval(waiting);
      form.removeAttribute("aria-busy");
      const leave = form.querySelector("[data-done]");
      leave.textContent = leave.dataset.done;
      told.textContent = "The download has begun: your browser shows its progress. Nothing else is needed here.";
    }, 200);
  });
})();
