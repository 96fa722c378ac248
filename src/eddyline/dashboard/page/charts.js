// Lines over time, drawn by uPlot. A chart keeps the newest points and is resized with its panel.

import uPlot from "./vendor/uPlot.js";
import { element } from "./dom.js";

const COLOURS = ["#0d9488", "#d97706", "#7c3aed", "#2563eb", "#db2777", "#65a30d", "#0891b2", "#dc2626", "#a16207", "#4f46e5", "#059669", "#be123c", "#64748b"];
const KEPT = 2400;

const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export class Chart {
  // `label` names the unit on the axis; `show` formats a value.
  constructor(title, label, show, height = 190) {
    this.title = title;
    this.label = label;
    this.show = show;
    this.height = height;
    this.none = element("p", { class: "soft", text: "no figures yet" });
    this.place = element("div", { class: "chart" }, this.none);
    this.panel = element("section", { class: "panel" }, element("h2", { text: title }), this.place);
    this.names = [];
    this.data = [[]];
    this.plot = null;
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
  }

  // Add a point; values are by the name of their line. A later point may have new lines.
  add(time, values, draw = true) {
    const times = this.data[0];
    if (times.length && time <= times[times.length - 1]) return;
    let isNew = false;
    for (const name of Object.keys(values)) {
      if (!this.names.includes(name) && this.names.length < COLOURS.length) {
        this.names.push(name);
        this.data.push(times.map(() => null));
        isNew = true;
      }
    }
    times.push(time);
    this.names.forEach((name, n) => this.data[n + 1].push(values[name] ?? null));
    if (times.length > KEPT) this.data.forEach((column) => column.shift());
    if (!draw) return;
    if (isNew || !this.plot) this.build();
    else this.plot.setData(this.data);
  }

  fill(points) {
    points.forEach(([time, values]) => this.add(time, values, false));
    if (this.names.length) this.build();
  }

  build() {
    if (!this.names.length) return;
    if (this.plot) this.plot.destroy();
    this.none.remove();
    const axis = { stroke: ink("--soft"), grid: { stroke: ink("--line"), width: 1 }, ticks: { stroke: ink("--line"), width: 1 }, font: "11px system-ui, sans-serif", labelFont: "11px system-ui, sans-serif" };
    const show = this.show;
    this.plot = new uPlot({
      width: this.width(), height: this.height,
      series: [{ label: "at", value: (_, t) => (t ? new Date(t * 1000).toLocaleTimeString("en-GB") : "") }, ...this.names.map((name, n) => ({
        label: name, stroke: COLOURS[n], width: 1.6, spanGaps: true, points: { show: this.data[0].length < 3, size: 5 }, value: (_, v) => (v === null ? "–" : show(v)),
      }))],
      axes: [{ ...axis, space: 84, values: (_, ticks) => ticks.map((t) => new Date(t * 1000).toLocaleTimeString("en-GB")) }, { ...axis, label: this.label, labelSize: 16, size: 62, values: (_, ticks) => ticks.map((t) => (t === null ? "" : show(t))) }],
      scales: { y: { range: (_, low, high) => (high === null ? [0, 1] : [Math.min(0, low), high > 0 ? high * 1.08 : Math.max(high, 1)]) } },
      cursor: { points: { size: 6 } }, legend: { live: true, show: this.names.length < 8 },
    }, this.data, this.place);
    // The legend may have any height.
    this.place.style.height = "auto";
  }

  width() {
    return Math.max(240, this.place.clientWidth);
  }

  resize() {
    if (this.plot && Math.abs(this.plot.width - this.width()) > 1) this.plot.setSize({ width: this.width(), height: this.height });
  }
}
