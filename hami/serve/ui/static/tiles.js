// The whole pipeline in five numbers.

import { Sparkline } from "./charts.js";
import { element, write } from "./dom.js";
import { count, duration, rate } from "./format.js";

const TILES = ["answers per second", "waiting", "busy instances", "slowest p99", "errors in a minute"];

export class Tiles {
  constructor(root) {
    this.values = TILES.map(() => element("dd", { text: "–" }));
    this.sparkline = new Sparkline(120, 40);
    const cells = TILES.map((name, i) => element("div", { class: "tile" }, element("dt", { text: name }), this.values[i]));
    cells[0].append(this.sparkline.node);
    root.replaceChildren(...cells);
  }

  update(answering, histories, nodes) {
    const all = Object.values(nodes);
    const sum = (read) => all.reduce((total, figures) => total + read(figures), 0);
    const slowest = [...histories.values()].map((history) => history.times("run_ms").p99 ?? 0);
    const failed = [...histories.values()].reduce((total, history) => total + history.grown((one) => one.errors), 0);
    write(this.values[0], rate(answering?.rate ?? null));
    write(this.values[1], count(sum((figures) => figures.waiting)));
    write(this.values[2], `${sum((figures) => figures.busy)} of ${sum((figures) => figures.instances)}`);
    write(this.values[3], duration(Math.max(0, ...slowest) || null));
    write(this.values[4], count(failed));
    this.values[4].classList.toggle("is-bad", failed > 0);
    if (answering) this.sparkline.draw(answering.rates);
  }
}
