// Streams that replay old data: their event time says nothing of how late the job is, so it is drawn only on demand.

import { element } from "./dom.js";

// A row that is older than this when it comes, in seconds, is replayed.
const OLD = 3600;
const KEY = "eddyline-replayed";

export class Replaying {
  constructor(chart) {
    this.chart = chart;
    // By stream: the newest event time, and how old its row was when it came.
    this.newest = {};
    this.came = {};
    this.box = element("input", { type: "checkbox", id: "replayed", onchange: () => { sessionStorage.setItem(KEY, this.box.checked ? "shown" : ""); this.draw(); } });
    this.box.checked = sessionStorage.getItem(KEY) === "shown";
    this.text = element("span");
    this.note = element("label", { class: "soft switch", id: "replayed-note", hidden: true }, this.box, this.text);
    chart.panel.querySelector(".chart-head").after(this.note);
  }

  // How old the newest row of each stream is at a line of history.
  ages(line) {
    const found = {};
    for (const [name, value] of Object.entries(line.newest)) {
      if (value === null) continue;
      found[name] = line.t - value / 1e6;
      // A stream that rests grows old: what counts is the age at which its rows come.
      if (this.newest[name] !== value) [this.newest[name], this.came[name]] = [value, found[name]];
    }
    return found;
  }

  draw() {
    const old = Object.keys(this.came).filter((name) => this.came[name] > OLD);
    this.note.hidden = !old.length;
    const text = `show streams that replay old data: ${old.join(", ")}`;
    if (this.text.textContent !== text) this.text.textContent = text;
    this.chart.leaveOut(new Set(this.box.checked ? [] : old));
    this.chart.place.hidden = !this.chart.rows.hidden || (old.length > 0 && !this.chart.lines.length);
  }
}
