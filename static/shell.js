// What every page does: guards panels, tells times, sends the form of a sign-in link.
"use strict";
(() => {
  // Nothing but a panel of ours may replace a part of a page.
  document.addEventListener("htmx:beforeSwap", (event) => {
    const { xhr } = event.detail;
    if (xhr && !xhr.getResponseHeader("MH-Panel")) event.detail.shouldSwap = false;
  });

  // A page that asks for parts of itself is one view: the audit log has it once.
  document.addEventListener("htmx:configRequest", ({ detail }) => {
    const { view } = document.body.dataset;
    if (view && detail.elt.closest("#main")) detail.headers["MH-View"] = view;
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

  // What is left in the two largest units: `4 min 12 s`.
  function lasting(seconds) {
    const n = STEPS.findIndex(([limit]) => seconds < limit), [, unit, word] = STEPS[n];
    const rest = n && Math.floor((seconds % unit) / STEPS[n - 1][1]);
    return `${Math.floor(seconds / unit)} ${word}${rest ? ` ${rest} ${STEPS[n - 1][2]}` : ""}`;
  }

  // Never 0: what has expired is not there any more. Its panel is fetched again, once, for the counts beside it.
  const expired = new Set();
  function expire(time) {
    const part = time.closest("[data-expires]"), id = part.closest("[data-live]")?.id, name = `${id} ${time.dateTime}`;
    part.hidden = true;
    if (!id || expired.has(name)) return;
    expired.add(name);
    setTimeout(() => document.getElementById(id)?.dispatchEvent(new Event("refresh")), 1000);
  }
  function countDown() {
    for (const time of document.querySelectorAll("time[data-until]")) {
      const left = Math.ceil((new Date(time.dateTime) - Date.now()) / 1000);
      if (left > 0) time.textContent = lasting(left);
      else expire(time);
    }
  }

  // What is under way says for how long, while nothing else on the page moves.
  function countUp() {
    for (const time of document.querySelectorAll("time[data-since]"))
      time.textContent = lasting(Math.max(0, Math.floor((Date.now() - new Date(time.dateTime)) / 1000)));
  }
  const tell = () => (tellTimes(), countDown(), countUp());

  // On a narrow page the tab at hand is in sight.
  for (const tab of document.querySelectorAll(":is(.scroll-tabs, .seg.views) [aria-current]")) {
    const bar = tab.closest(".scroll-tabs, .seg.views"), [{ left, width }, seen] = [tab, bar].map((each) => each.getBoundingClientRect());
    bar.scrollLeft += left + width / 2 - (seen.left + seen.width / 2);
  }

  tell();
  setInterval(tellTimes, 10000);
  setInterval(() => (countDown(), countUp()), 1000);
  for (const done of ["htmx:afterSettle", "htmx:wsAfterMessage"]) document.addEventListener(done, tell);

  // A form that is sent shows so until the next page is there. A download brings none.
  const busy = (form) => {
    form.setAttribute("aria-busy", "true");
    setTimeout(() => form.removeAttribute("aria-busy"), 20000);
  };
  document.addEventListener("submit", (event) => { if (!event.defaultPrevented) busy(event.target); });
  addEventListener("pageshow", () => {
    for (const form of document.querySelectorAll("form[aria-busy]")) form.removeAttribute("aria-busy");
  });
  addEventListener("load", () => document.querySelector("form[data-send]")?.requestSubmit());
})();
