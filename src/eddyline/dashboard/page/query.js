// One query: its figures, its plan as a drawing and as text, its newest rows, its history.

import { get, post } from "./api.js";
import { Board } from "./board.js";
import { confirmed } from "./confirm.js";
import { card, cards, drawing, element, problemBox, queryLink, replace, say, table } from "./dom.js";
import { count, lately, moment, percent, rate, seconds, short } from "./format.js";
import { unknownQuery } from "./unknown_query.js";

export function query({ argument, about }) {
  const board = new Board(load), charts = [board.chart("Results", "results per second", short, 160), board.chart("Response time, 95th percentile", "seconds", seconds, 160)];
  const picture = element("div", { id: "drawing" }, element("p", { class: "soft", text: "waiting for the next report" }));
  const plan = element("pre", { id: "plan", text: "", tabindex: "0", role: "group", "aria-label": "EXPLAIN" }), rows = element("div", { id: "tail" }), shared = element("p", { class: "soft" });
  const sql = element("pre", { tabindex: "0", role: "group", "aria-label": "SQL" }), problem = element("div"), unknown = element("div", { id: "unknown", hidden: true });
  const drop = element("button", { type: "button", class: "danger", id: "drop", text: "drop this query", disabled: about.readonly, onclick: dropped });
  const edit = element("a", { class: "button", id: "edit", text: "open in Ask", href: "#/ask" });
  const body = element("div", { class: "stack" }, sql,
    cards(card("results", "q-results"), card("response, mean", "q-mean"), card("share of the work", "q-share"), card("state", "q-state"), card("since", "q-since"), card("answered up to", "q-frontier")),
    element("div", { class: "grid" }, element("section", { class: "panel" }, element("h2", { text: "Plan" }), shared, picture), element("section", { class: "panel" }, element("h2", { text: "EXPLAIN" }), plan)),
    board.element,
    element("div", { class: "grid" }, charts.map((chart) => chart.panel)),
    element("section", { class: "panel" }, element("h2", { text: "Newest results" }), rows));
  const actions = [edit, drop];
  const view = element("div", { class: "stack" },
    element("div", { class: "row" }, element("h1", { text: argument ?? "" }), actions), problem, unknown, body);
  let drawn = "", last = null, isKnown = false;

  async function dropped() {
    if (!await confirmed(`Drop the query ${argument}?`, "Its results up to now are still delivered.", "drop")) return;
    drop.disabled = true;
    const { problem: wrong } = await post("api/drop", { queries: [argument] });
    problem.replaceChildren(wrong ? problemBox(wrong) : element("p", { class: "told", role: "status", text: "dropped: results up to now are still delivered" }));
    if (wrong) drop.disabled = false;
  }

  async function load(span) {
    const { points } = await get(`api/history?query=${encodeURIComponent(argument)}&seconds=${span}&points=400`);
    let before = null;
    for (const one of points) {
      if (before && one.results >= before.results) charts[0].add(one.t, { results: (one.results - before.results) / (one.t - before.t) }, false);
      if (one.p95 !== null) charts[1].add(one.t, { p95: one.p95 }, false);
      before = one;
    }
  }

  // A query that was here and has gone keeps what the page knows of it.
  function know(found) {
    if (isKnown && !found) {
      say("q-state", "gone", "");
      return;
    }
    isKnown = found;
    body.hidden = !found;
    for (const one of actions) one.hidden = !found;
    if (unknown.hidden !== found) unknown.hidden = found;
    if (!found && !unknown.hasChildNodes()) unknownQuery(argument ?? "").then((list) => unknown.replaceChildren(list));
  }

  board.begin();
  return {
    title: `${argument} · query`,
    element: view,
    query(news) {
      know(!news.unknown);
      if (news.unknown) return;
      if (sql.textContent !== (news.sql ?? "")) {
        sql.textContent = news.sql ?? "";
        edit.href = `#/ask/${encodeURIComponent(news.sql ?? "")}`;
      }
      say("q-results", count(news.results), rate(news.rate));
      say("q-mean", seconds(news.mean), `p95 ${seconds(news.p95)}, max ${seconds(news.max)}`);
      say("q-share", percent(news.share), news.shared ? `shared with ${count(news.shared)} more` : "on its own");
      say("q-state", news.state ?? "gone", news.stop ? `ends at ${moment(news.stop)}` : news.lease ? "tried: goes with its page" : "");
      say("q-since", lately(news.since), news.start ? `rows after ${moment(news.start)}` : "all rows");
      say("q-frontier", news.frontier ? moment(news.frontier).slice(11) : "–", news.frontier ? moment(news.frontier).slice(0, 10) : "");
      if (news.rate !== null && news.rate !== undefined && (!last || news.sequence !== last)) {
        charts[0].add(Date.now() / 1000, { results: news.rate });
        if (news.p95 !== null && news.p95 !== undefined) charts[1].add(Date.now() / 1000, { p95: news.p95 });
        last = news.sequence;
      }
      if (news.plan !== null && plan.textContent !== news.plan) plan.textContent = news.plan;
      if (news.drawing && news.drawing !== drawn) {
        drawn = news.drawing;
        replace(picture, drawing(drawn));
      }
      replace(shared, ...(news.shared_with.length ? ["shares its work with ", ...news.shared_with.slice(0, 12).flatMap((name, n) => [n ? ", " : "", queryLink(name)]), news.shared > 12 ? ` and ${count(news.shared - 12)} more` : ""] : []));
      tail(rows, news.tail);
    },
    close: () => board.close(),
  };
}

export function tail(place, found, most = 50) {
  if (!found || !found.rows.length) {
    replace(place, element("p", { class: "soft", text: "none since this page looks" }));
    return;
  }
  const newest = found.rows.slice(-most).reverse();
  replace(place, table(found.columns, newest.map((row) => row.map((value) => (value === null ? "NULL" : String(value)))), [], "newest results"),
    element("p", { class: "soft", text: `the newest ${newest.length} of ${found.rows.length} rows that are kept` }));
}
