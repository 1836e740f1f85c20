/* Markdown as archcli writes it (a heading, tables, paragraphs), as elements. All text goes in as text. */

export const node = (name, attributes = {}, ...children) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value !== null) made.setAttribute(key, value);
  made.append(...children.filter((child) => child !== null));
  return made;
};

const plain = (text) => text.replace(/\\([\\`*_[\]<>|#])/g, "$1");

/* `archcli memory` within a sentence, which Markdown has escaped, as code. */
export const sentence = (text) =>
  plain(text).split(/`([^`]+)`/).map((part, i) => (i % 2 ? node("code", {}, part) : part));

/* The cells of a line: split at bars that no backslash stands before. */
const cells = (line) => line.slice(1, -1).match(/(?:\\.|[^|\\])*(?:\||$)/g).map((cell) => cell.replace(/\|$/, "").trim());

const cell = (text, tag, numeric) => {
  const bold = /^\*\*(.*)\*\*$/s.exec(text);
  return node(tag, { class: numeric ? "number" : null }, bold ? node("strong", {}, plain(bold[1])) : plain(text));
};

const split = (line, width) => cells(line).slice(0, width);

const row = (line, numeric) =>
  node("tr", {}, ...split(line, numeric.length).map((text, i) => {
    const made = cell(text, i || !text ? "td" : "th", numeric[i]);
    if (made.tagName === "TH") made.setAttribute("scope", "row");
    return made;
  }));

/* The first line of a table; none where no column has a name. */
const head = (heads, numeric) => {
  if (!heads.some(Boolean)) return null;
  const made = heads.map((text, i) => {
    const shown = cell(text, text ? "th" : "td", numeric[i]);
    if (text) shown.setAttribute("scope", "col");
    return shown;
  });
  return node("thead", {}, node("tr", {}, ...made));
};

const table = (lines, title) => {
  const numeric = cells(lines[1]).map((rule) => rule.endsWith(":")).slice(0, -1);
  const body = node("tbody", {}, ...lines.slice(2).map((line) => row(line, numeric)));
  const made = node("table", {}, head(split(lines[0], numeric.length), numeric), body);
  return node("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title }, made);
};

/* The elements of a report in Markdown: the heading first, then tables and paragraphs. */
export const rendered = (text) => {
  const blocks = text.trim().split(/\n{2,}/);
  let title = "Table";
  return blocks.map((block, i) => {
    if (block.startsWith("### ")) {
      title = plain(block.slice(4));
      return node("h3", {}, ...sentence(block.slice(4)));
    }
    if (block.startsWith("|")) return table(block.split("\n"), title);
    if (i === 0) return node("h2", {}, ...sentence(block));
    return node("p", { class: "note" }, ...sentence(block));
  });
};
