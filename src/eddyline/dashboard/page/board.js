// A board of charts: one time range for all of them, and one instant whose values all of them show.

import { Chart } from "./chart.js";
import { element } from "./dom.js";
import { clock, dayAndHour } from "./format.js";

const RANGES = [["5min", "5 min", 300], ["1h", "1 h", 3600], ["all", "all", Infinity]];
const KEY = "eddyline-range";
// Seconds that a history of "all" asks for: longer than any file is kept.
const EVER = 1e10;

export class Board {
  // `load(seconds)` fetches the history of a range and adds it to the charts; without it they begin with the page.
  constructor(load = null) {
    this.load = load;
    this.charts = [];
    this.range = RANGES.find(([key]) => key === sessionStorage.getItem(KEY)) ?? RANGES[1];
    this.shown = element("output", { class: "soft", id: "instant", "aria-live": "off", text: "values: newest" });
    this.buttons = RANGES.map((range) => element("button", { type: "button", id: `range-${range[0]}`, "aria-pressed": String(range === this.range), text: range[1], onclick: () => this.choose(range) }));
    this.element = element("div", { class: "row range", role: "group", "aria-label": "time range of all charts" }, element("span", { class: "soft", text: "range" }), ...this.buttons, this.shown);
    this.closed = false;
  }

  chart(title, unit, show, height) {
    const made = new Chart(this, title, unit, show, height);
    this.charts.push(made);
    return made;
  }

  get span() {
    return this.range[2];
  }

  get asked() {
    return Number.isFinite(this.span) ? this.span : EVER;
  }

  begin() {
    if (!this.load) return Promise.resolve();
    return this.load(this.asked).catch(() => {}).finally(() => { if (!this.closed) this.draw(); });
  }

  choose(range) {
    this.range = range;
    sessionStorage.setItem(KEY, range[0]);
    this.buttons.forEach((button, n) => button.setAttribute("aria-pressed", String(RANGES[n] === range)));
    this.point(null);
    if (this.load) for (const chart of this.charts) chart.clear();
    else this.draw();
    return this.begin();
  }

  // The instants that all charts show: the same for all, so that one lies above the other.
  window() {
    const filled = this.charts.map((chart) => chart.data[0]).filter((times) => times.length);
    if (!filled.length) return [0, 1];
    const last = Math.max(...filled.map((times) => times.at(-1))), first = Math.min(...filled.map((times) => times[0]));
    const low = Math.max(first, last - this.span);
    return low < last ? [low, last] : [last - 1, last];
  }

  // An instant as text: with its day where the range has several.
  instant(t) {
    const [low, high] = this.window();
    return high - low > 72000 ? dayAndHour(t) : clock(t);
  }

  draw() {
    for (const chart of this.charts) chart.draw();
  }

  // Show the values of an instant on all charts; null: the newest ones.
  point(time, source = null) {
    this.shown.textContent = time === null ? "values: newest" : `values: ${this.instant(time)}`;
    for (const chart of this.charts) chart.point(time, chart === source);
  }

  close() {
    this.closed = true;
    for (const chart of this.charts) chart.close();
  }
}
