// View 3, My tensors: counted once, then a loss scale is dragged over what each format loses of them.
(() => {
  "use strict";
  const { el, svg } = tools;
  const min_scale = -30, max_scale = 40, row_height = 28, list_height = 336, most_formats = 8;
  const searched_at_once = 4e6, blocks_at_once = 2e6;  // values; above, a button asks for the work
  const endings = /\.(safetensors|npy|npz)$/i, metrics = { underflow: "underflow", subnormal: "subnormal", overflow: "overflow", sqnr: "SQNR" };
  const defaults = { formats: "fp16,bf16,e4m3,e5m2", scale: "0", show: "underflow", sort: "file", filter: "", blocks: "mxfp8_e4m3,nvfp4" };
  const example_name = "example-gradients.npy";
  const words = (text) => text.split(",").filter(Boolean);
  // Errors name a file as the program sees it; here it has the name under which it was opened.
  const plain = (message) => message.replace(/^narrow: /, "").replaceAll("/files/", "");
  const base = (path) => path.replace(/^\/files\//, "");

  // 20,000 gradients as they often are: of both signs, log-normal around 2^-19, four binades wide. Always the same.
  function example_file() {
    const n = 20000, values = new Float32Array(n);
    let x = 12345;
    const uniform = () => { x = (Math.imul(x, 1664525) + 1013904223) >>> 0; return (x + 0.5) / 4294967296; };
    for (let i = 0; i < n; ++i) {
      const normal = Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform());
      values[i] = (uniform() < 0.5 ? -1 : 1) * 2 ** (-19 + 4 * normal);
    }
    const header = `{'descr': '<f4', 'fortran_order': False, 'shape': (${n},), }`.padEnd(117) + "\n";
    const bytes = new Uint8Array([0x93, ...[..."NUMPY"].map((c) => c.charCodeAt(0)), 1, 0, header.length, 0,
        ...[...header].map((c) => c.charCodeAt(0))]);
    return new File([bytes, values], example_name);
  }

  // The files of dropped folders, named by their paths. What is dropped must be taken at once: after the event it is gone.
  async function files_of(transfer) {
    const plain = [...transfer.files], items = [...transfer.items].filter((item) => item.kind === "file");
    const entries = items.map((item) => item.webkitGetAsEntry && item.webkitGetAsEntry());
    if (!entries.some((entry) => entry && entry.isDirectory)) return plain;
    const handles = items[0].getAsFileSystemHandle && await Promise.all(items.map((item) => item.getAsFileSystemHandle()));
    const files = [], keep = (file, path) => files.push(new File([file], path));  // a view of the file, not a copy
    // Chromium reads entries only where the page came from a server; handles, which not all browsers have, from a folder too.
    const walk_handle = async (handle, path) => {
      if (handle.kind === "file") return keep(await handle.getFile(), path);
      for await (const [name, each] of handle.entries()) await walk_handle(each, `${path}/${name}`);
    };
    const walk = async (entry) => {
      if (entry.isFile) return keep(await new Promise((done, fail) => entry.file(done, fail)), entry.fullPath.replace(/^\//, ""));
      const reader = entry.createReader();
      for (;;) {
        const some = await new Promise((done, fail) => reader.readEntries(done, fail));  // a hundred at a time
        if (!some.length) return;
        for (const each of some) await walk(each);
      }
    };
    if (handles) for (const handle of handles) await walk_handle(handle, handle.name);
    else for (const entry of entries) if (entry) await walk(entry);
    return files.sort((x, y) => (x.name < y.name ? -1 : 1));
  }
  const path_of = (file) => file.webkitRelativePath || file.name;

  // ---- where numbers come from: files that are counted, or a watched run that has its counts
  async function count_files(paths, onprogress) {
    const counted = await engine.count(paths, onprogress);
    return { ...counted, about: `counted in ${tools.number(counted.seconds)} s`, has_values: true, at: (k, formats) => engine.at(k, formats) };
  }
  async function read_run(folder) {
    const got = await engine.run(["histogram", folder, "--json"]);
    if (got.status === 2) throw Error(got.err.split("\n")[0]);
    const bins = JSON.parse(got.out), by_name = new Map();
    const stats = (k, formats) => engine.json(["stats", folder, "--formats", formats.join(","), "--scale", `2^${k}`, "--sort", "name", "--json"]);
    for (const r of await stats(0, ["fp32"]))
      by_name.set(r.tensor, { file: folder, name: r.tensor, type: "counts", shape: [], values: r.count, zeros: r.zeros, inf: r.inf, nan: r.nan,
          amax: r.amax, min_nonzero: r.min_nonzero, subnormal: 0, bins: [] });
    for (const row of bins) {
      const t = by_name.get(row.tensor), n = row.negative + row.positive;
      if (t && row.exponent === "subnormal") t.subnormal = n;
      if (t && typeof row.exponent === "number") t.bins.push([row.exponent, n]);
    }
    const tensors = [...by_name.values()];
    for (const t of tensors) {
      t.min_exponent = t.bins.length ? t.bins[0][0] : 0;
      t.binades = [];
      for (const [e, n] of t.bins) t.binades[e - t.min_exponent] = n;
      t.binades = Array.from(t.binades, (n) => n || 0);
    }
    const at = async (k, formats) => {
      const rows = new Map((await stats(k, formats)).map((r) => [r.tensor + "\n" + r.format, r]));
      return { scale_log2: k, formats, tensors: tensors.map((t) => formats.map((f) => rows.get(t.name + "\n" + f))), total: null };
    };
    return { tensors, errors: [], left_out: [], about: plain(got.err.trim()).split("\n").join("; "), has_values: false, at };
  }

  function mount(root, first_state, change) {
    let state = { ...defaults, ...first_state }, source = null, answer = null, exact = null, best = null, order = [], chosen = -1, k = 0,
        table_formats = new Map(), started = false;
    let loaded = "", found_name = "", counting = false, moving = false;
    const formats = () => [...new Set(words(state.formats))].slice(0, most_formats);
    // Numbers belong under the formats that they were asked for.
    const answered = () => answer && answer.formats.join() === formats().join() ? answer : null;
    const tensor = () => source && source.tensors[chosen];
    const name_of = (t) => `${base(t.file)}:${t.name}`;
    // As people read it: what would steer the text is written out, by the program.
    const label_of = (t) => t.label ?? t.name;
    // A file with one tensor is named by itself: its tensor may have a name that only a person can type.
    const argument = (t) => source.tensors.filter((other) => other.file === t.file).length === 1 ? t.file : `${t.file}:${t.name}`;

    // ---- files
    const status = el("p", { class: "faint two-lines", "data-test": "tensors-status", role: "status" });
    const bar = el("progress", { "data-test": "tensors-progress", max: 1, value: 0, "aria-label": "counting" });
    const problems = el("ul", { class: "problems", "data-test": "tensors-errors" }),
        link_note = el("p", { class: "note", "data-test": "tensors-link-note", hidden: true });
    const picker = (test, label, more) => {
      const input = el("input", { type: "file", multiple: true, class: "sr", tabindex: "-1", "data-test": test, "aria-label": label, ...more,
          onchange: () => { open([...input.files]); input.value = ""; } });
      return [el("button", { type: "button", "data-test": `${test}-button`, onclick: () => input.click() }, label), input];
    };
    const drop = el("div", { class: "drop", "data-test": "tensors-drop" },
      el("div", { class: "row" }, picker("tensors-files", "Open files"), picker("tensors-folder", "Open a folder", { webkitdirectory: true }),
        el("button", { type: "button", "data-test": "tensors-example", onclick: () => open([example_file()]) }, "Example"),
        tools.help(".safetensors, .npy and .npz files, a folder of them, or the folder of a run that narrow.torch.watch wrote.\nFiles are " +
            "read in pieces by this page itself. A link to this view keeps the scale, " +
          "the formats and the name of the tensor, but never the file: whoever opens it needs the file, too.")),
      el("p", {}, "Drop .safetensors, .npy or .npz files here, or the folder of a watched run. ", el("strong", {}, "Nothing leaves this machine"),
          ": the page has no way to send anything."), status, bar, problems);
    for (const kind of ["dragenter", "dragover"]) drop.addEventListener(kind, (event) => { event.preventDefault(); drop.classList.add("over"); });
    drop.addEventListener("dragleave", () => drop.classList.remove("over"));
    drop.addEventListener("drop", async (event) => {
      event.preventDefault();
      drop.classList.remove("over");
      try { open(await files_of(event.dataTransfer)); } catch (problem) { tools.fail(problem); }
    });

    let opening = 0;
    async function open(files, is_first) {
      if (!files.length) return;
      const mine = ++opening;
      counting = true;  // the engine answers for the tensors that it counted last
      status.textContent = `reading ${files.length === 1 ? path_of(files[0]) : files.length + " files"} ...`;
      bar.removeAttribute("value");
      problems.replaceChildren();
      try {
        await engine.ready;
        const run = files.map(path_of).find((path) => /(^|\/)run\.json$/.test(path));
        const is_wanted = (path) => run ? path.startsWith(run.slice(0, -"run.json".length)) : endings.test(path) || !path.includes("/");
        const wanted = files.filter((file) => is_wanted(path_of(file)));
        if (!wanted.length) throw Error("There is no .safetensors, .npy or .npz file in this folder, and no run.json of a watched run.");
        await engine.clear();
        const paths = await engine.add(wanted);
        const onprogress = ({ done, total }) => { if (mine === opening && total) { bar.value = done / total;
            status.textContent = `counting: ${Math.floor(100 * done / total)} %`; } };
        const next = run ? await read_run(paths[wanted.findIndex((file) => path_of(file) === run)].replace(/\/run\.json$/, ""))
            : await count_files(paths, onprogress);
        if (mine !== opening) return;
        counting = false;
        take(next, wanted, is_first);
      } catch (problem) {
        if (mine === opening) { status.textContent = ""; counting = false; forget(); show_problems([problem.message]); }
      }
      if (mine === opening) bar.value = source ? 1 : 0;
    }
    function show_problems(list) { problems.replaceChildren(...list.map((text) => el("li", { class: "bad" }, plain(text)))); }
    function forget() {
      source = answer = exact = best = null;
      title.textContent = facts.textContent = kind_note.textContent = "";
      body.replaceChildren();
      detail.show(["format"], []);
      block_table.show(["format"], []);
      show_markers();
      chart.redraw();
    }
    function take(next, files, is_first) {
      const left = next.left_out.length ? `; ${next.left_out.length} without floating numbers left out` : "";
      show_problems(next.errors.map((e) => e.message.includes(base(e.file)) ? e.message : `${base(e.file)}: ${e.message}`));
      if (!next.tensors.length) { forget(); status.textContent = "nothing to count" + left; return; }
      source = next;
      answer = exact = best = null;
      list.scrollTop = 0;
      const all = source.tensors.reduce((sum, t) => sum + t.values, 0);
      status.textContent = `${source.tensors.length === 1 ? "1 tensor" : tools.count(source.tensors.length) +
          " tensors"}, ${tools.count(all)} values${left}; ${source.about}`;
      tools.say(status.textContent);
      loaded = files.length === 1 ? path_of(files[0]) : `${files.length} files`;
      if (loaded === example_name) loaded = "";
      // The example that comes first leaves a link as it is: the link may wait for its file.
      const is_there = source.tensors.some((t) => name_of(t) === state.tensor);
      change(is_first && !loaded ? {} : { file: loaded, tensor: is_there ? state.tensor : "" });
    }

    // ---- controls
    const slider = el("input", { type: "range", min: min_scale, max: max_scale, step: 1, "data-test": "tensors-scale",
        "aria-label": "loss scale as a power of two", oninput: () => { moving = true; set_scale(Number(slider.value)); },
        onchange: () => { moving = false; change({ scale: slider.value }); } });
    const scale_text = el("output", { class: "mono scale-text", "data-test": "tensors-scale-text" });
    const markers = el("div", { class: "markers", "data-test": "tensors-markers" });
    const chips = tools.chips("tensors-formats", "formats", (name) => change({ formats: toggled(formats(), name).join(",") || "fp16" }));
    const block_chips = tools.chips("tensors-blocks", "block formats", (name) =>
        change({ blocks: toggled(words(state.blocks), name).join(",") || "none" }));
    const toggled = (list, name) => list.includes(name) ? list.filter((x) => x !== name) : [...list, name].slice(-most_formats);
    const filter = el("input", { type: "search", "data-test": "tensors-filter", placeholder: "part of a name", autocomplete: "off",
        spellcheck: "false", oninput: () => change({ filter: filter.value }) });
    const sort = tools.select("tensors-sort", [["file", "as in the file"], ["name", "name"], ["underflow", "most underflow"]],
        (value) => change({ sort: value }));
    const show = tools.select("tensors-show", Object.entries(metrics), (value) => change({ show: value }));
    const exact_button = el("button", { type: "button", class: "small", "data-test": "tensors-exact", onclick: () => ask_exact() }, "exact");
    const find_button = el("button", { type: "button", class: "small", "data-test": "tensors-find", onclick: () => ask_best(true) },
        "find the best scale");
    const block_button = el("button", { type: "button", class: "small", "data-test": "tensors-block-run", onclick: () => ask_blocks(true) },
        "compute");
    const title = el("h3", { "data-test": "tensors-chosen", class: "tensor-name" }),
        facts = el("p", { class: "faint two-lines", "data-test": "tensors-facts" });
    const kind_note = el("p", { class: "faint two-lines", "data-test": "tensors-kind" });
    const caption = el("p", { class: "faint two-lines" });
    const chart = tools.picture("tensors-histogram", 300, draw, csv_bins), detail = tools.table("tensors-detail",
        "what the formats lose of this tensor at this scale");
    const block_table = tools.table("tensors-block-table", "block formats for this tensor"),
        block_note = el("p", { class: "faint two-lines", "data-test": "tensors-block-note" });
    const head = el("thead"), body = el("tbody"), list = el("div", { class: "scroll tensor-list", tabindex: "0", role: "region",
        "aria-label": "tensors; arrow keys choose", "data-test": "tensors-list" }, el("table", {}, head, body));

    root.append(drop, link_note,
      el("div", { class: "row scale-row" }, el("div", { class: "field grow" },
          el("span", { class: "label" }, "loss scale", tools.help("Every value is multiplied by this power of two before it is rounded to " +
              "the format, as a loss scaler does with " +
        "gradients. Drag, or use the arrow keys. Small marks: the scale at which the format loses fewest values to zero and nothing overflows.")),
            el("div", { class: "slider" }, slider, markers)), scale_text),
      el("div", { class: "field" }, el("span", { class: "label" }, "formats"), chips),
      tools.heading("", "", title, chart.exports), facts, chart.node, caption,
      tools.heading("Lost at this scale", "Underflow: values that become zero. Subnormal: values kept with fewer bits. Overflow: values " +
          "beyond the largest. SQNR: signal to quantisation noise, about, from counts in bins of " +
        "1/128 of a binade. 'exact' reads the values again at this scale.", exact_button, find_button, detail.exports), kind_note, detail.node,
      tools.heading("Tensors", "", tools.exports(null, csv_list, "tensors")),
          el("div", { class: "row" }, tools.field("filter", filter), tools.field("sort", sort), tools.field("show", show)), list,
      tools.heading("Block formats", "Blocks of values share a scale of their own, so the loss scale matters less. Each block format has " +
          "its rule; they need the values of the tensor, not only its counts.", block_button, block_table.exports),
      block_chips, block_note, block_table.node);

    // ---- the loss scale: what is drawn follows at once, the numbers in the same frame where the engine is fast enough
    function set_scale(next) {
      k = Math.min(max_scale, Math.max(min_scale, Math.round(next) || 0));
      slider.value = k;
      slider.setAttribute("aria-valuetext", `2 to the ${k}`);
      scale_text.textContent = tools.power(k);
      chart.redraw();
      ask();
    }
    const ask = tools.debounce(async () => {
      if (!source || counting) return;
      const from = source;
      let got = null, refusal = "";
      try { got = await from.at(k, formats()); } catch (error) {
        answer = null;
        if (from.has_values) { show_detail(); show_rows(); throw error; }
        refusal = error.message.replace(/^narrow: /, "");  // the counts of a run tell what was watched, and no more
      }
      if (from !== source) return;
      answer = got;
      if (state.sort === "underflow" && !moving && !drag) sort_list();  // rows that jump about cannot be read
      show_detail();
      show_rows();
      if (refusal) kind_note.textContent = refusal;
    });

    let drag = null;
    const drawing = chart.node.firstChild;
    drawing.classList.add("shift");
    drawing.addEventListener("pointerdown", (event) => { if (!event.button && binade_width) { drag = { x: event.clientX, k };
        drawing.setPointerCapture(event.pointerId); event.preventDefault(); } });
    drawing.addEventListener("pointermove", (event) => { const next = drag && drag.k - (event.clientX - drag.x) / binade_width;
        if (drag && Math.round(next) !== k) set_scale(next); });
    for (const kind of ["pointerup", "pointercancel"]) drawing.addEventListener(kind,
        () => { if (drag) change({ scale: String(k) }); drag = null; });

    // ---- exact numbers, the best scale, block formats: they read the values
    // The file is named as the program names it, and so the rows are those of one tensor.
    const stats = async (t, list, ...more) => {
      const name = argument(t), rows = await engine.json(["stats", name, "--formats", list.join(","), ...more, "--json"]);
      return name === t.file ? rows : rows.filter((row) => row.tensor === t.name);  // a tensor without a name is spelled as all
    };
    const key = () => `${chosen} ${k} ${state.formats}`;
    const ask_exact = tools.debounce(async () => {
      const from = source, turn = opening, t = tensor(), now = key(), at = k, list = formats();
      if (!t || !from.has_values || counting) return;
      const rows = await stats(t, list, "--scale", `2^${at}`);
      if (from !== source || turn !== opening) return;
      exact = { key: now, rows: new Map(rows.map((r) => [r.format, r])) };
      show_detail();
    });
    const ask_best = tools.debounce(async (asked) => {
      const from = source, t = tensor(), list = formats(), now = `${chosen} ${state.formats}`;
      if (!from || counting || (best && best.key === now)) return;
      best = null;
      const files = [...new Set(from.tensors.map((x) => x.file))], size = t ? t.values : from.tensors.reduce((sum, x) => sum + x.values, 0);
      const can = from.has_values && (t || files.length === 1);
      find_button.hidden = !can || size <= searched_at_once || asked === true;
      if (can && (asked === true || size <= searched_at_once)) {
        const rows = t ? await stats(t, list, "--scale", "auto") : await engine.json(["stats", files[0], "--total", "--formats", list.join(","),
            "--scale", "auto", "--json"]);
        if (from === source) best = { key: now, scales: new Map(rows.map((r) => [r.format, Math.log2(r.scale)])) };
      }
      show_markers();
      show_detail();
    });
    let blocks_of = null;
    const ask_blocks = tools.debounce(async (asked) => {
      const t = tensor(), list = words(state.blocks).filter((name) => name !== "none"), from = source;
      if (counting) return;
      if (t !== blocks_of) block_table.show(["format"], []);  // those of another tensor
      blocks_of = t;
      const all = (await tools.once("scaling", () => engine.json(["list-scaling", "--json"]))).filter((row) => row.kind === "block format");
      block_chips.show(all.map((row) => row.name), list);
      const say = !source ? "" : !source.has_values ? "A watched run has counts, not values: block formats need those." : !t
          ? "Choose one tensor above." : !list.length ? "Choose block formats." : "";
      block_button.hidden = Boolean(say) || !t || t.values <= blocks_at_once || asked === true;
      block_note.textContent = say || (block_button.hidden ? "" : `${tools.count(t.values)} values: this takes a while.`);
      if (say || !block_button.hidden) return block_table.show(["format"], []);
      const at = k;
      let rows = [];
      try { rows = await stats(t, list, "--scale", `2^${at}`); } catch (problem) { block_note.textContent = plain(problem.message); }
      if (from !== source || t !== tensor()) return;
      rows.sort((x, y) => list.indexOf(x.format) - list.indexOf(y.format));
      if (rows.length) block_note.textContent = `At scale 2^${at}: exact, from the values.`;
      block_table.show(["format", "bits a value", "underflow", "subnormal", "overflow", "SQNR", "blocks", "scales of blocks"], rows.map((r) => {
        const row = all.find((x) => x.name === r.format) || {};
        return [r.format, tools.number(row.bits_per_element), ...["underflow", "subnormal",
            "overflow"].map((m) => share(r[m], r.count, `tensors-block-${m}-${r.format}`)),
          { text: decibel(r.sqnr_db), value: r.sqnr_db, test: `tensors-block-sqnr-${r.format}` }, tools.count(r.blocks),
              r.scale_log2_min === null ? "-" : `2^${r.scale_log2_min} .. 2^${r.scale_log2_max}`];
      }));
    });

    // ---- what is shown
    const decibel = (x) => x === null || x === undefined ? "-" : x === "inf" ? "exact" : typeof x === "number" ? `${x.toFixed(1)} dB` : String(x);
    const about = (x) => x === "inf" ? "no error seen" : decibel(x);
    const share = (n, whole, test) => ({ text: n === null || n === undefined ? "-" : `${tools.percent(n, whole)}`, value: n, test,
        title: `${tools.count(n)} of ${tools.count(whole)}`, class: n > 0 && n / whole >= 0.01 && !/subnormal/.test(test) ? "bad" : null });
    const pooled = () => source.tensors.reduce((sum, t) => {
      for (const name of ["values", "zeros", "inf", "nan", "subnormal"]) sum[name] += t[name];
      if (t.amax !== null) sum.amax = Math.max(sum.amax ?? 0, tools.real(t.amax));  // null: nothing is finite
      if (t.min_nonzero) sum.min_nonzero = Math.min(sum.min_nonzero, t.min_nonzero);
      t.binades.forEach((n, i) => sum.bins.set(t.min_exponent + i, (sum.bins.get(t.min_exponent + i) || 0) + n));
      return sum;
    }, { values: 0, zeros: 0, inf: 0, nan: 0, subnormal: 0, amax: null, min_nonzero: Infinity, bins: new Map() });
    let pool = null, pool_of = null;
    function shown() {
      const t = tensor();
      if (t) return { ...t, bins: new Map(Array.from(t.binades, (n, i) => [t.min_exponent + i, n])) };
      if (pool_of !== source) { pool = pooled(); pool_of = source; }
      return pool;
    }
    function show_detail() {
      if (!source) return;
      const t = shown(), is_exact = exact && exact.key === key(), fresh = answered();
      const cells = fresh && (tensor() ? fresh.tensors[chosen] : fresh.total);
      exact_button.disabled = !tensor() || !source.has_values || Boolean(is_exact);
      kind_note.textContent = !source.has_values ? "From the counts of the run." : is_exact ? `Exact at 2^${k}, from the values.`
          : `At 2^${answer ? answer.scale_log2 : k}, about: from the counts.`;
      detail.show(["format", "underflow", "subnormal", "overflow", is_exact ? "SQNR" : "SQNR, about", "loses least at"], formats().map((f, i) => {
        const x = is_exact ? exact.rows.get(f) : cells && cells[i], found = best && best.key === `${chosen} ${state.formats}` &&
            best.scales.get(f);
        const jump = typeof found === "number" && Number.isFinite(found) ? el("button",
            { type: "button", class: "small", "data-test": `tensors-best-${f}`, "data-value": found,
            onclick: () => change({ scale: String(found) }) }, tools.power(found)) : "-";
        return [f, ...["underflow", "subnormal", "overflow"].map((m) => share(x ? x[m] : null, t.values, `tensors-${m}-${f}`)),
            { text: x ? is_exact ? decibel(x.sqnr_db) : about(x.sqnr_db) : "-", value: x && x.sqnr_db, test: `tensors-sqnr-${f}` }, { text: jump }];
      }), [["tensor", "scale_log2", "kind", "format", "values", "underflow", "subnormal", "overflow", "sqnr_db"], ...formats().map((f, i) => {
        const x = (is_exact ? exact.rows.get(f) : cells && cells[i]) || {};
        return [tensor() ? name_of(tensor()) : "all", is_exact || !answer ? k : answer.scale_log2, is_exact ? "exact" : "about", f, t.values, x.underflow, x.subnormal, x.overflow,
            x.sqnr_db];
      })]);
    }
    function show_markers() {
      const scales = best && best.key === `${chosen} ${state.formats}` ? [...best.scales].filter(([, e]) => e >= min_scale && e <= max_scale)
          : [];
      markers.replaceChildren(...scales.map(([f, e]) => {
        const mark = el("span", { class: "marker", title: `${f} loses least at 2^${e}`, "data-test": `tensors-marker-${f}`, "data-value": e });
        mark.style.left = `${(e - min_scale) / (max_scale - min_scale) * 100}%`;
        return mark;
      }));
    }

    // Rows out of sight are not made: a checkpoint has thousands of tensors.
    function sort_list() {
      const needle = state.filter.toLowerCase(), all = source.tensors.map((_, i) => i).filter((i) => !needle ||
          name_of(source.tensors[i]).toLowerCase().includes(needle));
      const now = answered(), loss = (i) => !now ? 0 : Math.max(...now.tensors[i].map((x) => x ? x.underflow : 0)) / (source.tensors[i].values || 1);
      if (state.sort === "name") all.sort((i, j) => (source.tensors[i].name < source.tensors[j].name ? -1 : 1));
      if (state.sort === "underflow") { const by = new Map(all.map((i) => [i, loss(i)])); all.sort((i, j) => by.get(j) - by.get(i) || i - j); }
      order = source.has_values && !needle && source.tensors.length > 1 ? [-1, ...all] : all;
    }
    function show_rows() {
      if (!source) return;
      list.style.height = `${Math.min(list_height, (source.tensors.length + 3) * row_height)}px`;
      const now = answered(), fs = formats(), first = Math.max(0, Math.floor(list.scrollTop / row_height) - 8),
          last = Math.min(order.length, first + Math.ceil(list_height / row_height) + 17);
      head.replaceChildren(el("tr", {}, ["tensor", "type", "values", "largest",
          ...fs.map((f) => `${f} ${metrics[state.show]}`)].map((text) => el("th", { scope: "col" }, text))));
      const several = new Set(source.tensors.map((t) => t.file)).size > 1, space = (n) => { const row = el("tr", { "aria-hidden": "true" });
          row.style.height = `${n * row_height}px`; return row; };
      const focused = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.place : undefined;
      body.replaceChildren(space(first), ...order.slice(first, last).map((i) => {
        const t = i < 0 ? shown_all() : source.tensors[i], cells = now && (i < 0 ? now.total : now.tensors[i]);
        const name = i < 0 ? `all ${source.tensors.length} tensors` : several ? `${base(t.file)}:${label_of(t)}` : label_of(t);
        return el("tr", { class: i === chosen ? "chosen" : null }, el("th", { scope: "row" },
            el("button", { type: "button", class: "link", "data-place": i, "data-test": `tensors-row-${i}`, "aria-pressed": String(i === chosen),
            title: name, onclick: () => choose(i) }, name || "(no name)")),
          el("td", {}, i < 0 ? "" : `${t.type} ${t.shape.join("x")}`), el("td", {}, tools.count(t.values)), el("td", {}, tools.number(t.amax)),
          ...fs.map((f, j) => cell(cells && cells[j], t.values, `tensors-cell-${i}-${f}`)));
      }), space(order.length - last));
      if (focused !== undefined) { const again = body.querySelector(`[data-place="${CSS.escape(focused)}"]`);
          if (again) again.focus({ preventScroll: true }); }
    }
    const shown_all = () => { if (pool_of !== source) { pool = pooled(); pool_of = source; } return pool; };
    function cell(x, whole, test) {
      if (!x) return el("td", { "data-test": test }, "-");
      if (state.show === "sqnr") return el("td", { "data-test": test, "data-value": x.sqnr_db }, about(x.sqnr_db));
      return el("td", { "data-test": test, "data-value": x[state.show], title: `${tools.count(x[state.show])} of ${tools.count(whole)}` },
          tools.percent(x[state.show], whole));
    }
    function choose(i) {
      change({ tensor: i < 0 ? "" : name_of(source.tensors[i]) });
      const at = order.indexOf(i) * row_height;
      if (at < list.scrollTop) list.scrollTop = at;
      if (at + 3 * row_height > list.scrollTop + list_height) list.scrollTop = at + 3 * row_height - list_height;
    }
    list.addEventListener("scroll", tools.debounce(show_rows));
    list.addEventListener("keydown", (event) => {
      const move = { ArrowDown: 1, ArrowUp: -1 }[event.key], at = order.indexOf(chosen) + (move || 0);
      if (!move || at < 0 || at >= order.length) return;
      event.preventDefault();
      choose(order[at]);
    });

    // ---- the histogram and the ranges of the formats under it
    let binade_width = 0;
    function draw(picture, width) {
      const fs = formats().map((name) => table_formats.get(name)).filter(Boolean), height = 190, row = 18, left = 74, right = width - 10,
          bottom = height - 20;
      if (!source) return 300;
      const t = shown(), full = [...t.bins].filter(([, n]) => n > 0), exponents = full.map(([e]) => e);
      const low = exponents.reduce((x, e) => Math.min(x, e - 2), -30), high = exponents.reduce((x, e) => Math.max(x, e + 3), 18),
          most = full.reduce((x, [, n]) => Math.max(x, n), 1);
      const ranges_at = height + 8, end = ranges_at + Math.max(1, fs.length) * row + 4;
      const x = tools.axis(picture, { left, right, top: 6, bottom, low, high });
      binade_width = (right - left) / (high - low);
      if (fs.length) {  // what the first format cannot hold at this scale
        const edge = tools.log2(fs[0].min_subnormal ?? fs[0].min_normal) - 1 - k, top = tools.log2(fs[0].max) - k;
        picture.append(svg("rect", { class: "lost", x: left, y: 6, width: x(edge) - left, height: bottom - 6 }),
            svg("rect", { class: "lost", x: x(top), y: 6, width: right - x(top), height: bottom - 6 }));
      }
      for (const [e, n] of full) picture.append(svg("rect", { class: "bar", x: x(e) + 0.5, width: Math.max(1, binade_width - 1),
          y: bottom - Math.max(1.5, n / most * (bottom - 10)), height: Math.max(1.5, n / most * (bottom - 10)) },
        svg("title", {}, `2^${e} to 2^${e + 1}: ${tools.count(n)} values, ${tools.percent(n, t.values)}`)));
      picture.append(svg("text", { class: "tick", x: left - 6, y: 16, "text-anchor": "end" }, tools.percent(most, t.values)),
          svg("text", { class: "tick", x: left - 6, y: bottom, "text-anchor": "end" }, "values"));
      fs.forEach((f, i) => {
        const y = ranges_at + i * row, normal = tools.log2(f.min_normal) - k,
            sub = f.min_subnormal === null ? normal : tools.log2(f.min_subnormal) - k, top = tools.log2(f.max) - k;
        const piece = (kind, from, to, what) => svg("rect", { class: kind, "data-test": `tensors-range-${f.name}${kind === "range" ? ""
            : "-sub"}`, x: x(from), y: y + 3, width: Math.max(0, x(to) - x(from)), height: row - 6 }, svg("title", {}, what));
        picture.append(svg("text", { x: left - 6, y: y + 13, "text-anchor": "end" }, f.name),
            piece("range sub", sub, normal, `${f.name}: subnormals`), piece("range", normal, top, `${f.name}: normal values`));
      });
      return end;
    }
    function csv_bins() {
      const t = shown();
      return [["tensor", "exponent", "values"], ...[...t.bins].sort((p, q) => p[0] - q[0]).map(([e, n]) =>
          [tensor() ? name_of(tensor()) : "all", e, n]), ...["zeros", "subnormal", "inf", "nan"].map((name) => ["", name, t[name]])];
    }
    function csv_list() {
      const now = answered(), fs = formats();
      return [["file", "tensor", "type", "shape", "values", "zeros", "inf", "nan", "amax", "min_nonzero", "scale_log2",
          ...fs.flatMap((f) => [`${f} underflow`, `${f} subnormal`, `${f} overflow`, `${f} sqnr_db about`])],
        ...(source ? source.tensors : []).map((t, i) => [base(t.file), t.name, t.type, t.shape.join("x"), t.values, t.zeros, t.inf, t.nan, t.amax,
            t.min_nonzero, now ? now.scale_log2 : k,
          ...fs.flatMap((f, j) => { const c = now && now.tensors[i] && now.tensors[i][j];
              return c ? [c.underflow, c.subnormal, c.overflow, c.sqnr_db] : ["", "", "", ""]; })])];
    }

    // ---- state
    async function start() {
      started = true;
      const all = await tools.formats();
      table_formats = new Map(all.map((f) => [f.name, f]));
      chips.show(all.map((f) => f.name), formats());
      const given = document.querySelector('meta[name="narrow-files"]'), files = JSON.parse(given && given.content || "[]");
      await open(files.length ? files : [example_file()], true);
    }
    const is_wide = () => (tensor() ? [tensor()] : source.tensors).some((t) => t.type === "F64" || t.type === "C128");
    function show_all() {
      const t = shown();
      title.textContent = tensor() ? label_of(tensor()) || "(no name)" : source.tensors.length === 1 ? label_of(source.tensors[0])
          : `all ${source.tensors.length} tensors`;
      caption.textContent = `Bars: values in each binade; shaded: where ${formats()[0]} holds none. ` +
          "Below: the range of each format at this scale, its subnormals lighter; drag it to move the scale.";
      facts.textContent = `${tools.count(t.values)} values: ${tools.count(t.zeros)} zeros, ${tools.count(t.inf)} Inf, ${tools.count(t.nan)} NaN` +
          (t.subnormal ? `, ${tools.count(t.subnormal)} subnormal in their own type` : "") +
        (is_wide() ? " (FP64 is counted as the nearest FP32)" : "") + `; largest ${tools.number(t.amax)}, smallest ${t.min_nonzero > 0 && Number.isFinite(t.min_nonzero) ? tools.number(t.min_nonzero) : "-"}`;
      sort_list();
      set_scale(k);
      chart.redraw(`Histogram of ${title.textContent} by binade, and the ranges of ${formats().join(", ")} at scale 2^${k}`);
      show_detail();
      show_rows();
      show_markers();
      ask_best();
      ask_blocks();
    }
    return { update(next) {
      state = { ...defaults, ...next };
      k = Number.parseInt(state.scale, 10) || 0;
      if (filter !== document.activeElement) filter.value = state.filter;
      sort.value = state.sort in { file: 1, name: 1, underflow: 1 } ? state.sort : "file";
      show.value = state.show = state.show in metrics ? state.show : "underflow";
      if (table_formats.size) chips.show([...table_formats.keys()], formats());
      if (!started) { start().catch(tools.fail); set_scale(k); return; }
      if (!source) return set_scale(k);
      chosen = state.tensor ? source.tensors.findIndex((t) => name_of(t) === state.tensor) : -1;
      if (chosen < 0 && (source.tensors.length === 1 || !source.has_values)) chosen = 0;
      if (tensor()) found_name = name_of(tensor());
      const misses = state.file && state.file !== loaded || state.tensor && found_name !== state.tensor;
      link_note.hidden = !misses;
      link_note.textContent = misses ? `This link is about ${state.tensor || state.file}. Links hold no files: open ${state.file ||
          "the file"} here to see it. Until then, this is ${loaded || "the example"}.` : "";
      show_all();
    } };
  }

  views.push({ id: "tensors", title: "My tensors",
      summary: "What formats do to your own tensors: drag a loss scale over them and see what underflows, what becomes subnormal, what " +
          "overflows and how much noise is left.", mount });
})();
