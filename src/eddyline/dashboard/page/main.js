// The page: the view that is shown, the stream of events, and the head.

import { get, listen } from "./api.js";
import { element, say } from "./dom.js";
import { count, day } from "./format.js";
import { ask } from "./ask.js";
import { decisions } from "./decisions.js";
import { overview } from "./overview.js";
import { queries } from "./queries.js";
import { query } from "./query.js";
import { shards } from "./shards.js";

const VIEWS = { overview, queries, query, decisions, shards, ask };
const page = { view: null, name: "", source: null, heard: null, about: { readonly: true }, lost: false, wanted: null };

// The first request had the token in its address; later requests have the cookie.
if (location.search.includes("token=")) history.replaceState(null, "", location.pathname + location.hash);

function wanted() {
  const [, name = "overview", ...rest] = location.hash.split("/");
  let argument = rest.length ? rest.join("/") : null;
  try {
    argument = argument && decodeURIComponent(argument);
  } catch { /* an address that was cut: its text as it is */ }
  return { name: name === "query" && !argument ? "queries" : VIEWS[name] ? name : "overview", argument };
}

function show(event) {
  const { name, argument } = wanted();
  if (page.view && page.view.close) page.view.close();
  const place = document.getElementById("view");
  place.replaceChildren();
  page.name = name;
  for (const link of document.querySelectorAll("nav a")) {
    const mine = link.getAttribute("href") === `#/${name === "query" ? "queries" : name}`;
    if (mine) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  page.view = VIEWS[name]({ argument, about: page.about, looksAt });
  place.append(page.view.element);
  document.title = `${page.view.title} · eddyline`;
  // After a step to another view the keyboard stands at its beginning.
  if (event) place.focus({ preventScroll: true });
  scrollTo(0, 0);
  looksAt(name === "query" ? argument : page.view.looksAt ?? null);
  if (page.heard && page.view.overview) page.view.overview(page.heard);
}

// The stream has the events of one query: the one that the page shows.
function looksAt(name) {
  if (page.source && page.wanted === name && page.source.readyState !== EventSource.CLOSED) return;
  if (page.source) page.source.close();
  page.wanted = name;
  page.source = listen(name, {
    overview: (news) => heard(news),
    query: (news) => page.view && page.view.query && page.view.query(news),
    open: () => { page.lost = false; state(); },
    lost: () => { page.lost = true; state(); },
    again: () => { page.source = null; looksAt(page.wanted); },
  });
}

function heard(news) {
  page.heard = news;
  page.lost = false;
  document.getElementById("shards-link").hidden = news.engine !== "spark";
  state();
  if (page.view && page.view.overview && news.sequence) page.view.overview(news);
}

function state() {
  const news = page.heard;
  const [text, kind, banner] = page.lost
    ? ["no connection", "away", "The job does not answer: it has ended, or the network is gone. This page connects again when it is back."]
    : !news || !news.sequence ? ["waiting for the first report", "", ""]
    : news.running ? ["running", "running", ""]
    : news.state_of_job === "ended" ? ["ended", "", ""]
    : news.state_of_job === "failed" ? ["failed", "away", `The job has failed.\n${news.error ?? ""}`]
    : ["not running", "away", `The job was stopped without an end, after its report of ${day(news.written)}. Started again on the same folder it goes on, and so does this page.`];
  const place = document.getElementById("status");
  if (place.textContent !== text) place.textContent = text;
  place.className = `state ${kind}`;
  const at = document.getElementById("banner");
  at.hidden = !banner;
  if (at.textContent !== banner) at.textContent = banner;
  if (news && news.sequence) {
    say("footer", `eddyline ${page.about.version ?? ""} · ${news.engine} · process ${news.pid} · started ${day(news.started)} · report ${count(news.sequence)} of ${day(news.written)}${page.about.readonly ? " · read-only" : ""}`);
  }
}

async function begin() {
  try {
    page.about = await get("api/about");
  } catch (problem) {
    document.getElementById("view").replaceChildren(element("p", { class: "problem", text: problem.message }));
    return;
  }
  addEventListener("hashchange", show);
  document.getElementById("skip").addEventListener("click", () => document.getElementById("view").focus());
  show();
}

begin();
