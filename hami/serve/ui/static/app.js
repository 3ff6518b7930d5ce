// Asks for the state once a second while somebody looks, and hands it to the parts of the page.

import { Chat } from "./chat.js";
import { Details } from "./details.js";
import { element, find, write } from "./dom.js";
import { Errors } from "./errors.js";
import { Graph } from "./graph.js";
import { NodeHistory } from "./history.js";
import { RequestForm } from "./request.js";
import { Refused, call, keepToken } from "./server.js";
import { Tiles } from "./tiles.js";

const PERIOD_MS = 1000;

const histories = new Map();
const tiles = new Tiles(find("tiles"));
const graph = new Graph(find("graph"), select);
const details = new Details(find("details"));
const errors = new Errors(find("errors"), find("errors-note"));
const request = new RequestForm();
const chat = new Chat();
let state = null;
let timer = 0;
let round = 0;

function select(name) {
  graph.select(name);
  if (state) showDetails();
}

function showDetails() {
  const node = state.graph.nodes.find((one) => one.name === graph.selected);
  if (node) details.show(node, histories.get(node.name), state.nodes[node.name]);
}

function show(next) {
  state = next;
  document.title = `${state.name} · hami`;
  write(find("name"), state.name);
  showHealth(state.problems);
  for (const [name, figures] of Object.entries(state.nodes)) {
    if (!histories.has(name)) histories.set(name, new NodeHistory());
    histories.get(name).add(state.clock_s, figures);
  }
  for (const name of histories.keys()) if (!(name in state.nodes)) histories.delete(name);
  graph.show(state.graph);
  for (const [name, history] of histories) graph.update(name, history, state.nodes[name]);
  const answering = state.graph.nodes.find((node) => node.is_answer);
  tiles.update(histories.get(answering?.name), histories, state.nodes);
  if (!state.graph.nodes.some((node) => node.name === graph.selected)) graph.select(answering?.name ?? null);
  showDetails();
  errors.show(state.errors);
  request.show(state.graph.nodes);
  chat.show(state.graph.nodes);
}

function showHealth(problems) {
  const box = find("problems");
  const isHealthy = problems.length === 0;
  find("health").dataset.state = isHealthy ? "good" : "bad";
  write(find("health"), isHealthy ? "healthy" : problems.length === 1 ? "1 problem" : `${problems.length} problems`);
  box.hidden = isHealthy;
  const list = box.querySelector("ul");
  if (list.dataset.text === problems.join("\n")) return;
  list.dataset.text = problems.join("\n");
  list.replaceChildren(...problems.map((text) => element("li", { text })));
}

// `mine`: of two rounds that overlap, since the page was hidden and shown meanwhile, only the later goes on.
async function look(mine) {
  try {
    const response = await call("ui/state");
    if (!response.ok) throw new Error(`the server answered ${response.status}`);
    const next = await response.json();
    if (mine !== round) return;
    find("admission").hidden = true;
    show(next);
  } catch (error) {
    find("health").dataset.state = "bad";
    write(find("health"), error instanceof Refused ? "locked" : "no connection");
    find("admission").hidden = !(error instanceof Refused);
    if (error instanceof Refused) return;
  }
  if (!document.hidden && mine === round) timer = setTimeout(look, PERIOD_MS, mine);
}

function begin() {
  clearTimeout(timer);
  round += 1;
  if (!document.hidden) look(round);
}

find("admission").querySelector("form").addEventListener("submit", (event) => {
  event.preventDefault();
  keepToken(find("token").value);
  begin();
});
document.addEventListener("visibilitychange", begin);
begin();
