// The line of the text that the address names is selected, and in view.
"use strict";
(() => {
  const line = Number(new URLSearchParams(location.search).get("line"));
  const text = document.getElementById("text"), lines = text.value.split(/[\n\v\f\x1c-\x1e\x85\u2028\u2029]/);
  if (!(line >= 1 && line <= lines.length)) return;
  const begin = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0);
  text.focus();
  // The browser scrolls to the caret when text is cut off there.
  const rest = text.value;
  text.value = rest.slice(0, begin);
  text.scrollTop = text.scrollHeight;
  const top = text.scrollTop;
  text.value = rest;
  text.scrollTop = top;
  text.setSelectionRange(begin, begin + lines[line - 1].length);
})();
