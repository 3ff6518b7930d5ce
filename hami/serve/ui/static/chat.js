// A conversation with a language model of the pipeline, whose answers come in while they are made.

import { element, find, write } from "./dom.js";
import { duration, rate } from "./format.js";
import { call, events } from "./server.js";

export class Chat {
  constructor() {
    this.messages = [];
    this.running = null;
    this.models = "";
    this.list = find("messages");
    this.prompt = find("prompt");
    find("chat-form").addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.running) this.running.abort();
      else this.#send();
    });
    this.prompt.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      if (!this.running) this.#send();
    });
    find("chat-clear").addEventListener("click", () => this.#clear());
  }

  show(nodes) {
    const names = [...new Set(nodes.map((node) => node.model).filter(Boolean))];
    find("chat").hidden = names.length === 0;
    if (names.join("\n") === this.models) return;
    this.models = names.join("\n");
    find("model").replaceChildren(...names.map((name) => element("option", { value: name, text: name })));
  }

  #clear() {
    this.running?.abort();
    this.messages = [];
    this.list.replaceChildren();
    write(find("chat-note"), "");
    this.prompt.focus();
  }

  async #send() {
    const content = this.prompt.value.trim();
    if (!content) return;
    this.prompt.value = "";
    this.messages.push({ role: "user", content });
    this.#bubble("user", content);
    const bubble = this.#bubble("assistant", "");
    this.running = new AbortController();
    write(find("chat-send"), "Stop");
    const messages = this.messages;
    const said = { role: "assistant", content: "" };
    try {
      await this.#stream(said, bubble);
    } catch (error) {
      if (error.name !== "AbortError") bubble.append(element("p", { class: "is-bad", text: error.message }));
    }
    if (said.content) messages.push(said);
    else messages.pop();
    this.running = null;
    write(find("chat-send"), "Send");
  }

  async #stream(said, bubble) {
    const started = performance.now();
    const response = await call("v1/chat/completions", {
      method: "POST",
      headers: { "content-type": "application/json" },
      signal: this.running.signal,
      body: JSON.stringify({ model: find("model").value, messages: this.messages, stream: true }),
    });
    if (!response.ok) throw new Error(await reasonOf(response));
    const text = bubble.firstElementChild;
    let first = null;
    let pieces = 0;
    for await (const event of events(response)) {
      if (event === "[DONE]") break;
      const chunk = JSON.parse(event);
      if (chunk.error) throw new Error(chunk.error.message ?? "the answer broke off");
      const piece = chunk.choices?.[0]?.delta?.content;
      if (!piece) continue;
      first ??= performance.now();
      pieces += 1;
      said.content += piece;
      text.append(piece);
      this.list.scrollTop = this.list.scrollHeight;
      const seconds = (performance.now() - first) / 1000;
      const speed = pieces > 1 && seconds > 0 ? ` · ${rate((pieces - 1) / seconds)} pieces a second` : "";
      write(find("chat-note"), `first text after ${duration(first - started)}${speed}`);
    }
  }

  #bubble(role, text) {
    const bubble = element("div", { class: `message ${role}` }, element("p", { text }));
    this.list.append(bubble);
    this.list.scrollTop = this.list.scrollHeight;
    return bubble;
  }
}

async function reasonOf(response) {
  try {
    const { error } = await response.json();
    return error.message ?? String(error);
  } catch {
    return `the server answered ${response.status}`;
  }
}
