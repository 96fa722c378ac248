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
  const said = element("span", { class: "soft", id: "query-count", role: "status" });
  const head = element("div", { class: "head", role: "row", "aria-rowindex": "1" });
  const space = element("div", { class: "space", role: "rowgroup" });
  const box = element("div", { class: "virtual", id: "query-table", tabindex: "0", role: "table", "aria-label": "queries" }, element("div", { role: "rowgroup", class: "top" }, head), space);
  const view = element("div", {}, element("h1", { text: "Queries" }), element("div", { class: "row" }, search, said), box);
  // `current` is the place in `order` of the line that the arrow keys have chosen.
  let data = null, order = [], sorted = ["rate", true], asked = 0, closed = false, current = 0;

  for (const [key, title, , isNumber] of COLUMNS) {
    head.append(element("span", { role: "columnheader", "data-key": key }, element("button", { type: "button", text: title, class: isNumber ? "number" : null, "data-key": key, onclick: () => {
      sorted = [key, sorted[0] === key ? !sorted[1] : isNumber];
      arrange();
    } })));
  }

  function arrange() {
    if (!data) return;
    const word = search.value.trim().toLowerCase(), [key, isDown] = sorted, values = data[key];
    const chosen = data.names[order[current]];
    order = data.names.map((_, n) => n);
    if (word) order = order.filter((n) => data.names[n].toLowerCase().includes(word) || data.sql[n].toLowerCase().includes(word));
    const low = isDown ? -Infinity : Infinity;
    order.sort((a, b) => {
      const x = values[a] ?? low, y = values[b] ?? low;
      const found = typeof x === "string" ? x.localeCompare(y) : x - y;
      return isDown ? -found : found;
    });
    current = Math.max(0, order.findIndex((n) => data.names[n] === chosen));
    for (const cell of head.children) {
      if (cell.dataset.key === key) cell.setAttribute("aria-sort", isDown ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    }
    box.setAttribute("aria-rowcount", String(order.length + 1));
    said.textContent = word ? `${count(order.length)} of ${count(data.names.length)} queries` : `${count(order.length)} queries`;
    space.style.height = `${order.length * LINE}px`;
    draw();
  }

  function draw() {
    const first = Math.max(0, Math.floor((box.scrollTop - 40) / LINE) - 5), last = Math.min(order.length, first + Math.ceil(box.clientHeight / LINE) + 12);
    const isFocused = space.contains(document.activeElement);
    const lines = [];
    for (let at = first; at < last; at += 1) lines.push(line(at));
    space.replaceChildren(...lines);
    if (isFocused) (space.querySelector("[tabindex='0']") ?? box).focus({ preventScroll: true });
  }

  function line(at) {
    const n = order[at];
    const cells = COLUMNS.map(([key, , show, isNumber], column) => {
      const text = show(data[key][n]);
      if (column) return element("span", { role: "cell", class: isNumber ? "number" : `of-${key}`, text, title: key === "sql" ? data.sql[n] : null });
      return element("span", { role: "cell", class: "of-names" }, element("a", { href: `#/query/${encodeURIComponent(data.names[n])}`, tabindex: at === current ? "0" : "-1", text }));
    });
    const made = element("div", { class: "line", role: "row", "aria-rowindex": String(at + 2) }, cells);
    made.style.top = `${at * LINE}px`;
    return made;
  }

  // The arrow keys go from line to line, also to those that are no elements yet.
  function key(event) {
    const page = Math.max(1, Math.floor(box.clientHeight / LINE) - 2);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (!(event.key in steps) || !order.length || head.contains(event.target)) return;
    event.preventDefault();
    const isInside = space.contains(document.activeElement);
    current = isInside ? Math.min(order.length - 1, Math.max(0, current + steps[event.key])) : current;
    const top = current * LINE;
    if (top < box.scrollTop) box.scrollTop = top;
    else if (top + LINE + head.offsetHeight > box.scrollTop + box.clientHeight) box.scrollTop = top + LINE + head.offsetHeight - box.clientHeight;
    draw();
    space.querySelector("[tabindex='0']")?.focus({ preventScroll: true });
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

  search.addEventListener("input", () => { box.scrollTop = 0; current = 0; arrange(); });
  box.addEventListener("scroll", () => data && draw(), { passive: true });
  box.addEventListener("keydown", key);
  load();
  return { title: "Queries", element: view, overview: () => { if (Date.now() - asked >= EVERY) load(); }, close: () => { closed = true; } };
}
