// Queries: a table that sorts and filters. Only visible lines are elements, so that ten thousand queries scroll like ten.

import { get } from "./api.js";
import { element } from "./dom.js";
import { count, lately, percent, rate, seconds } from "./format.js";

const LINE = 30, EVERY = 2000;
const COLUMNS = [
  ["names", "query", (v) => v, false], ["results", "results", count, true], ["rate", "rate", (v) => rate(v), true], ["share", "work", percent, true],
  ["mean", "mean", seconds, true], ["p95", "p95", seconds, true], ["state", "state", (v) => v, false], ["since", "since", lately, false], ["sql", "SQL", (v) => v.replace(/\s+/g, " "), false],
];

export function queries() {
  const search = element("input", { type: "search", placeholder: "filter by name or SQL", "aria-label": "filter queries" });
  const said = element("span", { class: "soft", id: "query-count" });
  const head = element("div", { class: "head", role: "row" });
  const space = element("div", { class: "space" });
  const box = element("div", { class: "virtual", id: "query-table", tabindex: "0" }, head, space);
  const view = element("div", {}, element("div", { class: "row" }, search, said), box);
  let data = null, order = [], sorted = ["rate", true], asked = 0, closed = false;

  for (const [key, title, , isNumber] of COLUMNS) {
    head.append(element("button", { type: "button", text: title, class: isNumber ? "number" : null, "data-key": key, onclick: () => {
      sorted = [key, sorted[0] === key ? !sorted[1] : isNumber];
      arrange();
    } }));
  }

  function arrange() {
    if (!data) return;
    const word = search.value.trim().toLowerCase(), [key, isDown] = sorted, values = data[key];
    order = data.names.map((_, n) => n);
    if (word) order = order.filter((n) => data.names[n].toLowerCase().includes(word) || data.sql[n].toLowerCase().includes(word));
    const low = isDown ? -Infinity : Infinity;
    order.sort((a, b) => {
      const x = values[a] ?? low, y = values[b] ?? low;
      const found = typeof x === "string" ? x.localeCompare(y) : x - y;
      return isDown ? -found : found;
    });
    for (const button of head.children) {
      if (button.dataset.key === key) button.setAttribute("aria-sort", isDown ? "descending" : "ascending");
      else button.removeAttribute("aria-sort");
    }
    said.textContent = word ? `${count(order.length)} of ${count(data.names.length)} queries` : `${count(order.length)} queries`;
    space.style.height = `${order.length * LINE}px`;
    draw();
  }

  function draw() {
    const first = Math.max(0, Math.floor((box.scrollTop - 40) / LINE) - 5), last = Math.min(order.length, first + Math.ceil(box.clientHeight / LINE) + 12);
    const lines = [];
    for (let at = first; at < last; at += 1) {
      const n = order[at];
      const line = element("a", { class: "line", role: "row", href: `#/query/${encodeURIComponent(data.names[n])}` },
        COLUMNS.map(([key, , show, isNumber]) => element("span", { class: isNumber ? "number" : `of-${key}`, text: show(data[key][n]), title: key === "sql" ? data.sql[n] : null })));
      line.style.top = `${at * LINE}px`;
      lines.push(line);
    }
    space.replaceChildren(...lines);
  }

  async function load() {
    asked = Date.now();
    try {
      const found = await get("api/queries");
      if (closed) return;
      data = found;
      arrange();
    } catch { /* the head shows that the connection is lost */ }
  }

  search.addEventListener("input", () => { box.scrollTop = 0; arrange(); });
  box.addEventListener("scroll", () => data && draw(), { passive: true });
  load();
  return { element: view, overview: () => { if (Date.now() - asked >= EVERY) load(); }, close: () => { closed = true; } };
}
