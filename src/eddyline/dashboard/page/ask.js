// Ask: try a SELECT on later rows, send requests to templates, add queries. Errors are shown at their place in the text.

import { get, post } from "./api.js";
import { element, table } from "./dom.js";
import { count } from "./format.js";
import { tail } from "./query.js";

const RENEW = 10000;
// A tried query is kept as long as its tab is open, also when the page is loaded again.
const KEY = "eddyline-try";

export function ask({ about, looksAt }) {
  const tried = { name: sessionStorage.getItem(KEY), timer: null };
  const rows = element("div", { id: "try-rows" }), state = element("p", { class: "soft", id: "try-state" });
  const stop = element("button", { type: "button", text: "stop", id: "try-stop", hidden: true, onclick: () => end(true) });
  const tryBox = box("try", "Try a SELECT", "It runs on the rows that come from now on, writes no files, and goes 30 seconds after this page is closed.", "SELECT … FROM … WHERE …", "try", attempt, [stop]);
  const askBox = box("request", "Ask a template", "Requests are answered once, from what templates keep.", "REQUEST … FROM template WHERE …", "ask", request);
  const addBox = box("add", "Add queries", "CREATE QUERY, CREATE SINK … FOR it, SET. They stay until they are dropped.", "CREATE QUERY name AS SELECT …", "add", add);
  const dropName = element("input", { id: "drop-name", placeholder: "name of a query", "aria-label": "name of a query" });
  const dropSaid = element("div", { id: "drop-said" });
  const dropBox = element("section", { class: "panel" }, element("h2", { text: "Drop a query" }), element("div", { class: "row" }, dropName, element("button", { type: "button", class: "danger", text: "drop", id: "drop-send", disabled: about.readonly, onclick: drop })), dropSaid);
  tryBox.element.append(state, rows);
  const view = element("div", { class: "stack" }, element("h1", { text: "Ask" }),
    about.readonly ? element("p", { class: "problem", text: "This dashboard is read-only." }) : null,
    element("div", { class: "grid" }, tryBox.element, element("div", { class: "stack" }, askBox.element, addBox.element, dropBox)),
    element("section", { class: "panel" }, element("h2", { text: "The job" }), element("pre", { text: about.catalog || "" })));

  function box(id, title, more, hint, word, act, further = []) {
    const text = element("textarea", { id: `${id}-text`, placeholder: hint, spellcheck: "false", "aria-label": title });
    const said = element("div", { id: `${id}-said` });
    const button = element("button", { type: "button", class: "main", text: word, id: `${id}-send`, disabled: about.readonly, onclick: run });
    async function run() {
      button.disabled = true;
      text.classList.remove("wrong");
      said.replaceChildren();
      try {
        await act(text.value, said, text);
      } catch (problem) {
        wrong(said, text, { message: problem.message });
      }
      button.disabled = about.readonly;
    }
    text.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run(); });
    return { text, said, element: element("section", { class: "panel" }, element("h2", { text: title }), element("p", { class: "soft", text: more }), text, element("div", { class: "row" }, button, ...further), said) };
  }

  async function attempt(sql, said, text) {
    if (tried.name) await end(true);
    const { found, problem } = await post("api/try", { sql });
    if (problem) return wrong(said, text, problem);
    const refused = await became(found.record);
    if (refused) return wrong(said, text, { message: refused });
    said.replaceChildren(...found.warnings.map((warning) => element("p", { class: "warn", text: warning })));
    tried.name = found.queries[0];
    sessionStorage.setItem(KEY, tried.name);
    follow();
  }

  function follow() {
    stop.hidden = false;
    state.textContent = `${tried.name} runs; its newest rows:`;
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
    state.textContent = `${name} was dropped`;
    await post("api/drop", { queries: [name] });
  }

  async function request(sent, said, text) {
    const { found, problem } = await post("api/request", { text: sent });
    if (problem) return wrong(said, text, problem);
    said.replaceChildren(...found.answers.flatMap((one) => [element("p", { class: "soft", text: `${one.request}: ${count(one.all)} rows` }), table(one.columns, one.rows.map((row) => row.map((value) => (value === null ? "NULL" : String(value)))))]));
  }

  async function add(sql, said, text) {
    const { found, problem } = await post("api/add", { sql });
    if (problem) return wrong(said, text, problem);
    const refused = await became(found.record);
    if (refused) return wrong(said, text, { message: refused });
    said.replaceChildren(element("p", { class: "told" }, "added ", ...found.queries.flatMap((name, n) => [n ? ", " : "", element("a", { href: `#/query/${encodeURIComponent(name)}`, text: name })])), ...found.warnings.map((warning) => element("p", { class: "warn", text: warning })));
  }

  async function drop() {
    dropSaid.replaceChildren();
    const { found, problem } = await post("api/drop", { queries: [dropName.value.trim()] });
    if (problem) wrong(dropSaid, null, problem);
    else dropSaid.replaceChildren(element("p", { class: "told", text: `dropped ${found.queries.join(", ")}: results up to now are still delivered` }));
  }

  if (tried.name) follow();
  return {
    element: view,
    looksAt: tried.name,
    query(news) {
      if (news.unknown && tried.name) state.textContent = `${tried.name} waits for the job to take it up`;
      else if (news.name === tried.name) {
        state.textContent = `${tried.name} runs: ${count(news.results)} results so far; its newest rows:`;
        tail(rows, news.tail, 200);
      }
    },
    close: () => end(false),
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

function wrong(place, text, problem) {
  const parts = [element("b", { text: problem.message })];
  if (problem.line && text) {
    const line = text.value.split("\n")[problem.line - 1] ?? "";
    parts.push(element("pre", { text: `${line}\n${" ".repeat(Math.max(0, problem.column - 1))}^ line ${problem.line}, column ${problem.column}` }));
  }
  if (problem.detail) parts.push(element("div", { text: problem.detail }));
  if (problem.hint) parts.push(element("div", { class: "hint", text: `hint: ${problem.hint}` }));
  if (text) text.classList.add("wrong");
  place.replaceChildren(element("div", { class: "problem" }, ...parts));
}
