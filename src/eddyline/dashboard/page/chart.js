// Lines over time: drawn by uPlot, described in words, and listed as a table. A chart belongs to a board.

import uPlot from "./vendor/uPlot.js";
import { element, replace, table } from "./dom.js";

const LIGHT = ["#0f766e", "#b45309", "#7c3aed", "#2563eb", "#be185d", "#4d7c0f", "#0e7490", "#dc2626", "#854d0e", "#4f46e5", "#047857", "#be123c", "#475569"];
const DARK = ["#2dd4bf", "#fbbf24", "#a78bfa", "#60a5fa", "#f472b6", "#a3e635", "#22d3ee", "#f87171", "#eab308", "#818cf8", "#34d399", "#fb7185", "#94a3b8"];
// Points that a chart keeps, rows of its table, milliseconds between two descriptions.
const KEPT = 2400, ROWS = 100, EVERY = 2000;

const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
// Seconds between two marks of the axis of time.
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800, 2592000];
let made = 0;

export class Chart {
  // `unit` stands beside the title; `show` formats a value; `at` an instant.
  constructor(board, title, unit, show, height = 190, at = null) {
    Object.assign(this, { board, title, unit, show, height, at: at ?? ((t) => board.instant(t)) });
    made += 1;
    this.none = element("p", { class: "soft", text: "no figures yet" });
    this.place = element("div", { class: "plot", role: "img", tabindex: "0", "aria-label": `${title}: no figures yet`, onkeydown: (event) => this.key(event), onblur: () => this.pointed && board.point(null) }, this.none);
    this.legend = element("div", { class: "legend", role: "group", "aria-label": `lines of ${title}` });
    this.rows = element("div", { class: "points", hidden: true });
    this.said = element("p", { class: "unseen", "aria-live": "polite" });
    this.toggle = element("button", { type: "button", class: "small", "aria-pressed": "false", "aria-label": `${title} as a table`, text: "table", onclick: () => this.turn() });
    this.panel = element("section", { class: "panel", "aria-labelledby": `chart-${made}` },
      element("div", { class: "chart-head" }, element("h2", { id: `chart-${made}`, text: title }), element("span", { class: "unit", text: unit }), this.toggle),
      this.place, this.rows, this.legend, this.said);
    this.place.style.minHeight = `${height}px`;
    this.names = [];
    this.data = [[]];
    this.plot = null;
    // Lines that a legend's button hides, and those that the view leaves out.
    this.hidden = new Set();
    this.without = new Set();
    this.pointed = false;
    this.told = 0;
    this.watch = new ResizeObserver(() => this.resize());
    this.watch.observe(this.place);
    this.scheme = matchMedia("(prefers-color-scheme: dark)");
    this.again = () => this.build();
    this.scheme.addEventListener("change", this.again);
  }

  close() {
    this.watch.disconnect();
    this.scheme.removeEventListener("change", this.again);
    if (this.plot) this.plot.destroy();
    this.plot = null;
  }

  clear() {
    if (this.plot) this.plot.destroy();
    this.plot = null;
    this.names = [];
    this.data = [[]];
    this.pointed = false;
  }

  // Add a point; values are by the name of their line. Lines may come later.
  add(t, values, drawn = true) {
    const times = this.data[0];
    if (times.length && t <= times.at(-1)) return;
    const before = this.names.length;
    for (const name of Object.keys(values)) {
      if (!this.names.includes(name) && this.names.length < LIGHT.length) {
        this.names.push(name);
        this.data.push(times.map(() => null));
      }
    }
    times.push(t);
    this.names.forEach((name, n) => this.data[n + 1].push(values[name] ?? null));
    if (times.length > KEPT) this.data.forEach((column) => column.shift());
    if (drawn) this.draw(this.names.length > before);
  }

  // All points at once, by columns.
  fill(names, columns) {
    const isNew = names.join() !== this.names.join();
    this.names = names.slice(0, LIGHT.length);
    this.data = columns.slice(0, LIGHT.length + 1);
    this.draw(isNew);
  }

  leaveOut(names) {
    if (names.size === this.without.size && [...names].every((name) => this.without.has(name))) return;
    this.without = new Set(names);
    this.build();
  }

  // The first point of the board's range.
  get first() {
    const [low] = this.board.window();
    return Math.max(0, this.data[0].findIndex((t) => t >= low));
  }

  get lines() {
    return this.names.filter((name) => !this.without.has(name));
  }

  draw(isNew = false) {
    if (!this.lines.length) return;
    if (isNew || !this.plot) this.build();
    else this.plot.setData(this.data);
    if (!this.pointed) this.values(this.data[0].length - 1);
    this.describe();
  }

  build() {
    if (this.plot) this.plot.destroy();
    this.plot = null;
    if (!this.lines.length || !this.data[0].length) {
      this.place.replaceChildren(this.none);
      this.legend.replaceChildren();
      return;
    }
    this.none.remove();
    const colours = this.scheme.matches ? DARK : LIGHT, show = this.show;
    const axis = { stroke: ink("--soft"), grid: { stroke: ink("--line"), width: 1 }, ticks: { stroke: ink("--line"), width: 1 }, font: "11px system-ui, sans-serif" };
    this.plot = new uPlot({
      width: this.width(), height: this.height, legend: { show: false }, cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
      series: [{}, ...this.names.map((name, n) => ({
        label: name, stroke: colours[n], width: 1.6, spanGaps: true, points: { show: this.data[0].length < 3, size: 5 }, dash: n > 5 ? [6, 3] : undefined, show: !this.hidden.has(name) && !this.without.has(name),
      }))],
      axes: [
        { ...axis, size: 32, space: 84, incrs: STEPS, values: (_, ticks) => ticks.map((t) => this.at(t)) },
        { ...axis, size: (_, shown) => 18 + 6.6 * Math.max(7, ...(shown ?? []).map((text) => text.length)), values: (_, ticks) => ticks.map((t) => (t === null ? "" : show(t))) },
      ],
      scales: { x: { time: true, range: () => this.board.window() }, y: { range: (_, low, high) => (high === null ? [0, 1] : [Math.min(0, low), high > 0 ? high * 1.08 : Math.max(high, 1)]) } },
      hooks: { setCursor: [(plot) => this.moved(plot)] },
    }, this.data, this.place);
    this.legend.replaceChildren(...this.names.map((name, n) => (this.without.has(name) ? null : this.entry(name, n, colours[n]))).filter(Boolean));
    this.values(this.data[0].length - 1);
    this.describe(true);
  }

  entry(name, n, colour) {
    const mark = element("i", { "aria-hidden": "true" });
    mark.style.background = colour;
    return element("button", { type: "button", class: "entry", "aria-pressed": String(!this.hidden.has(name)), "data-line": String(n), onclick: (event) => {
      if (!this.hidden.delete(name)) this.hidden.add(name);
      event.currentTarget.setAttribute("aria-pressed", String(!this.hidden.has(name)));
      this.plot.setSeries(n + 1, { show: !this.hidden.has(name) });
    } }, mark, element("span", { text: name }), element("b", { text: "–" }));
  }

  // -- the instant under the pointer, or that the arrow keys choose

  moved(plot) {
    const at = plot.cursor.idx, off = at === null || at === undefined || plot.cursor.left < 0;
    if (off && !this.pointed) return;
    this.board.point(off ? null : this.data[0][at], this);
  }

  point(t, isSource) {
    this.pointed = t !== null;
    const times = this.data[0];
    if (!this.plot || !times.length) return;
    const at = t === null ? times.length - 1 : nearest(times, t);
    // Without an event: the board knows already.
    if (!isSource) this.plot.setCursor(t === null ? { left: -10, top: -10 } : { left: this.plot.valToPos(times[at], "x"), top: 10 }, false);
    this.values(at);
    this.chosen = at;
  }

  key(event) {
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity }, times = this.data[0];
    if (event.key === "Escape") this.board.point(null);
    if (!(event.key in steps) || !times.length) return;
    event.preventDefault();
    const from = this.pointed ? this.chosen : times.length - 1;
    const at = Math.min(times.length - 1, Math.max(0, from + steps[event.key]));
    this.board.point(times[at]);
    this.said.textContent = `${this.at(times[at])}: ${this.lines.map((name) => `${name} ${this.text(name, at)}`).join(", ")}`;
  }

  text(name, at) {
    const value = this.data[this.names.indexOf(name) + 1][at];
    return value === null || value === undefined ? "–" : this.show(value);
  }

  values(at) {
    for (const button of this.legend.children) {
      const text = this.text(this.names[Number(button.dataset.line)], at), place = button.lastChild;
      if (place.textContent !== text) place.textContent = text;
    }
  }

  // -- in words, and as a table

  describe(isNow = false) {
    if (!isNow && Date.now() - this.told < EVERY) return;
    this.told = Date.now();
    const times = this.data[0], first = this.first;
    const said = this.lines.map((name) => {
      const values = this.data[this.names.indexOf(name) + 1].slice(first).filter((value) => value !== null);
      return values.length ? `${name}: newest ${this.show(values.at(-1))}, lowest ${this.show(values.reduce((a, b) => Math.min(a, b)))}, highest ${this.show(values.reduce((a, b) => Math.max(a, b)))}` : `${name}: no figures`;
    });
    this.place.setAttribute("aria-label", `${this.title}, ${this.unit}, ${this.at(times[first])} to ${this.at(times.at(-1))}. ${said.join("; ")}. Arrow keys choose an instant.`);
    if (!this.rows.hidden) this.list();
  }

  list() {
    const times = this.data[0], places = times.map((_, n) => n).slice(this.first).slice(-ROWS).reverse();
    replace(this.rows, table(["time", ...this.lines], places.map((at) => [this.at(times[at]), ...this.lines.map((name) => this.text(name, at))]), this.lines.map((_, n) => n + 1), `${this.title}, ${this.unit}`));
  }

  turn() {
    this.rows.hidden = !this.rows.hidden;
    this.place.hidden = !this.rows.hidden;
    this.toggle.setAttribute("aria-pressed", String(!this.rows.hidden));
    if (!this.rows.hidden) this.list();
    else this.resize();
  }

  width() {
    return Math.max(200, this.place.clientWidth);
  }

  resize() {
    if (this.plot && this.place.clientWidth && Math.abs(this.plot.width - this.width()) > 1) this.plot.setSize({ width: this.width(), height: this.height });
  }
}

function nearest(times, t) {
  let low = 0, high = times.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] < t) low = middle + 1;
    else high = middle;
  }
  return low > 0 && t - times[low - 1] < times[low] - t ? low - 1 : low;
}
