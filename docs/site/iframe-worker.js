// The search runs in a worker, and browsers start none for a page that is opened from disk. There its script runs in a
// hidden frame instead. The name is the one by which the theme's plugin `offline` knows that it need not fetch another.
class FrameWorker extends EventTarget {
  constructor(url) {
    super();
    this.frame = document.createElement("iframe");
    this.frame.hidden = true;
    document.body.append(this.frame);
    const inside = this.frame.contentWindow;
    inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
    this.loaded = new Promise((resolve) => {
      const script = inside.document.createElement("script");
      script.onload = resolve;
      script.src = url;
      inside.document.body.append(script);
    });
  }

  postMessage(data) {
    const inside = this.frame.contentWindow;
    this.loaded.then(() => inside.dispatchEvent(new inside.MessageEvent("message", { data })));
  }

  terminate() {
    this.frame.remove();
  }
}

if (location.protocol === "file:") window.Worker = FrameWorker;
