// Elements, always with text as text: nothing in this page is ever parsed as markup.

const SVG = "http://www.w3.org/2000/svg";

// element("p", { class: "note", text: "hello" }, child, ...): attributes by name, `text` as textContent.
export function element(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

export function shape(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "text") node.textContent = value;
    else if (value === true) node.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}

export const find = (id) => document.getElementById(id);

// Writes only what changed, so that selections and screen readers are left in peace.
export function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
