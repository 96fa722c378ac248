// Results in a pane of fixed height: a table with its own scroll, or numbers over time as a chart.

import { Board } from "./board.js";
import { Chart } from "./chart.js";
import { element, replace, table } from "./dom.js";
import { short } from "./format.js";

const TIME = "_ts", MOST = 200;

export class Results {
  constructor() {
    // Event times, not instants of the wall clock: a board of its own.
    this.board = new Board();
    this.board.range = ["all", "all", Infinity];
    this.chart = new Chart(this.board, "Numbers over event time", "UTC", short, 250, utc);
    this.board.charts.push(this.chart);
    // The pane has its own table.
    this.chart.toggle.hidden = true;
    this.rows = element("div", { id: "result-rows", class: "pane" });
    this.drawn = element("div", { id: "result-chart", class: "pane", hidden: true }, this.chart.panel);
    this.state = element("p", { class: "soft", id: "result-state", role: "status", text: "results appear here" });
    this.tabs = [["table", this.rows], ["chart", this.drawn]].map(([name, pane]) => element("button", { type: "button", id: `as-${name}`, "aria-pressed": String(pane === this.rows), text: name, onclick: () => this.turn(pane) }));
    this.none = element("p", { class: "soft", hidden: true, text: "these results have no column of numbers beside _ts" });
    this.drawn.prepend(this.none);
    this.bar = element("div", { class: "row" }, this.state, element("div", { class: "row tabs", role: "group", "aria-label": "results as" }, this.tabs));
    this.element = element("section", { class: "panel results", id: "results", "aria-label": "results" }, this.bar, this.rows, this.drawn);
    this.last = null;
  }

  say(text) {
    if (this.state.textContent !== text) this.state.textContent = text;
  }

  show(columns, rows, isNewestFirst) {
    this.last = { columns, rows };
    const shown = isNewestFirst ? rows.slice(-MOST).reverse() : rows;
    replace(this.rows, columns.length ? table(columns, shown.map((row) => row.map((value) => (value === null ? "NULL" : String(value)))), [], "results") : element("p", { class: "soft", text: "no rows yet" }));
    if (!this.drawn.hidden) this.draw();
  }

  clear() {
    this.last = null;
    this.rows.replaceChildren();
    this.chart.clear();
  }

  turn(pane) {
    this.rows.hidden = pane !== this.rows;
    this.drawn.hidden = pane !== this.drawn;
    this.tabs.forEach((tab, n) => tab.setAttribute("aria-pressed", String([this.rows, this.drawn][n] === pane)));
    if (!this.drawn.hidden) this.draw();
  }

  draw() {
    const found = this.last && numbers(this.last.columns, this.last.rows);
    this.none.hidden = !this.last || Boolean(found);
    this.chart.panel.hidden = !found;
    if (found) this.chart.fill(found.names, found.columns);
  }

  close() {
    this.board.close();
  }
}

const utc = (t) => new Date(t * 1000).toISOString().slice(11, 19);

// The columns of numbers over `_ts`, in the order of time; null: there are none.
export function numbers(columns, rows) {
  const at = columns.indexOf(TIME);
  const chosen = columns.map((_, n) => n).filter((n) => n !== at && rows.some((row) => typeof row[n] === "number") && rows.every((row) => row[n] === null || typeof row[n] === "number"));
  if (at < 0 || !chosen.length) return null;
  const timed = rows.map((row) => [Date.parse(`${String(row[at]).replace(" ", "T")}Z`) / 1000, row]).filter(([t]) => Number.isFinite(t)).sort(([a], [b]) => a - b);
  if (!timed.length) return null;
  return { names: chosen.map((n) => columns[n]), columns: [timed.map(([t]) => t), ...chosen.map((n) => timed.map(([, row]) => row[n]))] };
}
