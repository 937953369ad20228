// The live view: one socket a page. Says what the page shows, lets newer panels in, and
// tells in the pill how fresh they are. A push is a hint: every panel can be fetched.
"use strict";
(() => {
  const pill = document.getElementById("live"), show = document.getElementById("now");
  if (!pill || !document.body.hasAttribute("ws-connect")) return;
  const STALE = 5000, POLL = 4500, FRESH = 5000, BEHIND = 2000, SPOKEN = 10000, EDGE = 120;
  const ENDS = {
    4401: "signed out", 4403: "not live: not for your role", 4404: "not live: not found",
    4410: "erased", 4429: "not live: too many",
  };
  let socket = null, greeted = false, failures = 0, retryAt = 0, end = "", outdated = false;
  let asked = "", mode = "", heads = {}, unpainted = 0, kept = null;
  let heard = Date.now(), polledAt = 0, spokenAt = 0, behindSince = 0;
  let freshness = 0, freshDue = false, freshAt = 0, held = null;

  const on = (name, listen) => document.addEventListener(name, listen);
  const visible = () => document.visibilityState === "visible";
  const panels = () => [...document.querySelectorAll("[data-live]")];
  const seqOf = (element) => Number(element.dataset.seq ?? 0);
  const counted = (number) => number.toLocaleString("en-US");
  const newest = () => Math.max(Number(pill.dataset.head ?? 0), 0, ...Object.values(heads));
  const clock = (time) => new Date(time).toISOString().slice(11, 19);
  const lagOf = (panel) => (heads[panel.dataset.thread] ?? 0) - seqOf(panel);
  // What is not pushed: a page that nobody moves, or a list that somebody reads.
  const standing = () => document.querySelector("[data-standing]");
  const behind = (page) => page ? (heads[page.dataset.standing] ?? 0) - seqOf(page) : 0;
  // Past the end where the newest stand: a push would pull the lines away.
  function readingIn({ dataset: { newest } }, { top, bottom }) {
    if (newest === "last") return bottom > innerHeight + EDGE;
    return newest === "first" && top < -EDGE;
  }
  const isRead = (panel) => readingIn(panel, panel.getBoundingClientRect());
  const toNewest = (panel) => panel.scrollIntoView({ block: panel.dataset.newest === "last" ? "end" : "start" });
  const say = (message) => socket?.sendImmediately(JSON.stringify(message));
  const refresh = () => panels().forEach((panel) => htmx.trigger(panel, "refresh"));

  function hello() {
    const wants = {};
    for (const panel of panels()) {
      const { live, thread } = panel.dataset;
      const want = (wants[thread] ??= { thread, panels: [], seq: Infinity });
      want.panels.push(live);
      want.seq = Math.min(want.seq, seqOf(panel));
    }
    const want = Object.values(wants).slice(0, 50), fresh = !!document.querySelector("[data-fresh]");
    const asking = JSON.stringify(want, ["thread", "panels"]);
    if (asking !== asked) say({ t: "hello", v: 1, build: document.body.dataset.build, view: document.body.dataset.view, fresh, want });
    asked = asking;
  }

  // Once the browser has painted, and only for eyes: then the next push may come.
  function painted() {
    requestAnimationFrame(() => setTimeout(() => {
      if (!unpainted || !visible()) return;
      say({ t: "ack", n: unpainted });
      unpainted = 0;
    }));
  }
  function news(said) {
    [greeted, failures, heard] = [true, 0, Date.now()];
    ({ mode, heads } = said);
    freshDue ||= said.fresh !== freshness;
    freshness = said.fresh;
  }
  // All of a page that may not be seen any more; asked for again, it says why.
  function clear(why, said = why) {
    const link = Object.assign(document.createElement("a"), { href: "", textContent: "Why?" });
    document.getElementById("main").replaceChildren(`${said}. `, link);
    document.dispatchEvent(new Event("cleared"));
  }
  const CONTROL = {
    hello: (said) => news({ fresh: freshness, ...said }),
    beat: news,
    resync({ why }) {
      outdated ||= why === "build";
      if (outdated) return;
      // What is shown may be more than there is: let anything replace it.
      for (const panel of panels()) delete panel.dataset.seq;
      refresh();
    },
    gone({ thread, receipt, erasure }) {
      const [word, id] = receipt ? ["receipt", receipt] : ["erasure", erasure ?? ""];
      const said = id ? `Erased · ${word} ${id.slice(-8)}` : "Erased";
      for (const panel of document.querySelectorAll(`[data-thread="${thread}"]`)) {
        if (panel.dataset.live === "row") {
          panel.remove();
          document.dispatchEvent(new Event("cleared"));
        } else clear((end = ENDS[4410]), said);
      }
    },
  };

  // Where an element is, in words that hold after its panel was replaced.
  function place(element) {
    const holder = element.closest("[id]"), tag = element.tagName;
    return [holder.id, tag, [...holder.querySelectorAll(tag)].indexOf(element)];
  }
  function find([id, tag, index]) {
    const holder = document.getElementById(id);
    return index < 0 ? holder : holder?.querySelectorAll(tag)[index];
  }
  function keep() {
    const folds = [...document.querySelectorAll("[data-live] details")];
    const focused = document.querySelectorAll("[data-live] :focus");
    kept = [
      ...folds.map((fold) => [place(fold), (now) => (now.open = fold.open)]),
      ...[...focused].map((each) => [place(each), (now) => now.focus({ preventScroll: true })]),
      ...[...document.querySelectorAll("[data-live] :checked")].map((box) => [place(box), (now) => (now.checked = true)]),
      ...panels().filter((panel) => panel.dataset.newest === "last" && !isRead(panel)).map((panel) => [place(panel), toNewest]),
    ];
  }
  // A warning that ended stays in its place for whoever was about to follow its link, and says when it ended.
  let warning = null;
  function stay() {
    const now = document.querySelector("[data-live] [data-stays]:not([data-ended])");
    if (now) {
      const panel = now.closest("[data-live]");
      document.querySelector("[data-ended]")?.remove();
      return (warning = { shown: now, id: panel.id, index: [...panel.children].indexOf(now) });
    }
    const panel = warning && document.getElementById(warning.id), { shown, index } = warning ?? {};
    if (!panel || shown.isConnected) return;
    shown.querySelector("b").textContent = `Was thrashing until turn ${counted(Number(shown.dataset.stays))}`;
    shown.dataset.ended = true;
    shown.classList.remove("bad");
    panel.insertBefore(shown, panel.children[index] ?? null);
  }
  // To pause is to keep what is shown now, not what was there when the page came.
  function pausing() {
    const pause = document.getElementById("pause"), seq = Math.max(0, ...panels().map(seqOf));
    if (!pause || !seq) return;
    const url = new URL(pause.href);
    url.searchParams.set("at_seq", seq);
    pause.href = url;
  }
  // A list that begins after the last row shown: no silent hole.
  function tellGap(shown, pushed) {
    const note = document.getElementById(`${shown.id}-gap`);
    const first = seqOf(shown) + 1, passed = Number(pushed.dataset.from) - first;
    if (!note || !(passed > 0)) return;
    if (note.hidden) note.href = `${note.dataset.base}?at_seq=${first}`;
    const all = (note.dataset.passed = passed + Number(note.dataset.passed ?? 0));
    Object.assign(note, { hidden: false, textContent: `${counted(all)} events passed · read them` });
  }

  htmx.defineExtension("live", {
    // Leaves of a push what is newer than the page and still wanted there.
    transformResponse(text) {
      if (!text.startsWith('<output id="live-mark"')) return text;
      const push = document.createElement("template");
      push.innerHTML = text;
      for (const pushed of [...push.content.children].slice(1)) {
        const shown = document.getElementById(pushed.id);
        heads[pushed.dataset.thread] = seqOf(pushed);
        if (!shown?.dataset.live || seqOf(shown) > seqOf(pushed)) pushed.remove();
        else if (isRead(shown)) [held] = [held ?? Date.now(), pushed.remove()];
        else tellGap(shown, pushed);
      }
      keep();
      return push.innerHTML;
    },
  });
  // By our own count: an opening that is refused at once is none.
  htmx.config.wsReconnectDelay = () => {
    retryAt = Date.now() + Math.min(8000, 250 * 2 ** failures) * (0.5 + Math.random() / 2);
    return retryAt - Date.now();
  };
  on("htmx:wsOpen", ({ detail }) => {
    [socket, asked, unpainted] = [detail.socketWrapper, "", 0];
    hello();
  });
  on("htmx:wsClose", ({ detail: { event } }) => {
    if (!greeted) failures += 1;
    [socket, greeted] = [null, false];
    if (![1006, 1011, 1012, 1013].includes(event.code)) end ||= ENDS[event.code] ?? "not live";
    if ([4403, 4410].includes(event.code)) clear(end);
    tell();
  });
  on("htmx:wsBeforeMessage", (event) => {
    if (event.detail.message[0] !== "{") return;
    event.preventDefault();
    const said = JSON.parse(event.detail.message);
    CONTROL[said.t]?.(said);
    tell();
  });
  on("htmx:wsAfterMessage", () => {
    const { n, fresh } = document.getElementById("live-mark").dataset;
    stay();
    for (const [where, apply] of kept) if (find(where)) apply(find(where));
    news({ mode, heads, fresh: Number(fresh) });
    unpainted = Number(n);
    // A turn's answer, which comes once and by itself.
    for (const due of document.querySelectorAll("[data-due]")) htmx.trigger(due, "moved");
    pausing();
    painted();
    tell();
  });
  on("htmx:beforeSwap", ({ detail }) => {
    // An answer that was overtaken by a push.
    const [, seq] = detail.serverResponse.match(/ data-seq="(\d+)"/) ?? [];
    if (detail.target.dataset.live && seq < seqOf(detail.target)) detail.shouldSwap = false;
  });
  on("htmx:afterRequest", ({ detail }) => {
    if (polledAt && detail.successful && detail.elt.dataset.live) heard = Date.now();
  });
  on("htmx:afterSettle", () => (stay(), greeted && hello(), tell()));
  on("visibilitychange", () => (painted(), tell()));
  // Back at the newest end, or sent there: what was held comes.
  function release() {
    const due = held === null ? [] : panels().filter((panel) => lagOf(panel) > 0 && !isRead(panel));
    if (due.length) held = null;
    due.forEach((panel) => htmx.trigger(panel, "refresh"));
  }
  on("scroll", release);
  show?.addEventListener("click", (event) => {
    if (held === null) return;
    event.preventDefault();
    panels().filter(isRead).forEach(toNewest);
    release();
  });

  function state(now) {
    const { at, turn } = (document.getElementById("moment") ?? pill).dataset;
    const lag = Math.max(0, ...panels().map(lagOf));
    const wait = counted(Math.max(0, Math.ceil((retryAt - now) / 1000)));
    behindSince = lag ? behindSince || now : 0;
    if (end) return [{ "signed out": "out", erased: end }[end] ?? "off", end];
    if (outdated) return ["off", "new version"];
    if (at && pill.dataset.turn) {
      return ["paused", `as of turn ${counted(Number(turn))}`, document.getElementById("head").dataset.turns - turn];
    }
    if (at) return ["paused", `as of event ${counted(Number(at))}`, newest() - at];
    if (!greeted && !navigator.onLine) return ["offline", "offline"];
    if (now - heard > STALE) return ["stale", `stale since ${clock(heard)}`];
    if (polledAt) return ["polling", "polling"];
    if (!greeted) return ["reconnecting", retryAt ? `reconnecting in ${wait} s` : "connecting"];
    const page = standing();
    if (behind(page) > 0) {
      return ["asof", `this ${page.dataset.what}: as of ${page.dataset.time}`, behind(page)];
    }
    if (held && lag) return ["asof", `this list: as of ${clock(held).slice(0, 5)}`, lag];
    if (lag && now - behindSince > BEHIND) return ["behind", `behind ${counted(lag)}`];
    return mode === "polling" ? ["polling", "polling"] : ["live", "live"];
  }
  // To where the newest stand, which is not where a later batch of a list goes on.
  function toNow() {
    const url = new URL(location.href);
    for (const moment of ["after", "at_seq", "at_turn"]) url.searchParams.delete(moment);
    return url.href;
  }
  function tell() {
    const now = Date.now(), [name, word, more] = state(now);
    const text = word[0].toUpperCase() + word.slice(1) + (more === undefined ? "" : ` · ${counted(more)} newer`);
    const stale = /stale|offline|out/.test(name), aloud = now - spokenAt > SPOKEN;
    document.documentElement.toggleAttribute("data-stale", stale);
    show.hidden = more === undefined;
    show.href = toNow();
    if (pill.dataset.text === text) return;
    // Said aloud at most once in ten seconds.
    pill.setAttribute("aria-live", aloud ? "polite" : "off");
    if (aloud) spokenAt = now;
    Object.assign(pill.dataset, { state: name, text });
    pill.textContent = text;
    if (outdated) pill.insertAdjacentHTML("beforeend", ' · <a href="">reload</a>');
  }
  setInterval(() => {
    const now = Date.now(), fresh = document.querySelectorAll("[data-fresh]");
    tell();
    if (failures < 3 || end) polledAt = 0;
    else if (visible() && now - polledAt > POLL) {
      polledAt = now;
      refresh();
    }
    if (!fresh.length || !freshDue || !visible() || now - freshAt < FRESH) return;
    [freshDue, freshAt] = [false, now];
    fresh.forEach((panel) => htmx.trigger(panel, "refresh"));
  }, 500);
  stay();
  const last = document.querySelector("[data-live][data-newest=last]");
  if (last && !location.hash && !document.querySelector("[autofocus]")) toNewest(last);
  tell();
})();
