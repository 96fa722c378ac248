// A form for requests, made from the parameters of a template: which groups, which figures, how far back.

import { element } from "./dom.js";

const NUMBER = /^(TINYINT|SMALLINT|INT|BIGINT|FLOAT|DOUBLE|DECIMAL.*)$/i;

// `ask` is called with the text of a request.
export function templateForm(words, isReadonly, ask) {
  const place = element("div", { class: "stack" });
  const pick = element("select", { id: "template", onchange: draw }, words.templates.map((one) => element("option", { value: one.name, text: `${one.name} (over ${one.source}, ${one.window})` })));
  let read = () => "";

  function draw() {
    const template = words.templates.find((one) => one.name === pick.value);
    const keys = template.keys.map((key) => ({
      key, group: check(`group-${key.name}`, `by ${key.name}`, true),
      only: element("input", { id: `only-${key.name}`, placeholder: "all", "aria-label": `values of ${key.name}, separated by commas` }),
    }));
    const figures = template.aggregates.map((one) => ({ one, box: check(`figure-${one.name}`, one.name, true) }));
    const size = element("input", { id: "template-window", placeholder: template.window, "aria-label": `window, at most ${template.window}` });
    const asOf = element("input", { id: "template-as-of", placeholder: "now", "aria-label": "as of, for example 2026-11-19 08:00:00" });
    read = () => requestText(template, {
      groups: keys.filter(({ group }) => group.box.checked).map(({ key }) => key.name),
      conditions: keys.filter(({ only }) => only.value.trim()).map(({ key, only }) => condition(key, only.value)),
      figures: figures.filter(({ box }) => box.box.checked).map(({ one }) => one.name), window: size.value.trim(), asOf: asOf.value.trim(),
    });
    place.replaceChildren(
      element("fieldset", {}, element("legend", { text: "groups" }), keys.map(({ key, group, only }) => element("div", { class: "field" }, group.label, element("span", { class: "soft", text: key.type }), only))),
      element("fieldset", {}, element("legend", { text: "figures" }), element("div", { class: "row" }, figures.map(({ box }) => box.label))),
      element("div", { class: "field" }, element("span", { text: "window" }), size),
      element("div", { class: "field" }, element("span", { text: "as of" }), asOf));
  }

  const send = element("button", { type: "button", class: "main", id: "template-ask", text: "ask", disabled: isReadonly, onclick: () => ask(read()) });
  if (!words.templates.length) return element("p", { class: "soft", text: "The job has no templates. CREATE TEMPLATE stands in a job's file." });
  draw();
  return element("div", { class: "stack" }, element("div", { class: "field" }, element("label", { for: "template", text: "template" }), pick), place, element("div", { class: "row" }, send));
}

function check(id, text, checked) {
  const box = element("input", { type: "checkbox", id });
  box.checked = checked;
  return { box, label: element("label", { class: "switch" }, box, text) };
}

function condition(key, text) {
  const values = text.split(",").map((one) => one.trim()).filter(Boolean).map((one) => literal(key.type, one));
  return values.length === 1 ? `${name(key.name)} = ${values[0]}` : `${name(key.name)} IN (${values.join(", ")})`;
}

function literal(type, text) {
  if (NUMBER.test(type) && /^[+-]?[\d.]+(e[+-]?\d+)?$/i.test(text)) return text;
  if (/^bool/i.test(type) && /^(true|false)$/i.test(text)) return text;
  const quoted = `'${text.replaceAll("'", "''")}'`;
  return /^(timestamp|date)$/i.test(type) ? `${type} ${quoted}` : quoted;
}

const name = (text) => (/^[A-Za-z_]\w*$/.test(text) ? text : `"${text.replaceAll('"', '""')}"`);

export function requestText(template, { groups, conditions, figures, window, asOf }) {
  const columns = [...groups, ...figures].map(name).join(", ");
  const unit = template.unit === "time" ? "RANGE" : "ROWS";
  const size = window ? ` [${/^(range|rows)\b/i.test(window) ? window : `${unit} ${window}`}]` : "";
  const where = conditions.length ? `\nWHERE ${conditions.join(" AND ")}` : "";
  const at = asOf && asOf !== "now" ? `\nAS OF TIMESTAMP '${asOf.replaceAll("'", "''")}'` : "";
  return `REQUEST ${columns}\nFROM ${name(template.name)}${size}${where}\nGROUP BY ${groups.length ? groups.map(name).join(", ") : "()"}${at}`;
}
