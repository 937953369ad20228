// The deck of a thread: steps, play, permalink. Every move goes through the range input,
// whose form asks for the panels of that moment; the last one asked for wins. While the
// thumb is being dragged only what is quick is asked for, the rest once it stands still.
"use strict";
(() => {
  const get = (id) => document.getElementById(id);
  const deck = get("deck"), range = get("at"), to = get("to"), turn = get("turn");
  const play = get("play"), speed = get("speed"), copy = get("copy"), hand = deck.querySelector(".hand");
  const STILL = 140;
  let timer = 0, still = 0, passing = false;

  const moment = () => get("moment") ?? deck;
  const clamp = (seq) => Math.max(1, Math.min(Number(range.max), seq || 1));

  function target(step) {
    if (step === "first") return 1;
    return step === "last" ? Number(range.max) : clamp(Number(range.value) + Number(step));
  }

  // All of a moment: at a step, and when the thumb has come to rest.
  function rest() {
    still = clearTimeout(still);
    passing = false;
    range.dispatchEvent(new Event("rest", { bubbles: true }));
  }

  function seek(seq) {
    range.value = clamp(seq);
    point();
    rest();
  }

  function address(seq, page = location.href) {
    const url = new URL(page.split("#")[0]);
    url.searchParams.delete("at_turn");
    url.searchParams.set("at_seq", seq);
    return url;
  }

  // Links say where the next step leads, also to those who open them elsewhere.
  function point() {
    for (const link of deck.querySelectorAll("[data-step], [data-mark]")) {
      const { step, mark } = link.dataset;
      const seq = mark ? moment().dataset[mark] : target(step);
      if (seq) link.href = address(seq);
      else link.removeAttribute("href");
    }
    // What leads away goes to the event at hand, unless that is the newest and live.
    const then = moment().dataset.at !== undefined || range.value !== range.max;
    for (const link of then ? document.querySelectorAll("[data-then]") : []) link.href = address(range.value, link.href);
    for (const here of document.querySelectorAll("[data-here]")) here.hidden = !then;
    // While playing, the field names the moment that is shown, as the pill does.
    if (!timer) to.value = range.value;
    const x = `${Number(range.max) > 1 ? (100 * (range.value - 1)) / (range.max - 1) : 0}%`;
    hand.querySelector("rect").setAttribute("x", x);
    hand.querySelector("circle").setAttribute("cx", x);
    for (const end of ["x1", "x2"]) hand.querySelector("line").setAttribute(end, x);
    const here = address(range.value);
    if (get("pause")) get("pause").href = here;
    here.searchParams.set("base", range.value);
    get("pin").href = here;
  }

  function centre() {
    const find = (selector) => moment().querySelector(`#events ${selector}`);
    const row = find("li:target") ?? find("li[aria-current]"), box = row?.closest(".scroll");
    if (box) box.scrollTop = row.offsetTop - box.clientHeight / 2;
  }

  // The panel has come: the URL becomes its permalink, which is a pause.
  function shown() {
    const seq = moment().dataset.at, pause = get("pause");
    if (seq !== undefined) history.replaceState(null, "", address(seq));
    if (timer) to.value = moment().dataset.seq;
    if (moment().dataset.turn) turn.value = moment().dataset.turn;
    if (pause) pause.hidden = seq !== undefined;
    centre();
  }

  // A group of the working set has come: it stays open at the next step, and in the link.
  function opened({ group }) {
    const form = get("scrubber"), url = new URL(location.href);
    url.searchParams.set("group", group);
    history.replaceState(null, "", url);
    form.querySelector("[name=group]")?.remove();
    form.append(Object.assign(document.createElement("input"), { type: "hidden", name: "group", value: group }));
    point();
  }

  // The head has moved: there is more to scrub over, and a live page is at its end.
  function grown() {
    const head = get("head").dataset.seq;
    range.max = head;
    get("of").textContent = Number(head).toLocaleString("en-US");
    if (moment().dataset.at === undefined) range.value = head;
    point();
  }

  // And how many turns there are by then; a live page is in the newest.
  function counted() {
    const { turns } = get("map").dataset;
    get("turns").textContent = Number(turns).toLocaleString("en-US");
    if (moment().dataset.at === undefined) turn.value = turns;
  }

  function playing(on) {
    play.setAttribute("aria-label", on ? "Stop" : "Play");
    play.classList.toggle("on", on);
  }

  function stop() {
    timer = clearInterval(timer);
    playing(false);
    get("playing").textContent = "";
  }

  function start() {
    if (range.value === range.max) seek(1);
    // At most four requests a second: faster play leaves events out, and says so.
    const rate = Number(speed.value), jump = Math.max(1, rate);
    const nth = jump === 2 ? "2nd" : `${jump}th`;
    get("playing").textContent = jump > 1 ? `every ${nth} event` : "";
    playing(true);
    timer = setInterval(() => {
      if (range.value === range.max) stop();
      else seek(Number(range.value) + jump);
    }, 250 / Math.min(1, rate));
  }

  play.hidden = copy.hidden = get("pace").hidden = false;
  play.addEventListener("click", () => (timer ? stop() : start()));
  speed.addEventListener("change", () => timer && (stop(), start()));
  // Before the form hears of it: what it asks for is what one sees in passing.
  range.addEventListener("input", () => {
    passing = true;
    clearTimeout(still);
    still = setTimeout(rest, STILL);
    point();
  });
  get("scrubber").addEventListener("htmx:configRequest", ({ detail }) => {
    if (passing) detail.parameters.passing = "1";
  });
  get("jump").addEventListener("submit", (event) => (event.preventDefault(), seek(Number(to.value))));
  copy.addEventListener("click", async () => {
    await navigator.clipboard?.writeText(String(address(range.value)));
    copy.textContent = "Copied";
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-step], [data-mark], [data-seek]");
    if (!link?.href || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    seek(Number(link.dataset.seek ?? new URL(link.href).searchParams.get("at_seq")));
  });
  document.addEventListener("htmx:afterSettle", (event) => {
    if (event.target.id === "moment") shown();
    if (event.target.matches("details.setgroup")) opened(event.target.dataset);
    point();
  });
  document.addEventListener("htmx:oobAfterSwap", (event) => {
    ({ head: grown, events: centre, map: counted })[event.target.id]?.();
  });
  point();
  centre();
})();
