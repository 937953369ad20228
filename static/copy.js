// Copies what stands in an element of the page, where a browser lets it.
"use strict";
(() => {
  for (const button of document.querySelectorAll("[data-copy]")) {
    const source = document.getElementById(button.dataset.copy), word = button.textContent;
    button.hidden = false;
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(source.textContent);
        button.textContent = "Copied";
        setTimeout(() => (button.textContent = word), 2000);
      } catch {
        // Without a safe connection there is no clipboard: the text is selected instead.
        getSelection().selectAllChildren(source);
      }
    });
  }
})();
