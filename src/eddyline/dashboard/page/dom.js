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

export function table(columns, rows, numbers = []) {
  const kind = (n) => (numbers.includes(n) ? "number" : null);
  const cell = (name, value, n) =>
    value instanceof Node ? element(name, { class: kind(n) }, value) : element(name, { class: kind(n), text: value ?? "" });
  return element("div", { class: "scroll" }, element("table", {},
    element("thead", {}, element("tr", {}, columns.map((text, n) => cell("th", text, n)))),
    element("tbody", {}, rows.map((row) => element("tr", {}, row.map((value, n) => cell("td", value, n)))))));
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
  return element("div", { class: "drawing" }, document.importNode(found, true));
}
