// The palette: the search page in a dialog, over any page. Ctrl-K opens it, and whatever
// leads to the search page; arrows go through what was found.
"use strict";
(() => {
  const SEEK = "a.seekin, a.seek, a[data-palette]";
  const opener = () => document.querySelector(SEEK);
  const box = () => document.querySelector(".palette");
  const hits = () => [...(box()?.querySelectorAll(".hit") ?? [])];
  // What was looked for last, what to do once that is what was typed last, and whether the form sends itself by htmx.
  let asked = "", waiting = null, listening = true;

  // Where one stands goes along: a thread, and as of when.
  function address(link) {
    const { pathname, searchParams } = new URL(link.href);
    const seq = new URL(location.href).searchParams.get("at_seq");
    if (searchParams.has("thread") && seq) searchParams.set("at_seq", seq);
    return `${pathname}/palette?${searchParams}`;
  }

  function show(link) {
    if (box()) return box().querySelector("#q")?.focus();
    const dialog = document.createElement("dialog");
    dialog.className = "palette";
    dialog.setAttribute("aria-label", "Search and go to");
    document.body.append(dialog);
    // Whoever opens it types at once; what is typed until the palette is there is kept.
    const early = dialog.appendChild(document.createElement("div"));
    early.className = "ask";
    const typed = early.appendChild(document.createElement("input"));
    Object.assign(typed, { id: "q", maxLength: 500, autocomplete: "off", spellcheck: false });
    typed.setAttribute("aria-label", "Search and go to");
    // The browser gives the focus back to where it was.
    // What still runs would put its answer where nothing is any more.
    dialog.addEventListener("close", () => {
      for (const asking of dialog.querySelectorAll("[hx-get], [hx-post]")) htmx.trigger(asking, "htmx:abort");
      dialog.remove();
    });
    dialog.addEventListener("click", ({ target }) => target === dialog && dialog.close());
    dialog.showModal();
    typed.focus();
    listening = false;
    const leave = () => dialog.open && location.assign(link.href);
    const once = (name, act) => {
      const heard = ({ detail }) => {
        if (detail.target !== dialog) return;
        dialog.removeEventListener(name, heard);
        act(dialog.querySelector("#q"));
      };
      dialog.addEventListener(name, heard);
    };
    once("htmx:afterSwap", (input) => {
      if (!input) return leave();
      asked = input.value;
      if (typed.value) input.value = typed.value;
      input.focus();
      went = false;
      rechoose();
      const close = dialog.querySelector("[data-close]");
      close.hidden = false;
      close.addEventListener("click", () => dialog.close());
    });
    // Only now does its form listen.
    once("htmx:afterSettle", (input) => {
      listening = true;
      if (!input || input.value === asked) return;
      const later = waiting;
      input.dispatchEvent(new Event("input", { bubbles: true }));
      waiting = later;
    });
    htmx.ajax("GET", address(link), { target: dialog, swap: "innerHTML" }).catch(leave);
  }

  // One row is chosen: the first, until somebody goes to another. Enter opens it, and
  // the preview is of it, whatever answers late.
  const chosen = () => document.querySelector("#found .hit[aria-current]");
  let went = false, soon = 0;

  function choose(hit) {
    const before = chosen();
    if (!hit || hit === before) return;
    before?.removeAttribute("aria-current");
    hit.setAttribute("aria-current", "true");
    clearTimeout(soon);
    soon = setTimeout(preview, 150, hit);
  }

  function preview(hit) {
    const pane = document.getElementById("preview");
    if (!pane || hit !== chosen()) return;
    if (hit.hasAttribute("hx-post")) return htmx.trigger(hit, "chosen");
    const none = Object.assign(document.createElement("p"), { className: "faint", textContent: "Enter opens it; there is no preview." });
    pane.replaceChildren(none);
  }

  // What was found has changed: the first row is chosen, or what somebody chose stays.
  function rechoose() {
    if (went && chosen()) return;
    went = false;
    choose(hits()[0]);
  }

  function move(by) {
    const all = hits(), input = box().querySelector("#q");
    if (!all.length) return false;
    const next = all.indexOf(chosen()) + by;
    const goal = next < 0 ? input : all[Math.min(next, all.length - 1)];
    goal?.focus();
  }

  // Do what waits, unless what was typed last has not been looked for yet.
  function proceed() {
    if (waiting && asked === box().querySelector("#q").value && waiting() !== false) waiting = null;
  }

  function open(hit, now) {
    if (now && hit.dataset.now) location.assign(hit.dataset.now);
    else hit.click();
  }

  // A search of a project has its first hits some requests later, and its best perhaps after weaker ones.
  const searching = () => box()?.querySelector("#scan button[name=stop]");

  function openChosen(now) {
    const hit = chosen() ?? hits()[0];
    if (!hit || (!went && searching() && hit.matches(".said") && box().querySelector("[data-awaits]"))) return false;
    open(hit, now);
    return true;
  }

  document.addEventListener("keydown", (event) => {
    const { key, ctrlKey, metaKey, shiftKey, target } = event;
    if ((ctrlKey || metaKey) && key.toLowerCase() === "k" && opener()) {
      event.preventDefault();
      return show(opener());
    }
    if (!box()?.contains(target)) return;
    // Single keys mean nothing of the page below.
    event.stopImmediatePropagation();
    if (key === "ArrowDown" || key === "ArrowUp") {
      event.preventDefault();
      waiting = () => move(key === "ArrowDown" ? 1 : -1);
      proceed();
    } else if (key === "Enter" && target.id === "q") {
      if (asked === target.value && openChosen(shiftKey)) return event.preventDefault();
      waiting = () => openChosen(shiftKey);
      // A search that runs goes on; else it is looked for anew.
      if (asked === target.value && searching()) return event.preventDefault();
      asked = null;
      // Till its form listens the browser would leave the page; then it is looked for.
      if (!listening) event.preventDefault();
      else if (shiftKey) target.form?.requestSubmit();
    } else if (key === "Enter" && shiftKey && target.matches(".hit")) {
      event.preventDefault();
      open(target, true);
    } else if (key.length === 1 && key !== " " && target.matches(".hit")) {
      box().querySelector("#q").focus();
    }
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.(SEEK);
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    show(link);
  });
  // Whoever types on wants something else.
  document.addEventListener("input", ({ target }) => { if (target.id === "q") waiting = null; });
  document.addEventListener("htmx:afterSettle", ({ detail }) => {
    if (detail.target?.id === "scan" && box()) {
      rechoose();
      proceed();
    }
    if (detail.target?.id !== "found") return;
    asked = detail.requestConfig.parameters.q;
    // The search page is at the address of what it shows.
    const shown = detail.xhr.getResponseHeader("MH-Address");
    if (shown) history.replaceState(history.state, "", shown);
    went = false;
    if (box()) rechoose();
    if (box()) proceed();
  });
  // A search that gets no answer can be gone on with.
  for (const lost of ["htmx:timeout", "htmx:sendError", "htmx:responseError"]) {
    document.addEventListener(lost, ({ detail }) => {
      // Neither does a palette stay that did not come.
      if (detail.target && detail.target === box() && opener()) return location.assign(opener().href);
      const scan = detail.elt?.closest?.("#scan"), button = scan?.querySelector("button");
      if (!button) return;
      button.textContent = "No answer; try again";
      button.removeAttribute("name");
    });
  }
  const hitOf = ({ target }) => target.closest?.("#found .hit");
  document.addEventListener("focusin", (event) => {
    const hit = hitOf(event);
    if (!hit) return;
    went = true;
    choose(hit);
  });
  // A list that comes to lie under a mouse at rest is not chosen from.
  document.addEventListener("mousemove", (event) => {
    const hit = (event.movementX || event.movementY) && hitOf(event);
    if (!hit) return;
    went = true;
    choose(hit);
  });
  document.addEventListener("htmx:beforeSwap", ({ detail }) => {
    if (detail.target.id === "preview" && detail.requestConfig.elt !== chosen()) detail.shouldSwap = false;
  });
  document.addEventListener("click", (event) => {
    if (!event.target.closest?.("[data-widen]") || !box()) return;
    event.preventDefault();
    box().querySelector("input[name=scope][value=project]").click();
  });
  // The page of its own comes with its first hit chosen and previewed.
  if (box()) hits()[0]?.setAttribute("aria-current", "true");
})();
