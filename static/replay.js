// The scrubber of a thread: steps, play, permalink. Every move goes through the range
// input, whose form asks for the panel of that moment; the last one asked for wins.
"use strict";
(() => {
  const get = (id) => document.getElementById(id);
  const deck = get("deck"), range = get("at"), to = get("to");
  const play = get("play"), speed = get("speed"), copy = get("copy");
  let timer = 0;

  const moment = () => get("moment") ?? deck;
  const clamp = (seq) => Math.max(1, Math.min(Number(range.max), seq));

  function target(step) {
    if (step === "first") return 1;
    return step === "last" ? Number(range.max) : clamp(Number(range.value) + Number(step));
  }

  function seek(seq) {
    range.value = clamp(seq);
    range.dispatchEvent(new Event("input", { bubbles: true }));
  }

  function address(seq) {
    const url = new URL(location.href.split("#")[0]);
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
    to.value = range.value;
    const here = address(range.value);
    if (get("pause")) get("pause").href = here;
    here.searchParams.set("base", range.value);
    get("pin").href = here;
  }

  function centre() {
    const find = (selector) => moment().querySelector(selector);
    const row = find("li:target") ?? find("li[aria-current]"), box = row?.closest(".scroll");
    if (box) box.scrollTop = row.offsetTop - box.clientHeight / 2;
  }

  // The panel has come: the URL becomes its permalink, and to pause is to go live again.
  function shown() {
    const seq = moment().dataset.at, pause = get("pause");
    if (seq !== undefined) history.replaceState(null, "", address(seq));
    if (seq !== undefined && pause) {
      pause.id = "resume";
      pause.textContent = "Go live";
      pause.href = deck.dataset.base;
    }
    centre();
  }

  // The head has moved: there is more to scrub over, and a live page is at its end.
  function grown() {
    const head = get("head").dataset.seq;
    range.max = to.max = head;
    get("of").textContent = Number(head).toLocaleString("en-US");
    if (moment().dataset.at === undefined) range.value = head;
    point();
  }

  function stop() {
    timer = clearInterval(timer);
    play.textContent = "Play";
    get("playing").textContent = "";
  }

  function start() {
    if (range.value === range.max) seek(1);
    // At most four requests a second: faster play leaves events out, and says so.
    const rate = Number(speed.value), jump = Math.max(1, rate);
    const nth = jump === 2 ? "2nd" : `${jump}th`;
    get("playing").textContent = jump > 1 ? `every ${nth} event` : "";
    play.textContent = "Stop";
    timer = setInterval(() => {
      if (range.value === range.max) stop();
      else seek(Number(range.value) + jump);
    }, 250 / Math.min(1, rate));
  }

  play.hidden = copy.hidden = get("pace").hidden = false;
  play.addEventListener("click", () => (timer ? stop() : start()));
  speed.addEventListener("change", () => timer && (stop(), start()));
  range.addEventListener("input", point);
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
    point();
  });
  document.addEventListener("htmx:oobAfterSwap", (event) => {
    ({ head: grown, events: centre })[event.target.id]?.();
  });
  point();
  centre();
})();
