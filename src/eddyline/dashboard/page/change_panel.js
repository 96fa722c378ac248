// Changes of a job, chosen from lists: what to add, which query to drop, which trigger to set. Each is confirmed before it is sent.

import { post } from "./api.js";
import { confirmed } from "./confirm.js";
import { element, problemBox } from "./dom.js";

const ADDED = {
  query: "CREATE QUERY name AS\nSELECT …\nFROM …",
  "query with files": "CREATE QUERY name AS\nSELECT …\nFROM …;\nCREATE SINK name_files FOR name WITH (format = 'parquet', path = 'results/name')",
  stream: "CREATE STREAM name AS\nSELECT …\nFROM …",
  punctuation: "CREATE PUNCTUATION name ON stream (column) FROM stream (column)",
};
// More queries than this are found by typing.
const LISTED = 300;

// `write` puts a text into the editor.
export function changePanel(words, isReadonly, write) {
  const said = element("div", { id: "change-said" });
  const what = element("select", { id: "add-what" }, Object.keys(ADDED).map((one) => element("option", { value: one, text: one })));
  const drop = queryPicker("drop-name", words.queries), target = queryPicker("set-query", words.queries);
  const options = words.settings.filter((one) => one.changes);
  const option = element("select", { id: "set-option", onchange: explain }, options.map((one) => element("option", { value: one.name, text: one.name })));
  const values = element("datalist", { id: "set-values" }), value = element("input", { id: "set-value", list: "set-values", "aria-label": "value" }), help = element("p", { class: "soft" });

  function explain() {
    const found = options.find((one) => one.name === option.value);
    values.replaceChildren(...(found?.values ?? "").split("|").map((one) => element("option", { value: one.trim().replaceAll("'", "") })));
    help.textContent = found ? `${found.help}: ${found.values}` : "";
  }

  async function send(question, more, word, path, body, done) {
    said.replaceChildren();
    if (!await confirmed(question, more, word)) return;
    const { found, problem } = await post(path, body);
    said.replaceChildren(problem ? problemBox(problem) : element("p", { class: "told", role: "status", text: done(found) }));
  }

  const button = (id, text, kind, onclick) => element("button", { type: "button", id, class: kind, text, disabled: isReadonly, onclick });
  explain();
  return element("div", { class: "stack" },
    element("div", { class: "field" }, element("label", { for: "add-what", text: "add a" }), what, button("add-write", "write", null, () => write(ADDED[what.value]))),
    element("div", { class: "field" }, element("label", { for: "drop-name", text: "drop" }), drop.parts, button("drop-send", "drop …", "danger", () => drop.value && send(`Drop the query ${drop.value}?`, "Its results up to now are still delivered.", "drop", "api/drop", { queries: [drop.value] }, (found) => `dropped ${found.queries.join(", ")}`))),
    element("div", { class: "field" }, element("label", { for: "set-query", text: "set for" }), target.parts),
    element("div", { class: "field" }, element("label", { for: "set-option", text: "option" }), option, value, values, button("set-send", "set …", null, () => target.value && send(`Set ${option.value} of ${target.value}?`, `${option.value} = ${value.value}`, "set", "api/set", { query: target.value, settings: { [option.value]: value.value } }, (found) => `set ${Object.entries(found.settings).map(([name, one]) => `${name} = ${one}`).join(", ")} of ${found.query}`))),
    help, said);
}

// A list to choose from; with very many names, one that filters as one types.
function queryPicker(id, names) {
  const shown = names.filter((name) => !name.startsWith("try_"));
  if (shown.length <= LISTED) {
    const select = element("select", { id }, shown.map((name) => element("option", { value: name, text: name })));
    return { parts: [select], get value() { return select.value; } };
  }
  const list = element("datalist", { id: `${id}-list` }, shown.map((name) => element("option", { value: name })));
  const input = element("input", { id, list: `${id}-list`, placeholder: "name of a query" });
  return { parts: [input, list], get value() { return input.value.trim(); } };
}
