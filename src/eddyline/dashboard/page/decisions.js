// Decisions of the job with their reasons, newest first.

import { get } from "./api.js";
import { element, queryLink } from "./dom.js";
import { clock, count, day, percent, seconds } from "./format.js";

const KINDS = { migration: "plan moved", kept: "plan kept", demand: "demand", index: "index", added: "added", dropped: "dropped", refused: "refused", start: "start" };

export function decisions() {
  const list = element("ol", { class: "timeline", id: "timeline" }), none = element("p", { class: "soft", text: "no decisions yet" });
  const kinds = element("div", { class: "row", role: "group", "aria-label": "kinds of decisions that are shown" });
  const view = element("div", {}, element("h1", { text: "Decisions" }), kinds, element("section", { class: "panel" }, none, list));
  const hidden = new Set();
  let asked = 0, seen = "", events = [];

  for (const [kind, title] of Object.entries(KINDS)) {
    kinds.append(element("button", { type: "button", "aria-pressed": "true", text: title, onclick: (event) => {
      if (!hidden.delete(kind)) hidden.add(kind);
      event.target.setAttribute("aria-pressed", String(!hidden.has(kind)));
      event.target.classList.toggle("soft", hidden.has(kind));
      draw();
    } }));
  }

  function draw() {
    const shown = events.filter((event) => !hidden.has(event.kind)).reverse();
    none.hidden = shown.length > 0;
    list.replaceChildren(...shown.map(line));
  }

  async function load() {
    asked = Date.now();
    try {
      events = (await get("api/decisions")).events;
    } catch { return; }
    const now = JSON.stringify(events.at(-1) ?? null) + events.length;
    if (now !== seen) {
      seen = now;
      draw();
    }
  }
  load();
  return { title: "Decisions", element: view, overview: () => { if (Date.now() - asked > 1000) load(); } };
}

function line(event) {
  const more = [];
  if (event.kind === "migration") {
    more.push(`predicted gain ${percent(event.gain)}: ${event.cpu_before.toPrecision(3)} to ${event.cpu_after.toPrecision(3)} CPU seconds per second of event time`);
    more.push(`${count(event.rows)} rows rebuilt in ${seconds(event.seconds)}`);
  }
  if (event.kind === "index") more.push(`${event.before} became ${event.after}`);
  if (event.reason) more.push(event.reason);
  const queries = event.query ? [event.query] : event.queries ?? [];
  return element("li", {}, element("time", { text: clock(event.t), title: day(event.t) }), element("span", { class: `kind ${event.kind}`, text: KINDS[event.kind] ?? event.kind }),
    element("div", {}, element("p", { text: event.text }), ...more.map((text) => element("p", { class: "more", text })),
      queries.length ? element("p", { class: "more" }, ...queries.flatMap((name, n) => [n ? ", " : "", queryLink(name)])) : null));
}
