// Small pictures of numbers, drawn as SVG and updated in place.

import { shape } from "./dom.js";

const FEWEST_PLACES = 40;
const FEWEST_BARS = 6;

// The line through the last values, on a scale of its own; new ones come in from the right.
export class Sparkline {
  constructor(width, height, kind = "") {
    this.width = width;
    this.height = height;
    this.area = shape("path", { class: "area" });
    this.line = shape("path", { class: "line" });
    const box = { viewBox: `0 0 ${width} ${height}`, width, height, preserveAspectRatio: "none" };
    this.node = shape("svg", { class: `sparkline ${kind}`, "aria-hidden": "true", ...box }, this.area, this.line);
  }

  draw(values, most = 120) {
    const shown = values.slice(-most);
    if (shown.length < 2) return;
    const places = Math.max(shown.length, FEWEST_PLACES);
    const top = Math.max(...shown, 1e-9);
    const step = this.width / (places - 1);
    const left = this.width - step * (shown.length - 1);
    const y = (value) => this.height - 1.5 - (value / top) * (this.height - 4);
    const points = shown.map((value, i) => `${(left + i * step).toFixed(1)},${y(value).toFixed(1)}`);
    this.line.setAttribute("d", `M${points.join("L")}`);
    this.area.setAttribute("d", `M${left.toFixed(1)},${this.height}L${points.join("L")}L${this.width},${this.height}Z`);
  }
}

// One bar a batch size; where there are many sizes, neighbours share a bar.
export class Bars {
  constructor(width, height, most) {
    this.width = width;
    this.height = height;
    this.most = most;
    this.bars = [];
    const box = { viewBox: `0 0 ${width} ${height}`, width, height };
    this.node = shape("svg", { class: "bars", role: "img", ...box });
  }

  draw(pairs) {
    const groups = grouped(pairs, this.most);
    const label = groups.map(([rows, runs]) => `${rows} rows: ${runs} runs`).join(", ");
    this.node.setAttribute("aria-label", label ? `Batches: ${label}` : "No batches yet");
    while (this.bars.length < groups.length) {
      const title = shape("title");
      const bar = shape("rect", { rx: 1.5 }, title);
      this.bars.push({ bar, title });
      this.node.append(bar);
    }
    const top = Math.max(...groups.map(([, runs]) => runs), 1);
    const pitch = this.width / Math.max(groups.length, FEWEST_BARS);
    this.bars.forEach(({ bar, title }, i) => {
      const [rows, runs] = groups[i] ?? ["", 0];
      const height = runs ? Math.max((runs / top) * this.height, 2) : 0;
      const place = { x: i * pitch, y: this.height - height, width: Math.max(pitch - 2, 1), height };
      for (const [name, value] of Object.entries(place)) bar.setAttribute(name, value.toFixed(1));
      title.textContent = `${rows} rows: ${runs}`;
    });
  }
}

// At most `most` pairs of a text such as "3" or "9–16" and a count.
export function grouped(pairs, most) {
  if (pairs.length <= most) return pairs.map(([rows, runs]) => [String(rows), runs]);
  const largest = pairs.at(-1)[0];
  const size = Math.ceil(largest / most);
  const groups = new Map();
  for (const [rows, runs] of pairs) {
    const place = Math.floor((rows - 1) / size);
    groups.set(place, (groups.get(place) ?? 0) + runs);
  }
  return [...groups].map(([place, runs]) => {
    const first = place * size + 1;
    return [size === 1 ? String(first) : `${first}–${first + size - 1}`, runs];
  });
}
