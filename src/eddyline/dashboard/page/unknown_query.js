// What a page says of a query that there is not: the names that there are, the nearest first.

import { get } from "./api.js";
import { element, queryLink } from "./dom.js";
import { count } from "./format.js";

const SHOWN = 60;

export async function unknownQuery(name) {
  let names = [];
  try {
    ({ names } = await get("api/queries"));
  } catch { /* the head says that the connection is lost */ }
  const wanted = name.toLowerCase();
  const order = [...names].sort((a, b) => distance(wanted, a.toLowerCase()) - distance(wanted, b.toLowerCase()) || a.localeCompare(b));
  return element("section", { class: "panel stack" },
    element("p", {}, element("b", { text: `There is no query ${name}.` }), " It was dropped, or the address has a mistake. A query that was added a moment ago appears here with the next report."),
    element("h2", { text: names.length ? `${count(names.length)} ${names.length === 1 ? "query" : "queries"}` : "The job has no queries" }),
    element("ul", { class: "names" }, order.slice(0, SHOWN).map((one) => element("li", {}, queryLink(one)))),
    names.length > SHOWN ? element("p", {}, element("a", { href: "#/queries", text: "all queries" })) : null);
}

// How many letters differ, up to the length of the longer name; names that hold the other one come first.
function distance(a, b) {
  if (a && (b.includes(a) || a.includes(b))) return 0;
  let before = Array.from({ length: b.length + 1 }, (_, n) => n);
  for (let at = 1; at <= a.length; at += 1) {
    const now = [at];
    for (let n = 1; n <= b.length; n += 1) now[n] = Math.min(before[n] + 1, now[n - 1] + 1, before[n - 1] + (a[at - 1] === b[n - 1] ? 0 : 1));
    before = now;
  }
  return before[b.length];
}
