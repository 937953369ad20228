// What every page does: guards panels, tells times, sends the form of a sign-in link.
"use strict";
(() => {
  // Nothing but a panel of ours may replace a part of a page.
  document.addEventListener("htmx:beforeSwap", (event) => {
    const { xhr } = event.detail;
    if (xhr && !xhr.getResponseHeader("MH-Panel")) event.detail.shouldSwap = false;
  });

  const STEPS = [[60, 1, "s"], [3600, 60, "min"], [86400, 3600, "h"], [Infinity, 86400, "d"]];

  function ago(date) {
    const seconds = Math.round((Date.now() - date) / 1000), age = Math.abs(seconds);
    if (age < 2) return "now";
    const [, unit, word] = STEPS.find(([limit]) => age < limit);
    return `${seconds < 0 ? "in " : ""}${Math.floor(age / unit)} ${word}${seconds < 0 ? "" : " ago"}`;
  }

  function tellTimes() {
    for (const time of document.querySelectorAll("time[data-ago]")) {
      const text = ago(new Date(time.dateTime));
      if (time.textContent !== text) time.textContent = text;
    }
  }

  tellTimes();
  setInterval(tellTimes, 10000);
  for (const done of ["htmx:afterSettle", "htmx:wsAfterMessage"]) document.addEventListener(done, tellTimes);
  addEventListener("load", () => document.querySelector("form[data-send]")?.requestSubmit());
})();
