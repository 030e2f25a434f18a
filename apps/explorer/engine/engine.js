// The program behind the page: requests to it go to one Worker, one after the other.
"use strict";

const engine = (() => {
  const element = (id) => document.getElementById(id).textContent;

  // A Worker that answers each request once.
  function make_worker() {
    const waiting = new Map(), url = URL.createObjectURL(new Blob([element("worker")], { type: "text/javascript" }));
    const worker = new Worker(url);
    let next = 0;
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
    worker.onmessageerror = worker.onerror;
    const ask = (kind, data = {}, onprogress = null) => new Promise((resolve, reject) => {
      waiting.set(++next, { resolve, reject, onprogress });
      worker.postMessage({ id: next, kind, ...data });
    });
    return { ask, end: () => worker.terminate() };
  }

  let ask;
  const blobs = new Map();  // the files of the page by the names under which the engine knows them

  function start() {
    ask = make_worker().ask;
    return ask("start", { wasm: element("wasm").trim() }).then((version) => (self.version = version));
  }

  // Large tensors in parts, by several engines at once, each of which reads its part as a stream.
  const large = 2 ** 25, least_part = 2 ** 24, part_step = 2 ** 16;
  const counters_asked = Math.min(8, Math.max(4, navigator.hardwareConcurrency || 1));  // more than cores: each waits for its file
  let counters = null;  // made when they are first needed
  let latest = 0;       // count; what an earlier one still brings is not for the tensors of a later one
  async function make_counters() {
    const made = Array.from({ length: counters_asked }, make_worker);
    try {
      const module = await ask("module");
      await Promise.all(made.map((counter) => counter.ask("use", { module })));
      return made;
    } catch (problem) {
      for (const counter of made) counter.end();
      counters = null;
      throw problem;
    }
  }
  async function count_in_parts(paths, files, mine, onprogress) {
    const check = () => { if (mine !== latest) throw new Error("another file was opened"); };
    const found = await self.json(["count", "--pieces", ...paths], onprogress);
    if (!found.parts.length) return found;
    const made = await (counters ??= make_counters()), queue = [];
    for (const { place, path, begin, bytes, type } of found.parts) {
      const step = Math.max(least_part, Math.ceil(bytes / made.length / part_step) * part_step);
      for (let from = 0; from < bytes; from += step)
        queue.push({ place, type, file: files.get(path), from: begin + from, to: begin + Math.min(bytes, from + step) });
    }
    let done = found.bytes - found.parts.reduce((sum, part) => sum + part.bytes, 0);
    const progress = ({ done: more }) => { if (mine === latest) onprogress?.({ done: done += more, total: found.bytes }); };
    await Promise.all(made.map(async (counter) => {
      try {
        for (let part; (part = queue.shift());) {
          check();
          const { state } = await counter.ask("part", part, progress);
          check();
          const taken = await ask("take", { place: part.place, state });
          if (taken.status !== 0) throw new Error(taken.err);
        }
      } catch (problem) {
        queue.length = 0;
        throw problem;
      }
    }));
    check();
    for (const { place, tensor } of (await self.json(["counted"])).rows) found.tensors[place] = tensor;
    return found;
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
      return ask("add", { list: list.map((file) => ({ name: named(file), file: plain(file) })) }).then((paths) => {
        paths.forEach((path, i) => { if (list[i] instanceof Blob) blobs.set(path, list[i]); });
        return paths;
      });
    },
    clear() {
      ++latest;
      blobs.clear();
      return ask("clear");
    },
    async count(paths, onprogress) {
      const begun = performance.now();
      const mine = ++latest, files = new Map(blobs);
      let found = null;
      if (paths.every((path) => files.has(path)) && paths.reduce((sum, path) => sum + files.get(path).size, 0) >= large) {
        try {
          found = await count_in_parts(paths, files, mine, onprogress);
        } catch (problem) {
          if (mine !== latest) throw problem;  // whatever else it is, the program has a sentence for it
        }
      }
      found ??= await self.json(["count", ...paths], onprogress);
      return { ...found, seconds: (performance.now() - begun) / 1000 };
    },
    at: (scale_log2, formats) => self.json(["at", scale_log2, formats.join(",")]),
  };
  self.ready = start();
  return self;
})();
