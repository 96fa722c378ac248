// Requests to the dashboard, and the stream of events.

export async function get(path) {
  const answer = await fetch(path, { credentials: "same-origin" });
  if (!answer.ok) throw new Error((await problem(answer)).message);
  return answer.json();
}

export async function post(path, body) {
  const answer = await fetch(path, {
    method: "POST", credentials: "same-origin", headers: { "content-type": "application/json" }, body: JSON.stringify(body),
  });
  if (answer.ok) return { found: await answer.json() };
  return { problem: await problem(answer) };
}

async function problem(answer) {
  try {
    return (await answer.json()).error;
  } catch {
    return { message: answer.status === 401 ? "the token is missing or old: open the address that the job printed" : `the dashboard answered ${answer.status}` };
  }
}

// One stream per page; it also has the events of the query that the page shows.
export function listen(query, heard) {
  const source = new EventSource(query ? `events?query=${encodeURIComponent(query)}` : "events");
  source.addEventListener("overview", (event) => heard.overview(JSON.parse(event.data)));
  source.addEventListener("query", (event) => heard.query && heard.query(JSON.parse(event.data)));
  source.addEventListener("open", () => heard.open());
  source.addEventListener("error", () => {
    heard.lost();
    // A browser does not try a refused connection again, but the job may start again.
    if (source.readyState === EventSource.CLOSED) setTimeout(() => heard.again(), 1500);
  });
  return source;
}
