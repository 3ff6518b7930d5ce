// What failed lately, the newest first.

import { element, write } from "./dom.js";
import { timeOfDay } from "./format.js";

const SHOWN = 40;

export class Errors {
  constructor(root, note) {
    this.root = root;
    this.note = note;
    this.newest = null;
  }

  show(errors) {
    const newest = errors[0]?.number ?? 0;
    if (newest === this.newest) return;
    this.newest = newest;
    write(this.note, errors.length ? `${errors.length} kept` : "");
    const rows = errors.slice(0, SHOWN).map(row);
    this.root.replaceChildren(...(rows.length ? rows : [element("li", { class: "empty", text: "Nothing has failed." })]));
  }
}

function row(error) {
  const time = element("time", { text: timeOfDay(error.time_s), datetime: new Date(error.time_s * 1000).toISOString() });
  const where = error.node ? [element("span", { class: "where", text: error.node })] : [];
  const head = element("div", {}, time, element("code", { text: error.code }), ...where);
  return element("li", {}, head, element("p", { text: error.message }));
}
