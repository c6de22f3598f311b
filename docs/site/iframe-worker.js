// Browsers give no worker to a page that was opened from a disk. There the search's program runs in a
// hidden frame instead, which answers messages as a worker would: with copies of what it is told.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc = "<!doctype html>";
      this.frame = frame;
      this.ready = new Promise((loaded) => {
        frame.onload = loaded;
      }).then(() => this.load(new URL(address, location)));
      document.documentElement.append(frame);
    }

    load(address) {
      const inside = this.frame.contentWindow;
      inside.postMessage = (message) => {
        const data = structuredClone(message);
        setTimeout(() => this.dispatchEvent(new MessageEvent("message", { data })));
      };
      const script = inside.document.createElement("script");
      script.src = address;
      inside.document.body.append(script);
      return new Promise((loaded) => {
        script.onload = loaded;
      });
    }

    postMessage(message) {
      const data = structuredClone(message);
      this.ready.then(() => {
        this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
      });
    }
  };
}
