// Runs the program for the page: what WASI calls the system is here, and the only files are those that were dropped.
"use strict";

const errno = { ok: 0, badf: 8, io: 29, isdir: 31, noent: 44, nosys: 52, notdir: 54 };
const kind = { directory: 3, file: 4, character: 2 };
const files = new Map();  // "files/run/run.json" -> {size, read(offset, length)}
let module, instance, memory, open, progress_id;

// Where bytes come from: a File of the page, or the program that serves it.
function source_of(file) {
  if (file instanceof Blob) {
    const reader = new FileReaderSync();
    return { size: file.size, read: (at, length) => new Uint8Array(reader.readAsArrayBuffer(file.slice(at, at + length))) };
  }
  return {
    size: file.size,
    read(at, length) {
      const request = new XMLHttpRequest();
      request.open("GET", file.url, false);
      request.responseType = "arraybuffer";
      request.setRequestHeader("Range", `bytes=${at}-${at + length - 1}`);
      request.send();
      if (request.status !== 206) throw new Error(`status ${request.status}`);
      return new Uint8Array(request.response);
    },
  };
}

const is_folder = (path) => path === "" || [...files.keys()].some((name) => name.startsWith(path + "/"));
const view = () => new DataView(memory.buffer);
const text_at = (at, size) => new TextDecoder().decode(new Uint8Array(memory.buffer, at, size));

function join(folder, name) {
  const parts = [];
  for (const part of `${folder}/${name}`.split("/")) {
    if (part === "..") parts.pop();
    else if (part !== "" && part !== ".") parts.push(part);
  }
  return parts.join("/");
}

function write_stat(at, file_kind, size) {
  new Uint8Array(memory.buffer, at, 64).fill(0);
  view().setUint8(at + 16, file_kind);
  view().setBigUint64(at + 24, 1n, true);
  view().setBigUint64(at + 32, BigInt(size), true);
}

// Fills the buffers of a vector of (address, length) from a file, or tells the reason why not.
function read_into(file, offset, vectors, count, done_at) {
  let done = 0;
  for (let i = 0; i < count; ++i) {
    const at = view().getUint32(vectors + 8 * i, true), room = view().getUint32(vectors + 8 * i + 4, true);
    const length = Math.min(room, Math.max(0, file.size - offset - done));
    if (length === 0) continue;
    let bytes;
    try {
      bytes = file.read(offset + done, length);
    } catch {
      return errno.io;
    }
    new Uint8Array(memory.buffer, at, bytes.length).set(bytes);
    done += bytes.length;
    if (bytes.length < length) break;
  }
  view().setUint32(done_at, done, true);
  return errno.ok;
}

const wasi = {
  environ_get: () => errno.ok,
  environ_sizes_get(count, size) {
    view().setUint32(count, 0, true);
    view().setUint32(size, 0, true);
    return errno.ok;
  },
  clock_time_get(clock, precision, at) {
    view().setBigUint64(at, BigInt(Math.round(performance.now() * 1e6)), true);
    return errno.ok;
  },
  fd_close: (fd) => (open.delete(fd) ? errno.ok : errno.badf),
  fd_fdstat_get(fd, at) {
    const entry = open.get(fd);
    if (!entry) return errno.badf;
    new Uint8Array(memory.buffer, at, 24).fill(0);
    view().setUint8(at, entry.kind);
    view().setBigUint64(at + 8, ~0n & 0xffffffffffffffffn, true);
    view().setBigUint64(at + 16, ~0n & 0xffffffffffffffffn, true);
    return errno.ok;
  },
  fd_fdstat_set_flags: () => errno.ok,
  fd_filestat_get(fd, at) {
    const entry = open.get(fd);
    if (!entry) return errno.badf;
    write_stat(at, entry.kind, entry.file ? entry.file.size : 0);
    return errno.ok;
  },
  fd_pread(fd, vectors, count, offset, done) {
    const entry = open.get(fd);
    return entry?.file ? read_into(entry.file, Number(offset), vectors, count, done) : errno.badf;
  },
  fd_prestat_get(fd, at) {
    if (fd !== 3) return errno.badf;
    view().setUint32(at, 0, true);
    view().setUint32(at + 4, 1, true);
    return errno.ok;
  },
  fd_prestat_dir_name(fd, at) {
    view().setUint8(at, 47);
    return errno.ok;
  },
  fd_read(fd, vectors, count, done) {
    const entry = open.get(fd);
    if (!entry?.file) return errno.badf;
    const result = read_into(entry.file, entry.offset, vectors, count, done);
    if (result === errno.ok) entry.offset += view().getUint32(done, true);
    return result;
  },
  fd_readdir(fd, at, room, cookie, used_at) {
    const entry = open.get(fd);
    if (entry?.kind !== kind.directory) return errno.badf;
    const front = entry.path === "" ? "" : entry.path + "/";
    const names = [...new Set([...files.keys()].filter((name) => name.startsWith(front)).map((name) => name.slice(front.length).split("/")[0]))];
    let used = 0;
    for (let i = Number(cookie); i < names.length && used < room; ++i) {
      const name = new TextEncoder().encode(names[i]), record = new Uint8Array(24 + name.length);
      const fields = new DataView(record.buffer);
      fields.setBigUint64(0, BigInt(i + 1), true);
      fields.setBigUint64(8, BigInt(i + 1), true);
      fields.setUint32(16, name.length, true);
      fields.setUint8(20, files.has(front + names[i]) ? kind.file : kind.directory);
      record.set(name, 24);
      const part = record.subarray(0, Math.min(record.length, room - used));  // a name that is cut is asked for again
      new Uint8Array(memory.buffer, at + used, part.length).set(part);
      used += part.length;
    }
    view().setUint32(used_at, used, true);
    return errno.ok;
  },
  fd_seek(fd, offset, whence, at) {
    const entry = open.get(fd);
    if (!entry?.file) return errno.badf;
    entry.offset = Number(offset) + [0, entry.offset, entry.file.size][whence];
    view().setBigUint64(at, BigInt(entry.offset), true);
    return errno.ok;
  },
  // Only what ends the program writes by itself: all else is captured.
  fd_write(fd, vectors, count, done) {
    let all = 0;
    for (let i = 0; i < count; ++i) all += view().getUint32(vectors + 8 * i + 4, true);
    view().setUint32(done, all, true);
    return errno.ok;
  },
  path_filestat_get(fd, flags, name, size, at) {
    const path = join(open.get(fd)?.path ?? "", text_at(name, size));
    const file = files.get(path);
    if (!file && !is_folder(path)) return errno.noent;
    write_stat(at, file ? kind.file : kind.directory, file ? file.size : 0);
    return errno.ok;
  },
  path_open(fd, look, name, size, flags, rights, inherited, fd_flags, at) {
    const path = join(open.get(fd)?.path ?? "", text_at(name, size));
    const file = files.get(path);
    if (!file && !is_folder(path)) return errno.noent;
    if (file && (flags & 2) !== 0) return errno.notdir;
    let number = 4;
    while (open.has(number)) ++number;
    open.set(number, { kind: file ? kind.file : kind.directory, path, file, offset: 0 });
    view().setUint32(at, number, true);
    return errno.ok;
  },
  poll_oneoff: () => errno.nosys,
  proc_exit(status) {
    throw new Error(`the program ended with ${status}`);
  },
};

function progress(done, total) {
  postMessage({ id: progress_id, progress: { done, total } });
}

// wasm hands over addresses as signed numbers: those above 2 GiB come out negative.
const unsigned = (calls) => Object.fromEntries(Object.entries(calls).map(([name, call]) =>
  [name, (...words) => call(...words.map((word) => (typeof word === "number" ? word >>> 0 : word)))]));

async function make_instance() {
  open = new Map([[3, { kind: kind.directory, path: "" }]]);
  for (let fd = 0; fd < 3; ++fd) open.set(fd, { kind: kind.character, path: "" });
  instance = await WebAssembly.instantiate(module, { wasi_snapshot_preview1: unsigned(wasi), page: { progress } });
  memory = instance.exports.memory;
  instance.exports._initialize();
}

async function start(base64) {
  const packed = Uint8Array.fromBase64 ? Uint8Array.fromBase64(base64) : Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  module = await WebAssembly.compileStreaming(new Response(stream, { headers: { "Content-Type": "application/wasm" } }));
  await make_instance();
  return run(["--version"]).out.trim();
}

function run(words) {
  const request = new TextEncoder().encode(words.map((word) => String(word).replaceAll("\0", "") + "\0").join(""));
  const e = instance.exports;
  const at = e.room(request.length) >>> 0;
  new Uint8Array(memory.buffer, at, request.length).set(request);
  const status = e.run();
  return { status, out: text_at(e.out_at() >>> 0, e.out_size() >>> 0), err: text_at(e.err_at() >>> 0, e.err_size() >>> 0) };
}

// A trap (memory that ran out, a defect) leaves the instance in no known state: the next request gets a new one.
async function guarded_run(words) {
  try {
    return run(words);
  } catch (error) {
    await make_instance();
    return { status: 2, out: "", err: `narrow: the engine stopped (${error.message}); it was started again\n`, stopped: true };
  }
}

// A part of a file, counted as it streams in: a stream gives three times what slices give that are asked for one by one.
async function count_part({ type, file, from, to }) {
  const begun = run(["piece", type]);
  if (begun.status !== 0) throw new Error(begun.err);
  const size = 1 << 20, room = instance.exports.piece_room(size) >>> 0;
  const stream = file.slice(from, to).stream();
  let reader, buffer = new ArrayBuffer(size), have = 0, left = to - from, untold = 0, told_at = performance.now();
  try {
    reader = stream.getReader({ mode: "byob" });
  } catch {
    reader = stream.getReader(), buffer = null;  // a browser whose files are no streams of bytes
  }
  while (left > 0) {
    const { done, value } = await (buffer ? reader.read(new Uint8Array(buffer), { min: Math.min(size, left) }) : reader.read());
    if (done || value.length > left) throw new Error("the file changed while it was read");
    if (buffer) buffer = value.buffer;
    left -= value.length;
    for (let at = 0; at < value.length;) {
      const bytes = value.subarray(at, Math.min(value.length, at + size - have));
      new Uint8Array(memory.buffer, room + have, bytes.length).set(bytes);
      at += bytes.length, have += bytes.length;
      if (have !== size && (left > 0 || at < value.length)) continue;
      instance.exports.count_piece(have);
      untold += have, have = 0;
    }
    if (left > 0 && performance.now() - told_at < 100) continue;  // the page draws what it is told
    progress(untold, 0);
    untold = 0, told_at = performance.now();
  }
  const at = instance.exports.state_at() >>> 0, end = at + (instance.exports.state_size() >>> 0);
  return { state: memory.buffer.slice(at, end) };
}

function take_part({ place, state }) {
  const room = instance.exports.piece_room(state.byteLength) >>> 0;  // first: memory that grows is another buffer
  new Uint8Array(memory.buffer, room, state.byteLength).set(new Uint8Array(state));
  return guarded_run(["part", place]);
}

const requests = {
  start: ({ wasm }) => start(wasm),
  module: () => module,
  use: async (data) => {
    module = data.module;
    await make_instance();
  },
  part: count_part,
  take: take_part,
  run: ({ words }) => guarded_run(words),
  add({ list }) {
    for (const { name, file } of list) files.set(join("files", name), source_of(file));
    return list.map(({ name }) => "/" + join("files", name));
  },
  clear: () => files.clear(),
};

// One after the other: an instance is made in several steps.
let queue = Promise.resolve();
onmessage = ({ data }) => {
  queue = queue.then(async () => {
    progress_id = data.id;
    try {
      const result = await requests[data.kind](data);
      postMessage({ id: data.id, result }, result?.state ? [result.state] : []);
    } catch (error) {
      postMessage({ id: data.id, error: error.message });
    }
  });
};
