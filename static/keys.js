// Single keys. Each presses a control that stands on the page; none works while typing.
"use strict";
(() => {
  const OFF = "mh_keys_off", on = document.getElementById("keys-on");
  // The first menu of exports opens, with the focus on its first format.
  const exported = () => {
    const menu = document.querySelector(".exports");
    if (!menu) return false;
    menu.open = true;
    menu.querySelector("a").focus();
    return true;
  };
  let went = false;

  const press = (selector) => () => {
    const control = document.querySelector(selector);
    if (!control || control.hidden) return false;
    control.click();
    return true;
  };

  const walk = (by) => () => {
    const rows = [...document.querySelectorAll("[data-row]")];
    const next = rows.indexOf(document.activeElement) + by;
    rows[Math.max(0, Math.min(rows.length - 1, next))]?.focus();
    return rows.length > 0;
  };

  const step = (by) => press(`[data-step="${by}"]`);
  const KEYS = {
    "/": press("a.seek, a[data-palette]"), "?": () => (document.getElementById("sheet").togglePopover(), true), e: exported,
    j: walk(1), k: walk(-1), u: press("[data-up]"), c: press("#copy"), b: press("#pin"), " ": press("#play"),
    p: () => press("#pause")() || press("#now")(),
    "[": press("[data-mark=previous]"), "]": press("[data-mark=next]"),
    ArrowLeft: step(-1), ArrowRight: step(1), Home: step("first"), End: step("last"),
  };
  const SHIFTED = { ArrowLeft: step(-10), ArrowRight: step(10) };

  // Whether the key means something to what has the focus.
  function taken({ key, shiftKey, target }) {
    if (target.type === "range") return key.startsWith("Arrow") && !shiftKey;
    if (target.matches("input, select, textarea")) return true;
    if (key.startsWith("Arrow")) return target.matches("[tabindex='0']");
    return key === " " && target.matches("a, button, summary");
  }

  on.checked = localStorage.getItem(OFF) === null;
  on.addEventListener("change", () => {
    if (on.checked) localStorage.removeItem(OFF);
    else localStorage.setItem(OFF, "1");
  });
  document.addEventListener("keydown", (event) => {
    const { key } = event, go = went;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (!on.checked || taken(event)) return;
    went = key === "g";
    const act = go ? press(`[data-go="${key}"]`) : (event.shiftKey && SHIFTED[key]) || KEYS[key];
    if (act?.()) event.preventDefault();
  });
})();
