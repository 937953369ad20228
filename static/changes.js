// What a push changed is marked for two seconds, and named once to who hears the page.
"use strict";
(() => {
  const MARKED = 2000, SPOKEN = 10000, NAMED = 3;
  const PARTS = "tr, li, article, dd, [role=row]", CELLS = "td, [role=cell]";
  const until = new Map(), news = new Map();
  let before = new Map(), spokenAt = 0, speaking = 0;

  const status = document.createElement("p");
  Object.assign(status, { className: "hidden", id: "changes" });
  status.setAttribute("role", "status");
  document.body.append(status);

  // Without ages, which change by themselves.
  function textOf(element) {
    const ages = [...element.querySelectorAll("time[data-ago], time[data-until]")];
    return ages.reduce((text, age) => text.replace(age.textContent, ""), element.textContent);
  }
  const titleOf = (part) => part.querySelector("[data-row], th") ?? part.previousElementSibling;
  function nameOf(part) {
    return (part.matches("dd") ? part.previousElementSibling : titleOf(part))?.textContent.trim() ?? "";
  }
  function keyOf(part, place) {
    const link = part.querySelector("[data-row]")?.getAttribute("href");
    return part.id || link || (part.matches("dd") ? nameOf(part) : part.querySelector("th")?.textContent) || place;
  }
  // What can change by itself, by words that hold after its panel was replaced.
  function partsOf(panel) {
    const found = new Map(), inside = [...panel.querySelectorAll(PARTS)];
    for (const [place, part] of [...(panel.matches(PARTS) ? [panel] : []), ...inside].entries()) {
      const row = `${panel.id} ${keyOf(part, place)}`;
      const cells = [...part.querySelectorAll(CELLS)];
      found.set(row, { part, row, text: textOf(part) });
      for (const [n, cell] of cells.entries()) {
        found.set(`${row} ${n}`, { part: cell, row, text: textOf(cell), cell: true });
      }
      found.get(row).celled = cells.length > 0;
    }
    return found;
  }
  const panels = () => [...document.querySelectorAll("[data-live]")];
  function remember() {
    before = new Map(panels().map((panel) => [panel.id, partsOf(panel)]));
  }

  function compare() {
    const now = Date.now();
    for (const panel of panels()) {
      const then = before.get(panel.id), label = panel.getAttribute("aria-label");
      if (!then) continue;
      for (const [key, { part, row, text, cell, celled }] of partsOf(panel)) {
        const known = then.get(key), changed = known?.text !== text;
        // A row that was there is marked by its cells.
        if (changed && (cell ? then.has(row) : !known || !celled)) until.set(key, now + MARKED);
        if (changed && !cell && label) note(label, part, known);
        if (until.get(key) > now) mark(part, until.get(key) - now);
      }
    }
    for (const [key, end] of until) if (end <= now) until.delete(key);
    speak(now);
  }
  function mark(part, left) {
    part.classList.add("now-in");
    setTimeout(() => part.classList.remove("now-in"), left);
  }
  function note(label, part, known) {
    const name = nameOf(part), value = part.matches("dd") ? part.textContent.trim() : known ? "changed" : "new";
    if (!news.has(label)) news.set(label, new Map());
    news.get(label).set(name, `${name} ${value}`.replace(/\s+/g, " ").slice(0, 80));
  }
  // At most once in ten seconds, all that came meanwhile.
  function speak(now) {
    if (!news.size || speaking) return;
    speaking = setTimeout(() => {
      status.textContent = [...news].map(([label, parts]) => {
        const named = [...parts.values()].slice(0, NAMED).join(", "), more = parts.size - NAMED;
        return `${label}: ${named}${more > 0 ? ` and ${more} more` : ""}`;
      }).join(". ");
      news.clear();
      [spokenAt, speaking] = [Date.now(), 0];
    }, Math.max(0, spokenAt + SPOKEN - now));
  }

  const on = (name, listen) => document.addEventListener(name, listen);
  const pushed = ({ detail: { message } }) => message[0] === "<";
  // Of what may not be seen any more nothing stays, neither to compare nor to be spoken.
  on("cleared", () => {
    speaking = clearTimeout(speaking);
    status.textContent = "";
    for (const kept of [before, news, until]) kept.clear();
  });
  on("htmx:wsBeforeMessage", (event) => pushed(event) && remember());
  on("htmx:wsAfterMessage", (event) => event.detail.message.includes("<output") && compare());
  on("htmx:beforeSwap", ({ detail }) => detail.target.dataset.live && remember());
  on("htmx:afterSettle", ({ detail }) => detail.elt.dataset?.live && compare());
})();
