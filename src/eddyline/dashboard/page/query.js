// One query: its figures, its plan as a drawing and as text, its newest rows, its history.

import { get, post } from "./api.js";
import { Chart } from "./charts.js";
import { card, drawing, element, say, table } from "./dom.js";
import { count, lately, moment, percent, rate, seconds, short } from "./format.js";

export function query({ argument, about }) {
  const charts = [new Chart("Results", "results per second", short, 160), new Chart("Response time, 95th percentile", "seconds", seconds, 160)];
  const picture = element("div", { id: "drawing" }, element("p", { class: "soft", text: "waiting for the next report" }));
  const plan = element("pre", { id: "plan", text: "" }), rows = element("div", { id: "tail" }), shared = element("p", { class: "soft" }), sql = element("pre");
  const problem = element("div");
  const drop = element("button", { type: "button", class: "danger", id: "drop", text: "drop this query", disabled: about.readonly, onclick: dropped });
  const view = element("div", { class: "stack" },
    element("div", { class: "row" }, element("h1", { text: argument }), drop), problem, sql,
    element("div", { class: "cards" }, card("results", "q-results"), card("response, mean", "q-mean"), card("share of the work", "q-share"), card("state", "q-state"), card("since", "q-since"), card("answered up to", "q-frontier")),
    element("section", { class: "panel" }, element("h2", { text: "Plan" }), shared, picture),
    element("div", { class: "grid" }, element("section", { class: "panel" }, element("h2", { text: "EXPLAIN" }), plan), ...charts.map((chart) => chart.panel)),
    element("section", { class: "panel" }, element("h2", { text: "Newest results" }), rows));
  let drawn = "", last = null;

  async function dropped() {
    drop.disabled = true;
    const { problem: wrong } = await post("api/drop", { queries: [argument] });
    problem.replaceChildren(wrong ? element("p", { class: "problem", text: [wrong.message, wrong.detail, wrong.hint].filter(Boolean).join("\n") }) : element("p", { class: "told", text: "dropped: results up to now are still delivered" }));
    if (wrong) drop.disabled = false;
  }

  get(`api/history?query=${encodeURIComponent(argument)}&seconds=3600&points=400`).then(({ points }) => {
    let before = null;
    for (const one of points) {
      if (before && one.results >= before.results) charts[0].add(one.t, { results: (one.results - before.results) / (one.t - before.t) }, false);
      if (one.p95 !== null) charts[1].add(one.t, { p95: one.p95 }, false);
      before = one;
    }
    charts.forEach((chart) => chart.fill([]));
  }, () => {});

  return {
    element: view,
    query(news) {
      if (news.unknown) {
        say("q-state", "gone", "");
        return;
      }
      sql.textContent = news.sql ?? "";
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
        picture.replaceChildren(drawing(drawn));
      }
      shared.replaceChildren(...(news.shared_with.length ? ["shares its work with ", ...news.shared_with.slice(0, 12).flatMap((name, n) => [n ? ", " : "", element("a", { href: `#/query/${encodeURIComponent(name)}`, text: name })]), news.shared > 12 ? ` and ${count(news.shared - 12)} more` : ""] : []));
      tail(rows, news.tail);
    },
    close: () => charts.forEach((chart) => chart.close()),
  };
}

export function tail(place, found, most = 50) {
  if (!found || !found.rows.length) {
    place.replaceChildren(element("p", { class: "soft", text: "none since this page looks" }));
    return;
  }
  const newest = found.rows.slice(-most).reverse();
  place.replaceChildren(table(found.columns, newest.map((row) => row.map((value) => (value === null ? "NULL" : String(value))))),
    element("p", { class: "soft", text: `the newest ${newest.length} of ${found.rows.length} rows that are kept` }));
}
