// Rows that could not take part, grouped by stream and kind of reason, and values that became null.

import { element, table } from "./dom.js";
import { count, lately } from "./format.js";

export function deadLetters(news) {
  const parts = [];
  for (const [stream, found] of Object.entries(news.dead)) {
    for (const [kind, one] of Object.entries(found.reasons)) {
      parts.push(element("div", { class: "dead" },
        element("h3", {}, element("span", { class: "tag", text: stream }), kind),
        element("p", { class: "soft", text: `${count(one.count)} ${one.count === 1 ? "row" : "rows"}, the newest at ${lately(one.newest)}` }),
        samples(stream, kind, found.columns, one.samples)));
    }
  }
  const nulls = Object.entries(news.null_results).map(([name, value]) => [name, count(value)]);
  if (nulls.length) parts.push(element("p", { text: "values that could not be computed and became null" }), table(["function", "values"], nulls, [1], "null results"));
  return parts.length ? parts : [element("p", { class: "soft", text: "none so far" })];
}

// The newest sample first; the instant that a reason names is a column, where one names any.
function samples(stream, kind, columns, rows) {
  const shown = columns.map((name, n) => ({ name, n })).filter(({ name, n }) => name !== "_instant" || rows.some((row) => row[n] !== null));
  const title = { _reason: "reason", _instant: "instant" };
  const order = [...shown.filter(({ name }) => name === "_instant"), ...shown.filter(({ name }) => !(name in title)), ...shown.filter(({ name }) => name === "_reason")];
  const cell = (value) => (value === null ? "NULL" : String(value));
  return table(order.map(({ name }) => title[name] ?? name), [...rows].reverse().map((row) => order.map(({ n, name }) => (name === "_reason" ? element("span", { class: "reason", text: cell(row[n]) }) : cell(row[n])))), [], `${stream}: ${kind}`);
}
