// Passkeys: asks a device what the server wants to know, sends its answer with the form.
"use strict";
(() => {
  const READ = { create: "parseCreationOptionsFromJSON", get: "parseRequestOptionsFromJSON" };
  const known = window.PublicKeyCredential;

  async function answered({ form, dataset: { passkey: verb, ask } }) {
    const { csrfmiddlewaretoken: token, username } = form.elements;
    const body = new URLSearchParams({ csrfmiddlewaretoken: token.value, username: username?.value ?? "" });
    const asked = await fetch(ask, { method: "POST", body, redirect: "manual" });
    // Without an answer the form says what is wrong, as it does without scripts.
    if (!asked.ok) return "-";
    const publicKey = known[READ[verb]](await asked.json());
    return JSON.stringify(await navigator.credentials[verb]({ publicKey }));
  }
  for (const button of document.querySelectorAll("[data-passkey]")) {
    button.hidden = !known?.[READ[button.dataset.passkey]];
    button.addEventListener("click", async () => {
      const { passkey } = button.form.elements;
      passkey.value = await answered(button).catch(() => "");
      // Whoever closed the device's window may try again.
      if (passkey.value) button.form.submit();
    });
  }
})();
