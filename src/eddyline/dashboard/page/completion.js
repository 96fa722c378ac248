// What can stand at a place of a statement: names of the job, functions and words of the language.

const MOST = 40;
// Words after which a stream or a table stands, and those after which a template does.
const SOURCES = new Set(["from", "join", "latest"]), STATEMENTS = ["SELECT", "REQUEST", "CREATE QUERY", "CREATE STREAM", "CREATE SINK", "EVENT", "SET", "WITH"];

// The word before a place, and whether the place lies in a text or a comment.
export function wordAt(text, caret) {
  const before = text.slice(0, caret);
  const plain = before.replace(/'(?:[^']|'')*'|--[^\n]*(?=\n)/g, (found) => " ".repeat(found.length));
  if (plain.includes("'") || /--[^\n]*$/.test(plain)) return null;
  const [word] = plain.match(/[A-Za-z_][\w]*(?:\.\w*)?$/) ?? [""];
  return { word, start: caret - word.length, before: plain.slice(0, caret - word.length) };
}

// What is offered at a place: the best first, each with its kind and a line of help.
export function offered(text, caret, words, isAsked = false) {
  const at = wordAt(text, caret);
  if (!at || (!at.word && !isAsked)) return { start: caret, items: [] };
  const [qualifier, part] = at.word.includes(".") ? at.word.split(".") : [null, at.word];
  const start = caret - part.length;
  const found = (qualifier === null ? candidates(text, at.before, words) : columnsOf(text, qualifier, words))
    .filter((one) => matches(one.text, part));
  found.sort((a, b) => a.rank - b.rank || a.text.replace("(", "").localeCompare(b.text.replace("(", "")));
  const items = found.slice(0, MOST);
  // A word that is whole needs no help.
  if (items.length === 1 && items[0].text.toLowerCase() === part.toLowerCase() && !isAsked) return { start, items: [] };
  return { start, items };
}

const matches = (name, part) => name.toLowerCase().startsWith(part.toLowerCase());

function candidates(text, before, words) {
  const last = before.trimEnd().match(/([A-Za-z_]+|,)$/)?.[1]?.toLowerCase() ?? "";
  const sources = [...words.streams.map((one) => ({ ...one, kind: "stream" })), ...words.tables.map((one) => ({ ...one, kind: "table" }))];
  const named = sources.map((one) => ({ text: one.name, kind: one.kind, help: one.columns.map((column) => column.name).join(", ") }));
  const templates = words.templates.map((one) => ({ text: one.name, kind: "template", help: [...one.keys, ...one.aggregates].map((column) => column.name).join(", ") }));
  const isRequest = /^\s*request\b/i.test(text);
  if (SOURCES.has(last)) return ranked([isRequest ? templates : named, isRequest ? named : templates]);
  if (last === "for") return ranked([words.queries.map((name) => ({ text: name, kind: "query", help: "" })), templates]);
  if (!before.trim()) return ranked([STATEMENTS.map((word) => ({ text: word, kind: "word", help: "" }))]);
  const read = sources.filter((one) => new RegExp(`\\b${one.name}\\b`, "i").test(text));
  const columns = isRequest ? words.templates.flatMap((one) => (new RegExp(`\\b${one.name}\\b`, "i").test(text) || words.templates.length === 1 ? columnItems([...one.keys, ...one.aggregates], one.name) : []))
    : (read.length ? read : sources).flatMap((one) => columnItems(one.columns, one.name));
  const functions = words.functions.map((one) => ({ text: `${one.name}(`, kind: "function", help: `${one.signature}: ${one.help}` }));
  const keywords = words.keywords.map((word) => ({ text: word, kind: "word", help: "" }));
  const inFrom = /\bfrom\b[^()]*$/i.test(before) && !/\b(where|group|having|qualify|emit)\b[^()]*$/i.test(before) && last === ",";
  return ranked(inFrom ? [named, columns, functions, keywords] : [columns, named, keywords, functions]);
}

const columnItems = (columns, source) => columns.map((one) => ({ text: one.name, kind: "column", help: `${one.type} of ${source}` }));

// The columns of what an alias stands for.
function columnsOf(text, qualifier, words) {
  const alias = qualifier.toLowerCase();
  const found = [...words.streams, ...words.tables].filter((one) => one.name.toLowerCase() === alias
    || new RegExp(`\\b${one.name}\\b\\s*(?:\\[[^\\]]*\\])?\\s*(?:as\\s+)?\\b${alias}\\b`, "i").test(text));
  return ranked([found.flatMap((one) => columnItems(one.columns, one.name))]);
}

// Earlier lists are offered first; a name that stands in several is offered once.
function ranked(lists) {
  const known = new Set(), found = [];
  lists.forEach((list, rank) => {
    for (const one of list) {
      if (known.has(one.text.toLowerCase())) continue;
      known.add(one.text.toLowerCase());
      found.push({ ...one, rank });
    }
  });
  return found;
}
