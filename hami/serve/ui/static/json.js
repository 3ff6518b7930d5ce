// A value as indented, coloured JSON, made of text nodes alone; long texts and lists are cut in the middle.

import { element } from "./dom.js";

const MAX_TEXT = 600;
const MAX_ITEMS = 200;
const MAX_PICTURES = 8;
const PICTURE = /^data:image\/(png|jpeg|webp|gif);base64,/;

const coloured = (kind, text) => element("span", { class: kind, text });

export function* json(value, indent = "") {
  if (value === null || typeof value !== "object") {
    yield scalar(value);
    return;
  }
  const isList = Array.isArray(value);
  const entries = isList ? value.map((one) => [null, one]) : Object.entries(value);
  const [open, close] = isList ? "[]" : "{}";
  if (entries.length === 0) {
    yield open + close;
    return;
  }
  // numbers in a row are a row
  const isRow = isList && value.every((one) => typeof one === "number");
  const inner = isRow ? "" : `\n${indent}  `;
  yield open;
  for (const [place, [key, one]] of entries.slice(0, MAX_ITEMS).entries()) {
    yield place === 0 ? inner : isRow ? ", " : `,${inner}`;
    if (key !== null) yield* [coloured("key", JSON.stringify(key)), ": "];
    yield* json(one, `${indent}  `);
  }
  if (entries.length > MAX_ITEMS) yield coloured("cut", `${isRow ? ", " : `,${inner}`}… ${entries.length - MAX_ITEMS} more`);
  yield (isRow ? "" : `\n${indent}`) + close;
}

function scalar(value) {
  if (typeof value !== "string") return coloured(value === null ? "null" : typeof value, String(value));
  if (value.length <= MAX_TEXT) return coloured("string", JSON.stringify(value));
  return coloured("string", `${JSON.stringify(value.slice(0, MAX_TEXT)).slice(0, -1)}… ${value.length - MAX_TEXT} more"`);
}

// The pictures that stand in a value as data URLs.
export function pictures(value, found = []) {
  if (found.length >= MAX_PICTURES) return found;
  if (typeof value === "string" && PICTURE.test(value)) found.push(value);
  else if (value !== null && typeof value === "object") for (const one of Object.values(value)) pictures(one, found);
  return found;
}
