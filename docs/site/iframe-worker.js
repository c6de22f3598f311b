// Browsers give no worker to a page that was opened from a disk. There the search's program runs in a
// hidden frame instead, which answers messages as a worker would.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.onmessage = null;
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.documentElement.append(this.frame);
      const inside = this.frame.contentWindow;
      const answer = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        if (this.onmessage) this.onmessage(event);
      };
      inside.postMessage = (data) => setTimeout(answer, 0, data);
      this.ready = this.load(String(address));
      inside.importScripts = (...addresses) =>
        addresses.reduce((before, next) => before.then(() => this.load(next)), Promise.resolve());
    }

    load(address) {
      const script = this.frame.contentDocument.createElement("script");
      script.src = new URL(address, location);
      const loaded = new Promise((done, failed) => {
        script.onload = done;
        script.onerror = failed;
      });
      this.frame.contentDocument.body.append(script);
      return loaded;
    }

    postMessage(data) {
      this.ready.then(() => {
        this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
      });
    }

    terminate() {
      this.frame.remove();
    }
  };
}
