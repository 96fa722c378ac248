// Shards: rows, state and seconds of each shard of a job on Spark, and their skew.

import { get } from "./api.js";
import { Board } from "./board.js";
import { card, cards, element, replace, say, table } from "./dom.js";
import { bytes, count, seconds, short } from "./format.js";

const times = (value) => (value === null || value === undefined ? "–" : `× ${value.toPrecision(3)}`);

export function shards() {
  const board = new Board(), rows = board.chart("Rows by shard", "rows", short), busy = board.chart("Last batch by shard", "seconds", seconds);
  const stages = element("div"), each = element("div", { id: "each-shard" });
  const view = element("div", { class: "stack" }, element("h1", { text: "Shards" }),
    cards(card("shards", "s-count"), card("skew of rows", "s-rows"), card("skew of bytes", "s-bytes"), card("skew of time", "s-time"), card("reopened from", "s-from")),
    element("section", { class: "panel" }, element("h2", { text: "Each shard" }), each),
    board.element, element("div", { class: "grid" }, rows.panel, busy.panel),
    element("section", { class: "panel" }, element("h2", { text: "Stages of micro-batches" }), stages));
  let asked = 0;

  async function load() {
    asked = Date.now();
    let found;
    try { found = await get("api/shards"); } catch { return; }
    if (!found.shards) {
      each.replaceChildren(element("p", { class: "soft", text: "no batch has ended yet" }));
      return;
    }
    say("s-count", count(found.shards), "");
    say("s-rows", times(found.skew.rows), "largest against mean");
    say("s-bytes", times(found.skew.bytes), "largest against mean");
    say("s-time", times(found.seconds_skew), "last batch");
    say("s-from", count(found.reopened.memory ?? 0), Object.entries(found.reopened).map(([where, n]) => `${where} ${count(n)}`).join(", "));
    const most = Math.max(1, ...Object.values(found.each).map((one) => one.rows));
    const names = [...new Set(Object.values(found.each).flatMap((one) => Object.keys(one.seconds)))];
    replace(each, table(["shard", "rows", "part", "state", "waiting", "worker", "opened from", ...names],
      Object.entries(found.each).map(([shard, one]) => [shard, count(one.rows), bar(one.rows / most), bytes(one.bytes), count(one.waiting), bytes(one.worker_bytes), one.came_from, ...names.map((name) => seconds(one.seconds[name]))]), [1, 3, 4, 5], "each shard"));
    const perShard = (figure) => Object.fromEntries(Object.entries(found.each).map(([shard, one]) => [`shard ${shard}`, figure(one)]));
    rows.add(Date.now() / 1000, perShard((one) => one.rows));
    busy.add(Date.now() / 1000, perShard((one) => Object.values(one.seconds).reduce((a, b) => a + b, 0)));
    const mean = (values) => (values.length ? values.reduce((a, b) => a + b, 0) / values.length : null);
    replace(stages, table(["stage", "last", "mean of the newest", "largest of the newest"], Object.entries(found.stages).map(([name, values]) => [name, seconds(values.at(-1)), seconds(mean(values)), seconds(values.length ? Math.max(...values) : null)]), [1, 2, 3], "stages of micro-batches"));
  }

  function bar(part) {
    const inner = element("i");
    inner.style.width = `${(100 * part).toFixed(1)}%`;
    return element("div", { class: "bar" }, inner);
  }
  load();
  return { title: "Shards", element: view, overview: () => { if (Date.now() - asked > 900) load(); }, close: () => board.close() };
}
