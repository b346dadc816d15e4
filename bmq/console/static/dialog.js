// Questions before something is changed. The browser's own <dialog> keeps the focus inside and closes with Escape.

import { button, field, h, note, put, set } from "./dom.js";

/**
 * Ask before an action. `name`: has to be typed first, for what cannot be undone. `act`: does it; its result is shown by `done`.
 * Resolves to whether it was done.
 */
export function confirm({ title, text, action, name, act, isDangerous = false }) {
  return new Promise((resolve) => {
    const trouble = h("div");
    const typed = h("input", { type: "text", autocomplete: "off", spellcheck: "false" });
    const go = button(action, perform, { class: isDangerous ? "danger" : "primary", disabled: name !== undefined });
    const dialog = h(
      "dialog", { "aria-label": title },
      h("h2", {}, title),
      h("div", {}, text),
      name === undefined ? null : field(`Type ${name} to confirm`, typed),
      trouble,
      h("div", { class: "row" }, go, button("Cancel", () => dialog.close("no"))),
    );
    typed.addEventListener("input", () => { go.disabled = typed.value !== name; });
    typed.addEventListener("keydown", (event) => { if (event.key === "Enter" && !go.disabled) perform(); });
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
    async function perform() {
      go.disabled = true;
      try {
        await act();
        dialog.close("yes");
      } catch (error) {
        set(trouble, refused(error));
        go.disabled = false;
      }
    }
    put(document.body, dialog);
    dialog.showModal();
  });
}

/** What to say when an action failed; a missing right is told apart. */
export function refused(error) {
  return note("bad", error.status === 403 ? `Not allowed: ${error.message}` : error.message);
}
