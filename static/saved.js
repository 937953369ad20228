// Saved views of lists, and pinned threads. Their addresses may name threads and people,
// which must be erasable: so they stay in this browser, and the address itself is what one shares.
"use strict";
(() => {
  const { project, operator } = document.body.dataset, KEY = `mh_saved_${operator}_${project}`;
  // A list's search has room for 500 characters.
  const LONGEST = 500, MOMENT = ["at_seq", "at_turn", "after", "since"];
  const bar = document.querySelector("[data-views]"), list = bar?.dataset.views;

  function read() {
    try {
      return { views: [], pins: [], ...JSON.parse(localStorage.getItem(KEY)) };
    } catch {
      return { views: [], pins: [] };
    }
  }
  const write = (saved) => (localStorage.setItem(KEY, JSON.stringify(saved)), draw());
  const make = (tag, about, ...inner) => {
    const made = Object.assign(document.createElement(tag), about);
    made.append(...inner);
    return made;
  };

  // What the list shows, without the moment and the batch.
  function here() {
    const asked = new URLSearchParams(location.search);
    for (const [name, value] of [...asked]) if (!value || MOMENT.includes(name)) asked.delete(name);
    return asked.toString();
  }
  const findPinned = (pins) => new URLSearchParams({ q: `name:${pins.join(",")}` }).toString();

  function drawView(title, query, forget) {
    const link = make("a", { href: `?${query}`, textContent: title });
    if (query === here()) link.ariaCurrent = "true";
    const drop = make("button", { type: "button", className: "bare", textContent: "×", ariaLabel: `Forget the view ${title}` });
    drop.addEventListener("click", forget);
    return make("span", { className: "chip view" }, link, drop);
  }

  function drawForm() {
    const name = make("input", { name: "title", required: true, maxLength: 40, autocomplete: "off" });
    const form = make("form", { className: "fields" }, make("label", { textContent: "Name " }, name),
      make("button", { type: "submit", textContent: "Save" }),
      make("p", { className: "faint", textContent: "Kept in this browser. To share it, send the address." }));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const saved = read(), title = name.value.trim();
      if (!title) return;
      saved.views = saved.views.filter((view) => view.list !== list || view.title !== title);
      saved.views.push({ list, title, query: here() });
      write(saved);
    });
    return make("details", { className: "menu down" }, make("summary", { className: "button bare", textContent: "Save view" }), make("div", {}, form));
  }

  function drawBar() {
    for (const old of bar.querySelectorAll(".view, details")) old.remove();
    const { views, pins } = read(), mine = views.filter((view) => view.list === list);
    if (list === "threads" && pins.length)
      bar.append(drawView(`Pinned ${pins.length}`, findPinned(pins), () => write({ ...read(), pins: [] })));
    for (const view of mine)
      bar.append(drawView(view.title, view.query, () => write({ ...read(), views: read().views.filter((each) =>
        each.list !== list || each.title !== view.title) })));
    if (here() && !mine.some(({ query }) => query === here())) bar.append(drawForm());
  }

  // The threads that a button pins: its own, or all that are ticked.
  function getThreads({ dataset: { pin } }) {
    return pin ? [pin] : [...document.querySelectorAll("input[form=chosen]:checked")].map((box) => box.value);
  }

  function drawPins() {
    const { pins } = read();
    for (const button of document.querySelectorAll("[data-pin]")) {
      const threads = getThreads(button), all = threads.length > 0 && threads.every((name) => pins.includes(name));
      button.hidden = false;
      button.ariaPressed = String(all);
      button.textContent = all ? "Unpin" : "Pin";
    }
  }

  function pin(button) {
    const saved = read(), threads = getThreads(button), rest = saved.pins.filter((name) => !threads.includes(name));
    const pins = button.ariaPressed === "true" ? rest : [...rest, ...threads];
    if (`name:${pins.join(",")}`.length > LONGEST) button.textContent = "Pins are full";
    else write({ ...saved, pins });
  }

  function draw() {
    if (bar) drawBar();
    drawPins();
  }
  document.addEventListener("click", ({ target }) => target.closest?.("[data-pin]") && pin(target.closest("[data-pin]")));
  document.addEventListener("change", ({ target }) => target.form?.id === "chosen" && drawPins());
  addEventListener("storage", draw);
  draw();
})();
