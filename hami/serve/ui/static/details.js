// Everything that is known of the node that was chosen.

import { Bars, Sparkline, grouped } from "./charts.js";
import { element, write } from "./dom.js";
import { count, duration, rate, share, words } from "./format.js";

const COUNTS = ["items", "errors", "dropped", "waiting", "busy", "hung"];
const TIMES = ["p50", "p90", "p99"];

export class Details {
  constructor(root) {
    this.root = root;
    this.name = null;
  }

  show(node, history, figures) {
    this.root.hidden = !figures;
    if (!figures) return;
    if (this.name !== node.name) this.#build(node);
    this.#update(history, figures);
  }

  #build(node) {
    this.name = node.name;
    this.cells = Object.fromEntries(COUNTS.map((name) => [name, element("dd")]));
    const counts = element("dl", { class: "counts" }, ...COUNTS.map((name) => pair(name, this.cells[name])));
    this.times = new Map();
    const body = element("tbody", {}, this.#timesRow("Waiting", "wait_ms"), this.#timesRow("Running", "run_ms"));
    const heads = ["", ...TIMES, "longest ever"].map((text) => element("th", { scope: "col", text }));
    const table = element("table", {}, element("thead", {}, element("tr", {}, ...heads)), body);
    this.sparkline = new Sparkline(420, 64, "is-large");
    this.peak = element("span", { class: "note" });
    this.bars = new Bars(220, 56, 16);
    this.axis = element("p", { class: "note axis" });
    this.releases = element("ul", { class: "shares" });
    this.batches = block("Rows of batches", this.axis, this.bars.node, this.releases);
    this.backend = element("div", { class: "figures-of-backend" });
    const code = element("code", { text: node.backend });
    this.root.replaceChildren(
      element("div", { class: "heading" }, element("h2", { id: "details-title", text: node.name }), code),
      element(
        "div",
        { class: "details" },
        block("Requests per second", this.peak, this.sparkline.node, counts),
        block("Latency", null, table),
        this.batches,
        this.backend,
      ),
    );
  }

  #timesRow(title, name) {
    const cells = [...TIMES, "max"].map(() => element("td"));
    this.times.set(name, cells);
    return element("tr", {}, element("th", { scope: "row", text: title }), ...cells);
  }

  #update(history, figures) {
    for (const name of COUNTS) write(this.cells[name], count(figures[name]));
    write(this.cells.busy, `${figures.busy} of ${figures.instances}`);
    for (const name of ["errors", "hung"]) this.cells[name].classList.toggle("is-bad", figures[name] > 0);
    for (const [name, cells] of this.times) {
      const times = history.times(name);
      TIMES.forEach((part, i) => write(cells[i], duration(times[part])));
      write(cells.at(-1), duration(figures[name].count ? figures[name].max : null));
    }
    this.sparkline.draw(history.rates, 180);
    write(this.peak, history.rates.length ? `now ${rate(history.rate)}, at most ${rate(Math.max(...history.rates))}` : "");
    this.bars.draw(history.batches);
    const groups = grouped(history.batches, 16);
    this.batches.hidden = groups.length === 0;
    write(this.axis, groups.length > 1 ? `${groups[0][0]} to ${groups.at(-1)[0]}` : (groups[0]?.[0] ?? ""));
    this.#showReleases(figures.releases);
    this.#showBackend(history, figures.backend);
  }

  #showReleases(releases) {
    const total = Object.values(releases).reduce((sum, number) => sum + number, 0);
    const rows = Object.entries(releases).sort((one, two) => two[1] - one[1]);
    sync(this.releases, rows, ([reason, number]) => [words(reason), share(number / total), number / total]);
  }

  // A language model has pages and tokens; any other backend what it calls its figures.
  #showBackend(history, told) {
    const names = Object.keys(told);
    this.backend.hidden = names.length === 0;
    if (names.length === 0) return;
    if (!this.backend.firstChild) {
      this.model = element("ul", { class: "shares" });
      this.told = element("dl", { class: "counts is-small" });
      this.backend.append(element("h3", { text: "Backend" }), this.model, this.told);
    }
    const isModel = "pages_total" in told && "num_sampled" in told;
    const part = (value, whole) => (whole ? value / whole : 0);
    const bars = isModel
      ? [
          ["pages in use", part(told.pages_referenced, told.pages_total)],
          ["pages cached", part(told.pages_cached, told.pages_total)],
          ["prefix hits", part(told.prefix_hit_tokens, told.prefix_query_tokens)],
        ]
      : [];
    sync(this.model, bars, ([name, value]) => [name, share(value), value]);
    const tokens = isModel ? [["tokens per second", rate(history.perSecond((one) => one.backend.num_sampled ?? 0))]] : [];
    const rest = names.map((name) => [words(name), Number.isInteger(told[name]) ? count(told[name]) : (told[name]?.toPrecision(3) ?? "–")]);
    syncPairs(this.told, [...tokens, ...rest]);
  }
}

function block(title, note, ...children) {
  const head = element("h3", { text: title });
  if (note) head.append(note);
  return element("div", { class: "block" }, head, ...children);
}

function pair(term, value) {
  return element("div", {}, element("dt", { text: term }), value);
}

function sync(list, rows, read) {
  while (list.children.length > rows.length) list.lastElementChild.remove();
  while (list.children.length < rows.length) {
    list.append(element("li", {}, element("span"), element("span", { class: "bar" }, element("i")), element("b")));
  }
  rows.forEach((row, i) => {
    const [name, text, value] = read(row);
    const [label, bar, number] = list.children[i].children;
    write(label, name);
    write(number, text);
    bar.firstElementChild.style.width = `${(100 * value).toFixed(1)}%`;
  });
}

function syncPairs(list, rows) {
  while (list.children.length > rows.length) list.lastElementChild.remove();
  while (list.children.length < rows.length) list.append(pair("", element("dd")));
  rows.forEach(([name, text], i) => {
    write(list.children[i].firstElementChild, name);
    write(list.children[i].lastElementChild, text);
  });
}
