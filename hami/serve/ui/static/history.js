// What one node did over the last minutes, from the states that were seen: rates, and latencies of a window.

const KEPT = 180;
const WINDOW_S = 60;

export class NodeHistory {
  constructor() {
    this.rates = [];
    this.errorRates = [];
    this.samples = [];
  }

  add(clock, figures) {
    const before = this.samples.at(-1);
    if (before && (clock <= before.clock || figures.items < before.figures.items)) this.samples = [];
    else if (before) {
      const seconds = clock - before.clock;
      push(this.rates, (figures.items - before.figures.items) / seconds);
      push(this.errorRates, (figures.errors - before.figures.errors) / seconds);
    }
    this.samples.push({ clock, figures });
    while (this.samples.length > 2 && clock - this.samples[1].clock >= WINDOW_S) this.samples.shift();
  }

  // The mean of the last few seconds; null before there are two states.
  get rate() {
    return this.#perSecond((figures) => figures.items, 5);
  }

  // By how much a figure grew within the window.
  grown(read) {
    if (this.samples.length < 2) return 0;
    return read(this.samples.at(-1).figures) - read(this.samples[0].figures);
  }

  perSecond(read) {
    return this.#perSecond(read, 5);
  }

  // Percentiles of `wait_ms` or `run_ms` within the window; of all time where the window holds nothing.
  times(name) {
    const now = this.samples.at(-1).figures[name];
    const counts = this.samples.length < 2 ? [] : difference(now.buckets, this.samples[0].figures[name].buckets);
    const total = counts.reduce((sum, [, number]) => sum + number, 0);
    if (total === 0) return { p50: now.count ? now.p50 : null, p90: now.count ? now.p90 : null, p99: now.count ? now.p99 : null, count: 0 };
    const at = (part) => percentile(counts, Math.ceil(part * total));
    return { p50: at(0.5), p90: at(0.9), p99: at(0.99), count: total };
  }

  // Pairs of rows and runs within the window, or of all time.
  get batches() {
    const now = this.samples.at(-1).figures.batch_rows;
    const recent = this.samples.length < 2 ? [] : difference(now, this.samples[0].figures.batch_rows);
    return recent.length ? recent : now;
  }

  #perSecond(read, seconds) {
    if (this.samples.length < 2) return null;
    const last = this.samples.at(-1);
    const first = this.samples.findLast((one) => last.clock - one.clock >= seconds) ?? this.samples[0];
    return Math.max(0, (read(last.figures) - read(first.figures)) / (last.clock - first.clock));
  }
}

function push(list, value) {
  list.push(Math.max(0, value));
  if (list.length > KEPT) list.shift();
}

// Counts by a key that grows, later minus earlier, without what did not change.
function difference(later, earlier) {
  const before = new Map(earlier);
  return later.map(([key, number]) => [key, number - (before.get(key) ?? 0)]).filter(([, number]) => number > 0);
}

function percentile(counts, rank) {
  let below = 0;
  for (const [end, number] of counts) {
    below += number;
    if (below >= rank) return end * 0.97; // the middle of a bucket
  }
  return counts.at(-1)[0];
}
