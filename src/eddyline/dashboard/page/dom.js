// Elements from values. Every value becomes text: no value of a stream is ever parsed as HTML.

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "text") made.textContent = value;
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

// `name` is what a reader of the screen hears of the table; its box scrolls, also by keys.
export function table(columns, rows, numbers = [], name = "") {
  const kind = (n) => (numbers.includes(n) ? "number" : null);
  const cell = (tag, value, n, scope) =>
    value instanceof Node ? element(tag, { class: kind(n), scope }, value) : element(tag, { class: kind(n), scope, text: value ?? "" });
  return element("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": name || null }, element("table", {},
    element("thead", {}, element("tr", {}, columns.map((text, n) => (text ? cell("th", text, n, "col") : element("td"))))),
    element("tbody", {}, rows.map((row) => element("tr", {}, row.map((value, n) => cell("td", value, n)))))));
}

// Put other elements into a place: what has not changed stays, and so do the focus and how far a box is scrolled.
export function replace(place, ...nodes) {
  const made = element("div", {}, ...nodes);
  if (made.innerHTML === place.innerHTML) return;
  const boxes = () => [...place.querySelectorAll(".scroll")];
  const before = boxes().map((box) => [box.scrollLeft, box.scrollTop]), focused = boxes().indexOf(document.activeElement);
  place.replaceChildren(...made.childNodes);
  boxes().forEach((box, n) => {
    if (before[n]) [box.scrollLeft, box.scrollTop] = before[n];
    if (n === focused) box.focus({ preventScroll: true });
  });
}

// `count` cards fill their rows at every width: the style has a number of columns for each count.
export function cards(...made) {
  return element("div", { class: `cards of-${made.length}` }, ...made);
}

export function card(title, id) {
  return element("div", { class: "card" }, element("span", { text: title }), element("b", { id, text: "–" }), element("small", { id: `${id}-more` }));
}

export function say(id, text, more) {
  const at = document.getElementById(id);
  if (at && at.textContent !== text) at.textContent = text;
  const below = document.getElementById(`${id}-more`);
  if (below && more !== undefined && below.textContent !== more) below.textContent = more;
}

export function drawing(svg) {
  // The server makes the drawing and escapes its texts. The page's policy runs no script in the parsed elements.
  const found = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
  return element("div", { class: "drawing scroll", tabindex: "0", role: "group", "aria-label": "plan" }, document.importNode(found, true));
}

export const queryLink = (name) => element("a", { href: `#/query/${encodeURIComponent(name)}`, text: name });

// What is wrong, as the engine says it, and where in a text.
export function problemBox(problem, text = null) {
  const parts = [element("b", { text: problem.message })];
  if (problem.line && text !== null) {
    const line = text.split("\n")[problem.line - 1] ?? "";
    parts.push(element("pre", { text: `${line}\n${" ".repeat(Math.max(0, problem.column - 1))}^ line ${problem.line}, column ${problem.column}` }));
  }
  if (problem.detail) parts.push(element("div", { text: problem.detail }));
  if (problem.hint) parts.push(element("div", { class: "hint", text: `hint: ${problem.hint}` }));
  return element("div", { class: "problem", role: "alert" }, ...parts);
}
