// Calls to the server, all of them to where this page comes from.

const KEPT_AS = "hami token";

export class Refused extends Error {}

export function keepToken(token) {
  sessionStorage.setItem(KEPT_AS, token);
}

// `fetch` with the token that the user gave, if the server wants one.
export async function call(path, options = {}) {
  const token = sessionStorage.getItem(KEPT_AS);
  const headers = { ...options.headers, ...(token ? { authorization: `Bearer ${token}` } : {}) };
  const response = await fetch(path, { ...options, headers });
  if (response.status === 401) throw new Refused("the server asks for a token");
  return response;
}

// The data of each event of a stream, until it ends.
export async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      rest += value ?? "";
      const parts = rest.split(/\r?\n\r?\n/);
      rest = done ? "" : parts.pop();
      for (const part of parts) {
        const lines = part.split(/\r?\n/).filter((line) => line.startsWith("data:"));
        if (lines.length) yield lines.map((line) => line.replace(/^data: ?/, "")).join("\n");
      }
      if (done) return;
    }
  } finally {
    reader.cancel().catch(() => {}); // it may have ended
  }
}
