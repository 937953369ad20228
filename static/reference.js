// The API's reference: draws the document, is dark where other pages are, and names for
// screen readers what the library leaves without a name.
"use strict";
(() => {
  const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)");
  const page = document.getElementById("swagger-ui");
  // Headings begin at the third level there.
  const NAMES = {
    h3: { "aria-level": "2" }, h4: { "aria-level": "3" }, h5: { "aria-level": "4" },
    select: { "aria-label": "Choose" },
    "textarea.body-param__text": { "aria-label": "Body" },
    ".parameters input[type=text]": { "aria-label": "Value" },
    ".close-modal": { "aria-label": "Close" },
    ".modal-btn.authorize": { "aria-label": "Authorize" },
  };

  function name() {
    for (const [selector, attributes] of Object.entries(NAMES)) {
      for (const element of page.querySelectorAll(selector)) {
        for (const [key, value] of Object.entries(attributes)) {
          if (element.getAttribute(key) !== value) element.setAttribute(key, value);
        }
      }
    }
  }
  function follow() {
    const { theme } = root.dataset;
    root.classList.toggle("dark-mode", theme ? theme === "dark" : dark.matches);
  }

  dark.addEventListener("change", follow);
  follow();
  new MutationObserver(name).observe(page, { childList: true, subtree: true });
  // A link inside of a button is none for a keyboard; the address moves without it.
  const plain = ({ React }) => ({
    wrapComponents: { DeepLink: () => ({ text }) => React.createElement("span", null, text) },
  });
  SwaggerUIBundle({
    ...JSON.parse(page.dataset.settings),
    domNode: page,
    presets: [SwaggerUIBundle.presets.apis],
    plugins: [plain],
  });
})();
