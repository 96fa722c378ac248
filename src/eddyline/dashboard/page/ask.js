// Ask: a workbench. One editor for what is tried, asked and added; results below it; templates and changes beside it.

import { get, post } from "./api.js";
import { changePanel } from "./change_panel.js";
import { confirmed } from "./confirm.js";
import { element, problemBox, queryLink } from "./dom.js";
import { Editor } from "./editor.js";
import { count } from "./format.js";
import { Results } from "./results.js";
import { templateForm } from "./template_form.js";

const RENEW = 10000;
// A tried query is kept as long as its tab is open, also when the page is loaded again.
const KEY = "eddyline-try";
// Longer texts stand in no address.
const SHARED = 8000;
const KINDS = { try: ["try", "It runs on the rows that come from now on, writes no files, and goes 30 seconds after this page is closed."], request: ["ask", "It is answered once, from what templates keep."], add: ["add …", "What it creates stays until it is dropped."] };

// What a text asks for, by its first word.
const kindOf = (text) => (/^\s*request\b/i.test(text) ? "request" : /^\s*(create|set|drop)\b/i.test(text) ? "add" : "try");

export function ask({ argument, about, looksAt }) {
  const tried = { name: sessionStorage.getItem(KEY), timer: null };
  const results = new Results(), said = element("div", { id: "ask-said" }), kind = element("p", { class: "soft", id: "ask-kind" });
  const send = element("button", { type: "button", class: "main", id: "ask-send", disabled: about.readonly, onclick: run });
  const stop = element("button", { type: "button", text: "stop", id: "try-stop", hidden: true, onclick: () => end(true) });
  const share = element("button", { type: "button", id: "share", text: "copy address", onclick: copy });
  const editor = new Editor({ value: argument ?? "", run, changed });
  const templates = element("div", {}), changes = element("div", {});
  const view = element("div", { class: "stack" }, element("h1", { text: "Ask" }),
    about.readonly ? element("p", { class: "problem", text: "This dashboard is read-only." }) : null,
    element("div", { class: "bench" },
      element("div", { class: "stack" },
        element("section", { class: "panel", "aria-label": "statement" }, editor.element, kind,
          element("p", { class: "soft", id: "ask-keys", text: "Ctrl+Enter sends, Ctrl+Space completes, Tab takes what is offered, Escape closes it." }),
          element("div", { class: "row" }, send, stop, share), said),
        results.element),
      element("div", { class: "stack" },
        element("section", { class: "panel" }, element("h2", { text: "Templates" }), templates),
        element("section", { class: "panel" }, element("h2", { text: "Change the job" }), changes),
        element("section", { class: "panel" }, element("details", {}, element("summary", { text: "The job" }), element("pre", { tabindex: "0", role: "group", "aria-label": "statements of the job", text: about.catalog || "" }))))));
  let kept = null, isBusy = false;

  function changed(text) {
    const [word, more] = KINDS[kindOf(text)];
    send.textContent = word;
    kind.textContent = more;
    clearTimeout(kept);
    // The address in the browser's bar is that of the text.
    kept = setTimeout(() => history.replaceState(null, "", address(text)), 300);
  }

  const address = (text) => (text.trim() && text.length <= SHARED ? `#/ask/${encodeURIComponent(text)}` : "#/ask");

  async function copy() {
    const link = new URL(address(editor.value), location.href).href;
    try {
      await navigator.clipboard.writeText(link);
      said.replaceChildren(element("p", { class: "told", role: "status", text: "the address of this text is copied; who opens it needs the token of the dashboard too" }));
    } catch {
      const shown = element("input", { id: "address", readonly: true, "aria-label": "address of this text", value: link });
      said.replaceChildren(shown);
      shown.select();
    }
  }

  async function learn() {
    try {
      editor.words = await get("api/vocabulary");
    } catch { return; }
    templates.replaceChildren(templateForm(editor.words, about.readonly, (text) => { editor.value = text; run(); }));
    changes.replaceChildren(changePanel(editor.words, about.readonly, (text) => { editor.value = text; editor.text.focus(); }));
  }

  // -- what is sent

  async function run() {
    if (isBusy || about.readonly) return;
    isBusy = send.disabled = true;
    said.replaceChildren();
    try {
      await { try: attempt, request, add }[kindOf(editor.value)](editor.value);
    } catch (problem) {
      wrong({ message: problem.message });
    }
    isBusy = send.disabled = false;
  }

  function wrong(problem) {
    said.replaceChildren(problemBox(problem, editor.value));
    editor.wrong(problem);
  }

  const warned = (found) => found.warnings.map((warning) => element("p", { class: "warn", text: warning }));

  async function attempt(sql) {
    if (tried.name) await end(true);
    const { found, problem } = await post("api/try", { sql });
    if (problem) return wrong(problem);
    const refused = await became(found.record);
    if (refused) return wrong({ message: refused });
    said.replaceChildren(...warned(found));
    results.clear();
    tried.name = found.queries[0];
    sessionStorage.setItem(KEY, tried.name);
    follow();
  }

  function follow() {
    stop.hidden = false;
    results.say(`${tried.name} runs`);
    looksAt(tried.name);
    tried.timer = setInterval(() => post("api/renew", { query: tried.name }).catch(() => {}), RENEW);
    post("api/renew", { query: tried.name }).catch(() => {});
  }

  async function end(isDropped) {
    clearInterval(tried.timer);
    const name = tried.name;
    tried.name = null;
    if (!isDropped || !name) return;
    sessionStorage.removeItem(KEY);
    stop.hidden = true;
    looksAt(null);
    results.say(`${name} was dropped`);
    await post("api/drop", { queries: [name] });
  }

  async function request(text) {
    const { found, problem } = await post("api/request", { text });
    if (problem) return wrong(problem);
    if (tried.name) await end(true);
    const last = found.answers.at(-1);
    results.say(found.answers.map((one) => `${one.request}: ${count(one.all)} ${one.all === 1 ? "row" : "rows"}`).join("; "));
    results.show(last.columns, last.rows, false);
  }

  async function add(sql) {
    if (!await confirmed("Add this to the job?", sql, "add")) return;
    const { found, problem } = await post("api/add", { sql });
    if (problem) return wrong(problem);
    const refused = await became(found.record);
    if (refused) return wrong({ message: refused });
    said.replaceChildren(element("p", { class: "told", role: "status" }, "added ", ...found.queries.flatMap((name, n) => [n ? ", " : "", queryLink(name)])), ...warned(found));
    learn();
  }

  changed(editor.value);
  learn();
  if (tried.name) follow();
  return {
    title: "Ask",
    element: view,
    looksAt: tried.name,
    query(news) {
      if (news.unknown && tried.name) results.say(`${tried.name} waits for the job to take it up`);
      else if (tried.name && news.name === tried.name) {
        results.say(`${tried.name} runs: ${count(news.results)} results so far; its newest rows:`);
        if (news.tail) results.show(news.tail.columns, news.tail.rows, true);
      }
    },
    close() {
      clearTimeout(kept);
      results.close();
      return end(false);
    },
  };
}

// Shows the reason if the job refuses a record. A job that does not run reads the record at its next start.
async function became(number) {
  for (let tries = 0; tries < 40; tries += 1) {
    const found = await get(`api/record?number=${number}`);
    if (found.state === "refused") return found.reason;
    if (found.state === "taken") return null;
    await new Promise((resolve) => setTimeout(resolve, 150));
  }
  return null;
}
