// A question before something is sent to the job.

import { element } from "./dom.js";

// Resolves to whether the answer is yes. Escape is no.
export function confirmed(question, more, word) {
  return new Promise((resolve) => {
    const dialog = element("dialog", { "aria-labelledby": "confirm-question" },
      element("h2", { id: "confirm-question", text: question }), more ? element("pre", { text: more, tabindex: "0", role: "group", "aria-label": "what is sent" }) : null,
      element("div", { class: "row" },
        element("button", { type: "button", class: "main", id: "confirm-yes", text: word, onclick: () => end(true) }),
        element("button", { type: "button", id: "confirm-no", text: "cancel", onclick: () => end(false) })));
    let answer = false;
    function end(found) {
      answer = found;
      dialog.close();
    }
    dialog.addEventListener("close", () => { dialog.remove(); resolve(answer); });
    document.body.append(dialog);
    dialog.showModal();
    dialog.querySelector("#confirm-no").focus();
  });
}
