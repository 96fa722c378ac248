// A place to write statements: completion as one types, and a mark where a mistake is.

import { offered } from "./completion.js";
import { element } from "./dom.js";

// The height of a line, as the style has it, in pixels, and the margin of the text.
const LINE = 19, PAD = 10;

export class Editor {
  // `run` is called by Ctrl+Enter, `changed` with the text.
  constructor({ value = "", run, changed }) {
    this.words = null;
    this.run = run;
    this.changed = changed;
    this.list = element("ul", { class: "offers", id: "offers", role: "listbox", "aria-label": "completions", hidden: true });
    this.text = element("textarea", { id: "ask-text", "aria-label": "statement", "aria-autocomplete": "list", "aria-controls": "offers", "aria-describedby": "ask-keys", spellcheck: "false", autocapitalize: "off", wrap: "off", placeholder: "SELECT … FROM … WHERE …",
      oninput: () => { this.offer(); this.edited(); }, onkeydown: (event) => this.key(event), onblur: () => this.close(), onscroll: () => this.close(), onclick: () => this.close() });
    this.text.value = value;
    this.element = element("div", { class: "editor" }, this.text, this.list);
    this.found = { start: 0, items: [] };
    this.chosen = -1;
  }

  get value() {
    return this.text.value;
  }

  set value(text) {
    this.text.value = text;
    this.close();
    this.edited();
  }

  edited() {
    this.text.classList.remove("wrong");
    this.text.removeAttribute("aria-invalid");
    this.changed(this.value);
  }

  wrong(problem) {
    this.text.classList.add("wrong");
    this.text.setAttribute("aria-invalid", "true");
    if (!problem.line) return;
    const lines = this.value.split("\n"), start = lines.slice(0, problem.line - 1).reduce((sum, line) => sum + line.length + 1, 0) + Math.max(0, problem.column - 1);
    this.text.focus();
    this.text.setSelectionRange(start, start + (this.value.slice(start).match(/^\w+/)?.[0].length ?? 1));
  }

  // -- completion

  get isOpen() {
    return !this.list.hidden;
  }

  offer(isAsked = false) {
    if (!this.words || this.text.selectionStart !== this.text.selectionEnd) return this.close();
    this.found = offered(this.value, this.text.selectionStart, this.words, isAsked);
    if (!this.found.items.length) return this.close();
    this.list.replaceChildren(...this.found.items.map((one, n) => element("li", { id: `offer-${n}`, role: "option", "aria-selected": "false", onmousedown: (event) => { event.preventDefault(); this.take(n); } },
      element("b", { text: one.text }), element("span", { class: "kind", text: one.kind }), element("span", { class: "help", text: one.help }))));
    this.list.hidden = false;
    this.place();
    this.choose(0, false);
  }

  // Below the line of the cursor, and never beyond the right edge.
  place() {
    const before = this.value.slice(0, this.found.start).split("\n");
    const probe = document.createElement("canvas").getContext("2d");
    probe.font = getComputedStyle(this.text).font;
    const left = PAD + probe.measureText(before.at(-1)).width - this.text.scrollLeft;
    this.list.style.left = `${Math.max(0, Math.min(left, this.element.clientWidth - this.list.offsetWidth))}px`;
    this.list.style.top = `${Math.min(PAD + before.length * LINE - this.text.scrollTop, this.text.offsetHeight)}px`;
  }

  // `isSure`: an arrow key has chosen, so that Enter takes it.
  choose(n, isSure = true) {
    const items = [...this.list.children];
    this.chosen = (n + items.length) % items.length;
    this.isSure = isSure;
    items.forEach((item, at) => item.setAttribute("aria-selected", String(at === this.chosen)));
    items[this.chosen].scrollIntoView({ block: "nearest" });
    this.text.setAttribute("aria-activedescendant", `offer-${this.chosen}`);
  }

  take(n) {
    const { start, items } = this.found, text = items[n].text;
    this.text.setRangeText(text, start, this.text.selectionStart, "end");
    this.close();
    this.edited();
    this.text.focus();
  }

  close() {
    this.list.hidden = true;
    this.chosen = -1;
    this.text.removeAttribute("aria-activedescendant");
  }

  key(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      this.close();
      this.run();
    } else if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      this.offer(true);
    } else if (this.isOpen) {
      const steps = { ArrowDown: 1, ArrowUp: -1 };
      if (event.key in steps) this.choose(this.chosen + steps[event.key]);
      else if (event.key === "Tab" || (event.key === "Enter" && this.isSure)) this.take(this.chosen);
      else if (event.key === "Escape") this.close();
      else return;
      event.preventDefault();
    }
  }
}
