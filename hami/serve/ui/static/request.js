// The form that sends one request, and the answer to it.

import { element, find, write } from "./dom.js";
import { bytes, duration } from "./format.js";
import { json, pictures } from "./json.js";
import { call } from "./server.js";

const PIPELINE = "v1/pipeline";
const BEGINNINGS = {
  "image/png": /^\x89PNG/,
  "image/jpeg": /^\xff\xd8\xff/,
  "image/gif": /^GIF8/,
  "image/webp": /^RIFF....WEBP/s,
};

export class RequestForm {
  constructor() {
    this.data = find("data");
    this.drop = find("drop");
    this.file = null;
    this.targets = "";
    find("request").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#send();
    });
    this.data.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) find("request").requestSubmit();
    });
    this.data.addEventListener("paste", (event) => this.#take(event.clipboardData.files[0], event));
    find("file").addEventListener("change", (event) => this.#take(event.target.files[0]));
    find("picture").querySelector("button").addEventListener("click", () => this.#take(null));
    for (const kind of ["dragover", "dragenter"]) this.drop.addEventListener(kind, (event) => this.#hover(event, true));
    this.drop.addEventListener("dragleave", (event) => this.#hover(event, false));
    this.drop.addEventListener("drop", (event) => {
      this.#hover(event, false);
      this.#take(event.dataTransfer.files[0]);
    });
  }

  show(nodes) {
    const names = nodes.filter((node) => node.is_measured && !node.name.includes("#")).map((node) => node.name);
    if (names.join("\n") === this.targets) return;
    this.targets = names.join("\n");
    const options = [element("option", { value: "", text: "Whole pipeline" })];
    options.push(...names.map((name) => element("option", { value: name, text: `Node ${name}` })));
    find("target").replaceChildren(...options);
  }

  #hover(event, isOver) {
    event.preventDefault();
    this.drop.classList.toggle("is-over", isOver);
  }

  #take(file, event = null) {
    if (file === undefined) return;
    event?.preventDefault();
    this.file = file;
    const box = find("picture");
    const image = box.querySelector("img");
    URL.revokeObjectURL(image.src);
    box.hidden = !file;
    this.data.hidden = Boolean(file);
    if (file) {
      image.src = URL.createObjectURL(file);
      write(box.querySelector("span"), `${file.name || "picture"} · ${bytes(file.size)}`);
    } else {
      image.removeAttribute("src");
      find("file").value = "";
    }
  }

  async #send() {
    const node = find("target").value;
    const path = node ? `v1/nodes/${encodeURIComponent(node)}` : PIPELINE;
    const answer = find("answer");
    find("send").disabled = true;
    const started = performance.now();
    try {
      const response = await call(path, { method: "POST", ...this.#body() });
      const shown = await shownAnswer(response);
      answer.replaceChildren(verdict(response, performance.now() - started), ...shown);
    } catch (error) {
      answer.replaceChildren(element("p", { class: "verdict is-bad", text: `No answer: ${error.message}` }));
    }
    answer.hidden = false;
    find("send").disabled = false;
  }

  #body() {
    if (this.file) return { body: this.file, headers: { "content-type": this.file.type || "application/octet-stream" } };
    return { body: JSON.stringify(requestOf(this.data.value)), headers: { "content-type": "application/json" } };
  }
}

function requestOf(text) {
  try {
    const value = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? value : { data: value };
  } catch {
    return { data: text };
  }
}

function verdict(response, ms) {
  const kind = response.ok ? "is-good" : "is-bad";
  return element("p", { class: `verdict ${kind}` }, element("b", { text: `${response.status}` }), element("span", { text: duration(ms) }));
}

async function shownAnswer(response) {
  const type = response.headers.get("content-type") ?? "";
  if (type.startsWith("application/octet-stream")) return [shownBytes(await response.arrayBuffer())];
  const text = await response.text();
  let value = text;
  try {
    value = JSON.parse(text);
  } catch {
    return [element("pre", { class: "json", text })];
  }
  return [...pictures(value).map(picture), element("pre", { class: "json", tabindex: 0 }, ...json(value))];
}

// Bytes are a picture if they begin like one, else a file to keep.
function shownBytes(buffer) {
  const start = String.fromCharCode(...new Uint8Array(buffer.slice(0, 12)));
  const type = Object.keys(BEGINNINGS).find((name) => BEGINNINGS[name].test(start));
  const source = URL.createObjectURL(new Blob([buffer], { type: type ?? "application/octet-stream" }));
  if (type) return picture(source);
  return element("a", { class: "button", href: source, download: "answer", text: `Keep ${bytes(buffer.byteLength)}` });
}

function picture(source) {
  return element("img", { class: "result", src: source, alt: "A picture in the answer" });
}
