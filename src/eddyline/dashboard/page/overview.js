// Overview: rows in, results, frontier, state, time of epochs, dead letters.

import { get } from "./api.js";
import { Board } from "./board.js";
import { deadLetters } from "./dead_letters.js";
import { card, cards, element, replace, say, table } from "./dom.js";
import { bytes, count, moment, rate, seconds, short } from "./format.js";
import { Replaying } from "./replaying.js";

const SPAN = 2.0;

const total = (values) => Object.values(values).reduce((sum, value) => sum + value, 0);

// The rates between two lines of the history.
function between(before, now) {
  const span = now.t - before.t;
  if (span <= 0 || before.run !== now.run) return null;
  const grew = (a, b) => Math.max(0, (b - a) / span);
  const rows = {};
  for (const name of Object.keys(now.rows)) rows[name] = grew(before.rows[name] ?? 0, now.rows[name]);
  const epochs = now.epochs - before.epochs;
  const stages = {};
  for (const [name, value] of Object.entries(now.stages)) stages[name] = epochs ? Math.max(0, value - (before.stages[name] ?? 0)) / epochs : null;
  return { rows, results: grew(before.results, now.results), stages, dead: { late: grew(before.late, now.late), bad: grew(before.bad, now.bad), "not computed": grew(before.nulls ?? 0, now.nulls ?? 0) } };
}

function asLine(news) {
  const newest = {}, horizons = {};
  for (const [name, stream] of Object.entries(news.streams)) { newest[name] = stream.newest; horizons[name] = stream.horizon; }
  return { t: news.written, run: news.started, rows: news.rows_in, results: news.results, late: total(news.late), bad: total(news.bad), nulls: total(news.null_results), stored: news.state.rows, bytes: news.state.bytes, memory: news.memory_bytes, epochs: news.epochs, stages: news.stage_seconds, frontier: news.frontier, newest, horizons, stores: news.stores };
}

// The delay of each stream, and of the frontier, behind the newest row of any stream.
function behind(line) {
  const times = Object.values(line.newest).filter((value) => value !== null);
  if (!times.length) return {};
  const first = Math.max(...times), found = {};
  for (const [name, value] of Object.entries(line.horizons)) if (value !== null) found[name] = (first - value) / 1e6;
  if (line.frontier !== null) found.frontier = (first - line.frontier) / 1e6;
  return found;
}

export function overview() {
  const board = new Board(load);
  const charts = {
    rows: board.chart("Rows in", "rows per second", short),
    results: board.chart("Results", "results per second", short),
    behind: board.chart("Behind the newest row", "event time", seconds),
    wall: board.chart("Event time against wall time", "age of the newest row", seconds),
    stores: board.chart("State by store", "rows", short),
    memory: board.chart("Memory", "bytes", bytes),
    stages: board.chart("Time of an epoch by stage", "seconds per epoch", seconds),
    dead: board.chart("Rows and values that could not take part", "per second", short),
  };
  const replaying = new Replaying(charts.wall);
  const streams = element("div"), dead = element("div", { id: "dead-letters", class: "stack" }), features = element("div", { class: "stack" });
  const view = element("div", { class: "stack" }, element("h1", { text: "Overview" }),
    cards(card("rows in", "rows"), card("results", "results"), card("queries", "queries"), card("frontier", "frontier"), card("state", "state"), card("memory", "memory"), card("epoch, median", "epoch"), card("late and bad rows", "dead")),
    board.element,
    element("div", { class: "grid" }, Object.values(charts).map((chart) => chart.panel)),
    element("section", { class: "panel" }, element("h2", { text: "Streams" }), streams),
    element("section", { class: "panel" }, element("h2", { text: "Dead letters and null results" }), dead),
    features);
  let last = null, ready = false, recent = [];

  // Rates are means over two seconds or more: rows come in files, and a report may be made between two files.
  function earlier(line) {
    while (recent.length > 1 && recent[1].t <= line.t - SPAN) recent.shift();
    const before = recent[0] ?? null;
    recent.push(line);
    return before;
  }

  function add(line, drawn) {
    const before = earlier(line), change = before && between(before, line);
    if (change) {
      charts.rows.add(line.t, change.rows, drawn);
      charts.results.add(line.t, { results: change.results }, drawn);
      if (Object.values(change.stages).some((value) => value !== null)) charts.stages.add(line.t, change.stages, drawn);
      charts.dead.add(line.t, change.dead, drawn);
    }
    const far = behind(line);
    if (Object.keys(far).length) charts.behind.add(line.t, far, drawn);
    const ages = replaying.ages(line);
    if (Object.keys(ages).length) charts.wall.add(line.t, ages, drawn);
    charts.stores.add(line.t, line.stores, drawn);
    charts.memory.add(line.t, { process: line.memory, "streams' stores": line.bytes }, drawn);
    last = line;
    return change;
  }

  let asked = 0;
  async function load(span) {
    asked += 1;
    const mine = asked;
    ready = false;
    try {
      const { points } = await get(`api/history?seconds=${span}&points=600`);
      if (mine !== asked) return;
      const since = last;
      last = null;
      recent = [];
      points.filter((line) => !since || line.t < since.t).forEach((line) => add(line, false));
      if (since) add(since, false);
    } finally {
      if (mine === asked) ready = true;
    }
    replaying.draw();
  }

  function figures(news, change) {
    say("rows", count(total(news.rows_in)), change ? `${rate(total(change.rows))} now` : "");
    say("results", count(news.results), change ? `${rate(change.results)} now` : "");
    say("queries", count(news.queries), news.migrations ? `${count(news.migrations)} plans moved` : "");
    say("frontier", news.frontier === null ? "–" : moment(news.frontier).slice(11), news.held_by ? `${news.held_by} holds it back` : moment(news.frontier).slice(0, 10));
    say("state", `${short(news.state.rows)} rows`, `${bytes(news.state.bytes)}, ${short(news.state.waiting)} rows wait${news.spilled_bytes ? `, ${bytes(news.spilled_bytes)} on disk` : ""}`);
    say("memory", bytes(news.memory_bytes), news.engine === "spark" ? "largest worker" : "this process");
    say("epoch", seconds(news.epoch_times.median), `p99 ${seconds(news.epoch_times.p99)}, ${count(news.epochs)} so far`);
    say("dead", count(total(news.late) + total(news.bad)), `${count(total(news.late))} late, ${count(total(news.bad))} bad`);
  }

  function tables(news, change) {
    replace(streams, table(["stream", "rows", "now", "newest row", "horizon", "late", "bad", "note"],
      Object.keys(news.rows_in).map((name) => [name, count(news.rows_in[name]), change ? rate(change.rows[name]) : "–", moment(news.streams[name].newest), moment(news.streams[name].horizon), count(news.late[name]), count(news.bad[name]), news.held_by === name ? element("span", { class: "warn", text: "holds the frontier back" }) : ""]), [1, 2, 5, 6], "streams"));
    replace(dead, ...deadLetters(news));
    replace(features, ...Object.entries(news.features).map(([name, value]) => feature(name, value)));
  }

  board.begin();
  return {
    title: "Overview",
    element: view,
    overview(news) {
      const change = ready ? add(asLine(news), true) : (last = last ?? asLine(news), null);
      if (ready) replaying.draw();
      figures(news, change);
      tables(news, change);
    },
    close: () => board.close(),
  };
}

// A feature's figures as `--stats` has them: one row per entry, one column per count.
function feature(name, value) {
  const title = name.replaceAll("_", " "), panel = element("section", { class: "panel" }, element("h2", { text: title }));
  const isRow = (one) => one !== null && typeof one === "object" && !Array.isArray(one);
  const text = (one) => (typeof one === "number" ? one.toLocaleString("en", { maximumFractionDigits: 4 }) : typeof one === "string" ? one : JSON.stringify(one));
  if (isRow(value) && Object.values(value).every(isRow)) {
    const columns = [...new Set(Object.values(value).flatMap((row) => Object.keys(row)))];
    panel.append(table(["of", ...columns.map((one) => one.replaceAll("_", " "))], Object.entries(value).map(([key, row]) => [key, ...columns.map((one) => (one in row ? text(row[one]) : ""))]), [], title));
  } else if (isRow(value)) {
    panel.append(table(["of", "figure"], Object.entries(value).map(([key, one]) => [key.replaceAll("_", " "), text(one)]), [], title));
  } else {
    panel.append(element("p", { text: text(value) }));
  }
  return panel;
}
