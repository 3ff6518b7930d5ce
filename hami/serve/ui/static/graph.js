// The pipeline as cards and curves. The server says where everything goes; here it is filled with figures.

import { Bars, Sparkline } from "./charts.js";
import { element, shape, write } from "./dom.js";
import { count, duration, rate } from "./format.js";

const NARROW_PX = 640;
const SMALLEST_SCALE = 0.72;

export class Graph {
  constructor(root, onSelect) {
    this.root = root;
    this.onSelect = onSelect;
    this.cards = new Map();
    this.selected = null;
    this.shown = "";
    new ResizeObserver(() => this.graph && this.show(this.graph)).observe(root);
  }

  show(graph) {
    this.graph = graph;
    const isTall = this.root.clientWidth < NARROW_PX;
    const text = `${isTall}${JSON.stringify(graph)}`;
    if (text !== this.shown) {
      this.shown = text;
      this.#build(graph, isTall ? graph.tall : graph.wide);
    }
    const scale = Math.min(1, Math.max(SMALLEST_SCALE, this.root.clientWidth / this.width));
    this.stage.style.zoom = scale.toFixed(3);
  }

  update(name, history, figures) {
    this.cards.get(name)?.update(history, figures);
    for (const { path, source } of this.edges) {
      if (source === name) path.classList.toggle("is-busy", (history.rate ?? 0) > 0);
    }
  }

  select(name) {
    this.selected = name;
    for (const [each, card] of this.cards) card.node.setAttribute("aria-pressed", each === name);
  }

  #build(graph, drawing) {
    const [width, height] = drawing.size;
    this.width = width;
    const svg = shape("svg", { class: "edges", width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
    svg.append(marker("arrow"), marker("busy-arrow"));
    this.edges = [];
    const labels = [];
    for (const edge of drawing.edges) {
      const path = shape("path", { class: `edge ${edge.kind}`, d: edge.path });
      svg.append(path);
      // behind a node that counts nothing, what comes out is what goes in at the other end
      const from = graph.nodes[edge.from];
      this.edges.push({ path, source: from.is_measured ? from.name : graph.nodes[edge.to].name });
      if (edge.label) labels.push(label(edge));
    }
    const frames = drawing.frames.map((frame) => place(element("div", { class: "frame" }), frame));
    this.cards = new Map(
      graph.nodes.map((node, index) => {
        const card = new Card(node, graph, index, () => this.onSelect(node.name));
        place(card.node, drawing.boxes[index]);
        return [node.name, card];
      }),
    );
    this.stage = element("div", { class: "stage" }, ...frames, svg, ...labels);
    this.stage.append(...[...this.cards.values()].map((card) => card.node));
    this.stage.style.width = `${width}px`;
    this.stage.style.height = `${height}px`;
    this.root.replaceChildren(this.stage);
    this.select(this.selected);
  }
}

class Card {
  constructor(node, graph, index, onSelect) {
    const next = graph.wide.edges.filter((edge) => edge.from === index && edge.kind === "next");
    const names = next.map((edge) => graph.nodes[edge.to].name);
    this.name = node.name;
    this.next = names.length ? `, then ${names.join(", ")}` : "";
    this.dot = element("span", { class: "dot" });
    this.pips = element("span", { class: "pips" });
    const badge = node.is_answer && !names.length && graph.nodes.length > 1 ? [element("span", { class: "badge", text: "answer" })] : [];
    const head = element("div", { class: "node-head" }, this.dot, element("span", { class: "node-name", text: node.name, title: node.name }), ...badge, this.pips);
    const backend = [node.backend, ...node.facts].join("  ·  ");
    const line = element("div", { class: "node-backend", text: backend, title: backend });
    this.node = element("button", { class: "node", type: "button", "aria-pressed": "false", "aria-label": `${node.name}${this.next}` }, head, line);
    this.node.addEventListener("click", onSelect);
    this.node.dataset.node = node.name;
    if (node.is_measured) this.#addFigures();
    else this.node.classList.add("is-plain");
  }

  #addFigures() {
    this.rate = element("span", { class: "node-rate", text: "–" });
    this.sparkline = new Sparkline(132, 34);
    const flow = element("div", { class: "node-flow" }, element("div", {}, this.rate, element("span", { class: "unit", text: "/s" })), this.sparkline.node);
    this.figures = Object.fromEntries(["waiting", "p50", "p99"].map((name) => [name, element("dd", { text: "–" })]));
    this.bars = new Bars(60, 22, 8);
    const cell = (term, value) => element("div", {}, element("dt", { text: term }), value);
    this.batches = cell("batches", element("dd", {}, this.bars.node));
    this.node.append(
      flow,
      element(
        "dl",
        { class: "node-figures" },
        cell("queue", this.figures.waiting),
        cell("p50", this.figures.p50),
        cell("p99", this.figures.p99),
        this.batches,
      ),
    );
  }

  update(history, figures) {
    const times = history.times("run_ms");
    write(this.rate, rate(history.rate));
    write(this.figures.waiting, count(figures.waiting));
    write(this.figures.p50, duration(times.p50));
    write(this.figures.p99, duration(times.p99));
    this.figures.waiting.classList.toggle("is-high", figures.waiting > 0 && figures.busy === figures.instances);
    this.sparkline.draw(history.rates);
    this.batches.hidden = history.batches.length === 0;
    this.bars.draw(history.batches);
    this.#showInstances(figures);
    const failed = history.grown((one) => one.errors);
    this.dot.dataset.state = figures.hung ? "bad" : failed ? "warn" : (history.rate ?? 0) > 0 ? "good" : "idle";
    this.dot.title = figures.hung ? "hung" : failed ? `${failed} failed in the last minute` : "";
    this.node.setAttribute("aria-label", `${this.name}: ${rate(history.rate)} a second, ${figures.waiting} waiting${this.next}`);
  }

  #showInstances({ instances, busy, hung }) {
    const isFew = instances > 0 && instances <= 8;
    const wanted = isFew ? instances : 0;
    while (this.pips.children.length > wanted) this.pips.lastElementChild.remove();
    if (!isFew) write(this.pips, instances ? `${busy} of ${instances} busy` : "");
    while (this.pips.children.length < wanted) this.pips.append(element("i"));
    [...this.pips.children].forEach((pip, i) => {
      pip.className = i < hung ? "is-hung" : i < busy ? "is-busy" : "";
    });
    this.pips.title = instances ? `${busy} of ${instances} instances busy` : "";
  }
}

function place(node, [x, y, width, height]) {
  Object.assign(node.style, { left: `${x}px`, top: `${y}px`, width: `${width}px`, height: `${height}px` });
  return node;
}

function label(edge) {
  const node = element("span", { class: `edge-label ${edge.kind}`, text: edge.label, title: edge.whole_label });
  node.style.left = `${edge.label_at[0]}px`;
  node.style.top = `${edge.label_at[1]}px`;
  return node;
}

function marker(id) {
  const box = { id, markerWidth: 8, markerHeight: 8, refX: 6.5, refY: 4, orient: "auto", markerUnits: "userSpaceOnUse" };
  return shape("marker", box, shape("path", { d: "M0.5,0.5 L7,4 L0.5,7.5 Z" }));
}
