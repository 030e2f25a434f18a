// The program behind the page: requests to it go to one Worker, one after the other.
"use strict";

const engine = (() => {
  const element = (id) => document.getElementById(id).textContent;
  const waiting = new Map();
  let worker, next = 0;

  function ask(kind, data = {}, onprogress = null) {
    return new Promise((resolve, reject) => {
      waiting.set(++next, { resolve, reject, onprogress });
      worker.postMessage({ id: next, kind, ...data });
    });
  }

  function start() {
    const url = URL.createObjectURL(new Blob([element("worker")], { type: "text/javascript" }));
    worker = new Worker(url);
    URL.revokeObjectURL(url);
    worker.onmessage = ({ data }) => {
      const request = waiting.get(data.id);
      if (data.progress) return request?.onprogress?.(data.progress);
      waiting.delete(data.id);
      if ("error" in data) request.reject(new Error(data.error));
      else request.resolve(data.result);
    };
    worker.onerror = (event) => {
      for (const { reject } of waiting.values()) reject(new Error(event.message || "the engine could not be started"));
      waiting.clear();
    };
    return ask("start", { wasm: element("wasm").trim() }).then((version) => (self.version = version));
  }

  const self = {
    version: "",
    run: (words) => ask("run", { words: words.map(String) }),
    async json(words, onprogress) {
      const { status, out, err } = await ask("run", { words: [...words.map(String)] }, onprogress);
      if (status === 2) throw new Error(err.split("\n").filter((line) => line !== "").pop() ?? "the program said nothing");
      return JSON.parse(out);
    },
    // File objects, or {name, url, size} of `narrow explore FILE`, whose addresses are those of the page.
    add(list) {
      const named = (file) => file.path ?? (file.webkitRelativePath || file.name);
      const plain = (file) => (file instanceof Blob ? file : { size: file.size, url: new URL(file.url, location.href).href });
      return ask("add", { list: list.map((file) => ({ name: named(file), file: plain(file) })) });
    },
    clear: () => ask("clear"),
    async count(paths, onprogress) {
      const begun = performance.now();
      const found = await self.json(["count", ...paths], onprogress);
      return { ...found, seconds: (performance.now() - begun) / 1000 };
    },
    at: (scale_log2, formats) => self.json(["at", scale_log2, formats.join(",")]),
  };
  self.ready = start();
  return self;
})();
