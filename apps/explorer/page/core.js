// View 4, Tensor core: a dot product as one or two models compute it, the aligned sum drawn bit by bit.
(() => {
  "use strict";
  const { el, svg } = tools;
  const most_rows = 256, most_cut = 14, row_height = 19, phases = ["align", "cut", "add", "round"];
  const fill = (n, value) => Array(n).fill(value).join(",");
  const presets = {
    cancellation: { a: "1,-1,2^-12", b: "1,1,2^-13", m1: "hopper.mma.f32.f16.f16.k16", m2: "ampere.mma.f32.f16.f16.k16" },
    "one large, many small": { a: "1," + fill(15, "2^-12"), b: "1," + fill(15, "2^-12"), m1: "hopper.mma.f32.f16.f16.k16",
        m2: "volta.mma.f32.f16.f16.k4" },
    truncation: { a: "1,1.5*2^-12", b: "1,2^-12", m1: "hopper.mma.f32.f16.f16.k16", m2: "software.fma.f32.f16.f16" },
    "FP8, 13 bits": { a: "448," + fill(4, "2^-6"), b: "1," + fill(4, "1.5"), m1: "hopper.wgmma.f32.e4m3.e4m3",
        m2: "blackwell.tcgen05.f32.e4m3.e4m3" },
  };
  const defaults = { ...presets.cancellation, c: "0", sa: "", sb: "", stage: "1", phase: "round" };
  const with_defaults = (state) => ({ ...defaults, ...Object.fromEntries(Object.entries(state).filter(([, value]) => value !== "")) });

  // Significands may have more bits than a double holds: they come as BigInt.
  const parse_exactly = (text) => JSON.parse(text.replace(/("(?:significand|kept|sum)": )(-?\d+)/g, '$1"$2"'));
  const magnitude = (text) => { const x = BigInt(text); return x < 0n ? -x : x; };
  const bits_of = (x) => x.toString(2);  // from its leading one on

  // A row of bits: {label, negative, top: exponent of its leading one, bits: "1011"}; an empty text is zero.
  const row_of = (label, negative, x, lowest) => {
    const bits = x === 0n ? "" : bits_of(x);
    return { label, negative, bits, top: lowest + bits.length - 1 };
  };
  function term_row(term) {
    const row = row_of(term.term, term.negative, magnitude(term.significand), term.exponent - term.fraction_bits);
    return { ...row, bits: row.bits.replace(/0+$/, ""), kept: magnitude(term.kept) };
  }
  // The bits of a hex float: 0x1.8p-3 has 11 from 2^-3 on.
  function hex_row(label, text) {
    const match = /^(-?)0x([0-9a-f])(?:\.([0-9a-f]+))?p([+-]?\d+)$/i.exec(text);
    if (!match) return null;
    const fraction = (match[3] || "").split("").map((digit) => parseInt(digit, 16).toString(2).padStart(4, "0")).join("");
    const all = parseInt(match[2], 16).toString(2) + fraction, first = all.indexOf("1");
    const top = Number(match[4]) + parseInt(match[2], 16).toString(2).length - 1;
    return first < 0 ? { label, negative: match[1] === "-", bits: "", top: 0 }
        : { label, negative: match[1] === "-", bits: all.slice(first).replace(/0+$/, ""), top: top - first };
  }
  const bit_at = (row, e) => !row.bits || e > row.top ? "" : row.bits[row.top - e] || "0";

  // What a picture of a fused step needs, or null where its terms cannot be drawn.
  function rows_of(step) {
    if (!step || !step.terms || step.special || !step.terms.length) return null;
    const lowest = step.quantum_exponent;
    const terms = step.terms.map(term_row), sum = row_of("sum", step.sum.startsWith("-"), magnitude(step.sum), lowest);
    const result = step.result && hex_row("d", step.result.hex_float);
    const kept = terms.map((t) => row_of(t.label, t.negative, t.kept, lowest));
    const all = [...kept, sum, ...(result ? [result] : [])].filter((row) => row.bits);
    const last = Math.min(lowest, ...[...terms, ...(result ? [result] : [])].filter((row) => row.bits).map((row) => row.top - row.bits.length +
        1));
    return { lowest, largest: step.largest_exponent, terms, kept, sum, result, top: Math.max(step.largest_exponent, ...all.map((row) => row.top)),
        bottom: Math.max(last, lowest - most_cut), more: last < lowest - most_cut };
  }

  function mount(root, first_state, change) {
    let state = with_defaults(first_state), models = null, answers = [null, null], columns = null, lists = { a: [], b: [] };
    const error = el("p", { class: "error", role: "alert", "data-test": "core-error", hidden: true });

    // ---- a, b, c
    const body = el("tbody");
    const box = (test, label, oninput) => el("input", { type: "text", class: "mono", "data-test": test, "aria-label": label, size: 10,
        spellcheck: "false", autocomplete: "off", oninput });
    const c_input = box("core-c", "c", (event) => change({ c: event.target.value.trim() || "0" }));
    const send = () => change({ a: lists.a.join(","), b: lists.b.join(","), stage: "" });
    function cell(key, k) {
      const input = box(`core-${key}-${k}`, `${key} of k ${k}`, () => { lists[key][k] = input.value.replace(/,/g, " ").trim(); send(); });
      input.addEventListener("paste", (event) => {
        const lines = event.clipboardData.getData("text").trim().split(/\r?\n/).map((line) => line.split(/[\s,;]+/).filter(Boolean));
        if (lines.length === 1 && lines[0].length === 1) return;
        event.preventDefault();
        // Two columns are a and b; anything else goes down one column.
        if (lines.length > 1 && lines.every((line) => line.length === 2)) lines.forEach(([a, b], i) => { put("a", k + i, a); put("b", k + i, b);
            });
        else lines.flat().forEach((word, i) => put(key, k + i, word));
        send();
      });
      return input;
    }
    function put(key, k, word) {
      if (k >= most_rows) return;
      while (lists.a.length <= k) { lists.a.push("0"); lists.b.push("0"); }
      lists[key][k] = word;
    }
    function show_operands() {
      if (body.rows.length !== lists.a.length) body.replaceChildren(...lists.a.map((_, k) =>
          el("tr", {}, el("th", { scope: "row" }, String(k)), el("td", {}, cell("a", k)), el("td", {}, cell("b", k)),
        el("td", {}, el("button", { type: "button", class: "small", "data-test": `core-remove-${k}`, "aria-label": `remove k ${k}`,
            disabled: lists.a.length === 1,
          onclick: () => { lists.a.splice(k, 1); lists.b.splice(k, 1); send(); } }, "\u2212")))));
      lists.a.forEach((_, k) => ["a", "b"].forEach((key, i) => {
        const input = body.rows[k].cells[i + 1].firstChild;
        if (input !== document.activeElement) input.value = lists[key][k];
      }));
      if (c_input !== document.activeElement) c_input.value = state.c;
    }
    function random() {
      const value = () => `${Math.random() < 0.5 ? "-" : ""}${(1 + Math.random()).toFixed(3)}*2^${Math.floor(Math.random() * 9) - 6}`;
      const n = Math.max(lists.a.length, 8);
      lists = { a: Array.from({ length: n }, value), b: Array.from({ length: n }, value) };
      send();
    }
    const scale_inputs = ["sa", "sb"].map((key) => box(`core-${key}`, key === "sa" ? "scales of a" : "scales of b",
        (event) => change({ [key]: event.target.value.trim() })));
    const scales = el("div", { class: "row", hidden: true }, tools.field("scales of a", scale_inputs[0],
        "Block-scaled models: a scale for each block, or one for all. Empty: 1."), tools.field("scales of b", scale_inputs[1]));

    // ---- two models
    const side = (i) => {
      const key = `m${i + 1}`, choose = (name) => change({ [key]: name, stage: "" });
      const one = {
        generation: tools.select(`core-generation-${i + 1}`, [], (g) => choose(g === "none" ? "none"
            : models.find((m) => m.generation === g).name)),
        model: tools.select(`core-model-${i + 1}`, [], choose),
        about: el("p", { class: "faint core-about" }), error: el("p", { class: "error", role: "alert", "data-test": `core-error-${i + 1}`,
            hidden: true }), notes: el("ul", { class: "faint" }),
        picture: tools.picture(`core-picture-${i + 1}`, 120, (drawing, width) => draw(drawing, width, i), () => csv_rows(i)),
        operations: tools.table(`core-operations-${i + 1}`, "operations of the step"), words: el("pre", { "data-test": `core-explain-${i + 1}` }),
            title: el("h4", {}) };
      one.frame = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `picture of model ${i + 1}` }, one.picture.node);
      one.node = el("section", { class: "core-side", "aria-label": `model ${i + 1}` },
        one.about, one.error, one.notes, el("div", { class: "heading" }, one.title, one.picture.exports, one.operations.exports), one.frame,
            one.operations.node, el("details", {}, el("summary", {}, "The same in words"), one.words));
      return one;
    };
    const sides = [side(0), side(1)];
    const result = tools.table("core-result", "results of the models"), verdict = el("p",
        { class: "verdict", "data-test": "core-verdict", role: "status" });
    const phase_chips = tools.chips("core-phase", "what is drawn", (phase) => change({ phase }));
    const where = el("span", { class: "faint", "data-test": "core-where" });
    const walk = (test, text, by) => el("button", { type: "button", class: "small", "data-test": test, onclick: () => move(by) }, text);

    root.append(
      el("div", { class: "row" }, el("div", { class: "chips", role: "group", "aria-label": "examples" }, Object.keys(presets).map((name) =>
        el("button", { type: "button", class: "chip", "data-test": `core-preset-${name.split(/[ ,]/)[0].toLowerCase()}`,
            onclick: () => change({ ...defaults, ...presets[name] }) }, name)),
        el("button", { type: "button", class: "chip", "data-test": "core-random", onclick: random }, "random"))), error,
      el("div", { class: "core-layout" },
        el("div", {}, tools.heading("d = sum of a * b, plus c",
            "Values as you write them: 0.1, 2^-12, 1.5*2^-3, 0x1.8p-3, inf, or codes such as 0x3C00. Each model rounds them to its own formats. " +
          "Paste a column, or two columns for a and b."),
          el("div", { class: "scroll core-operands" }, el("table", { "data-test": "core-operands" },
              el("thead", {}, el("tr", {}, ["k", "a", "b", ""].map((t) => el("th", { scope: "col" }, t)))), body)),
          el("div", { class: "row" }, el("button", { type: "button", "data-test": "core-add",
              onclick: () => { put("a", lists.a.length, "0"); send(); } }, "add a product"), tools.field("c", c_input)), scales),
        el("div", {}, tools.heading("Models", "Each model is a row of numbers with its evidence: measured on the GPU, replayed from " +
            "published results, or published."),
          sides.map((s, i) => el("div", { class: "row core-choice" }, tools.field(`generation ${i + 1}`, s.generation),
              tools.field(`model ${i + 1}`, s.model))),
          tools.heading("Result", "The exact sum is computed without any rounding, then rounded once to the format of the result. The " +
              "error is counted in units of its last place.", result.exports),
          result.node, verdict)),
      tools.heading("The sum, step by step", "A tensor core lines the products up under the largest exponent (align), cuts what lies " +
          "below its last column (cut), adds the rest as integers (add) and rounds " +
        "the sum to the format of the result (round). Bits that the other model has otherwise are framed."),
      el("div", { class: "row" }, walk("core-back", "\u2190 back", -1), walk("core-next", "next \u2192", 1), phase_chips, where),
      el("div", { class: "core-sides" }, sides.map((s) => s.node)));

    // ---- what the program says
    const ask = tools.debounce(async () => {
      models = models || await tools.once("models", () => engine.json(["models", "--json"]));
      show_models();
      const now = state;
      for (const i of [0, 1]) {
        const model = models.find((m) => m.name === now[`m${i + 1}`]), s = sides[i];
        s.error.hidden = true;
        if (!model && (now[`m${i + 1}`] === "none")) { answers[i] = null; s.words.textContent = ""; continue; }
        // A list that begins with a minus is a value here, not a flag: hence the equals signs.
        const args = ["dot", `--model=${now[`m${i + 1}`]}`, `--a=${now.a}`, `--b=${now.b}`, `--c=${now.c}`];
        if (model && model.scale_block && now.sa) args.push(`--scale-a=${now.sa}`);
        if (model && model.scale_block && now.sb) args.push(`--scale-b=${now.sb}`);
        const json = await engine.run([...args, "--json"]);
        answers[i] = json.status === 0 ? { ...parse_exactly(json.out), about: model } : null;
        s.error.hidden = json.status === 0;
        s.error.textContent = json.status === 0 ? "" : json.err.split("\n")[0].replace(/^narrow: /, "");
        s.words.textContent = json.status === 0 ? (await engine.run([...args, "--explain"])).out : "";
      }
      show();
    });

    function show_models() {
      const generations = [...new Set(models.map((m) => m.generation))];
      sides.forEach((s, i) => {
        const name = state[`m${i + 1}`], model = models.find((m) => m.name === name);
        const generation = model ? model.generation : i === 1 && name === "none" ? "none" : name.split(".")[0];
        s.generation.offer(i === 1 ? ["none", ...generations] : generations);
        s.generation.value = generation;
        s.model.offer(models.filter((m) => m.generation === generation).map((m) => [m.name, m.name.slice(generation.length + 1)]));
        s.model.value = name;
        s.model.disabled = generation === "none";
        s.about.textContent = model ? `${model.arithmetic}. Evidence: ${model.evidence}${model.proof ? ` (${model.proof})`
            : ""}; ${model.source}.` : "";
      });
      scales.hidden = ![1, 2].some((i) => models.some((m) => m.name === state[`m${i}`] && m.scale_block));
    }

    // ---- what is shown
    const stages = () => Math.max(1, ...answers.map((x) => x ? x.steps.length : 0));
    const stage = () => Math.min(stages(), Math.max(1, Number.parseInt(state.stage, 10) || 1)) - 1;
    const step_of = (i) => answers[i] && answers[i].steps[Math.min(stage(), answers[i].steps.length - 1)];
    function move(by) {
      const at = stage() * phases.length + phases.indexOf(state.phase) + by;
      if (at < 0 || at >= stages() * phases.length) return;
      change({ stage: String(Math.floor(at / phases.length) + 1), phase: phases[at % phases.length] });
    }
    function show() {
      const drawn = [0, 1].map((i) => rows_of(step_of(i)));
      const seen = drawn.filter(Boolean);
      // Both pictures have the same columns, so that a bit stands under its own in the other.
      columns = seen.length ? { drawn, top: Math.max(...seen.map((d) => d.top)), bottom: Math.min(...seen.map((d) => d.bottom)) }
          : { drawn, top: 0, bottom: 0 };
      sides.forEach((s, i) => {
        const answer = answers[i], step = step_of(i);
        s.title.textContent = step ? step.stage : "";
        s.notes.replaceChildren(...(answer ? notes_of(answer) : []).map((text) => el("li", {}, text)));
        s.frame.hidden = !step || !step.terms;
        s.operations.node.hidden = s.operations.exports.hidden = !step || !step.operations;
        s.picture.exports.hidden = s.frame.hidden;
        s.node.classList.toggle("empty", !answer);
        s.picture.node.style.minWidth = `${90 + 9 * (columns.top - columns.bottom + 1)}px`;
        if (step && step.terms) s.picture.redraw(`${answer.model}, ${step.stage}: ${step.terms.length} terms, ` +
            `largest exponent ${step.largest_exponent}, sum ${step.sum} times 2^${step.quantum_exponent}, result ${step.result ? step.result.code : "none yet"}`);
        if (step && step.operations) s.operations.show(["", "operation", "exact", "result", "code"], step.operations.map((op, k) => {
          const other = step_of(1 - i), twin = other && other.operations && other.operations[k];
          const differs = twin && twin.result && op.result && twin.result.code !== op.result.code;
          return [op.name.trim(), op.operation, op.exact, op.result ? op.result.hex_float : "-",
              { text: op.result ? op.result.code : "-", class: differs ? "differs" : null }];
        }));
      });
      phase_chips.show(phases, [state.phase]);
      where.textContent = `step ${stage() + 1} of ${stages()}`;
      show_result();
    }
    function notes_of(answer) {
      const lists_of = [["a", answer.a], ["b", answer.b], ["c", [answer.c]]];
      return lists_of.flatMap(([name, list]) => list.map((x, k) => [x, name === "c" ? "c" : `${name}[${k}]`])).filter(([x]) => x.rounded).slice(0,
          12)
        .map(([x, name]) => `${name} = ${x.input} became ${tools.number(x.value)} (${x.code})`);
    }
    function show_result() {
      const both = answers.every(Boolean), differ = both && answers[0].result.code !== answers[1].result.code;
      const value_differs = both && answers[0].result.hex_float !== answers[1].result.hex_float;
      const list = [0, 1].filter((i) => answers[i]);
      result.show(["model", "d", "value", "as hex float", "exact, rounded once", "error in ulp"], list.map((i) => {
        const x = answers[i], mark = differ ? "differs" : null, t = (name) => `core-${name}-${i + 1}`;
        return [x.model, { text: x.result.code, test: t("code"), class: mark },
            { text: tools.number(x.result.value), value: x.result.value, test: t("value"), class: mark, title: x.result.value },
          { text: x.result.hex_float, test: t("hex"), class: mark }, { text: x.exact.hex_float, value: x.exact.code, test: t("exact"),
              title: x.exact.code },
          { text: tools.number(x.error_ulp), value: x.error_ulp, test: t("ulp"), class: x.error_ulp ? "bad" : null }];
      }), [["model", "d code", "d value", "hex float", "exact code", "exact unrounded", "error ulp"],
        ...list.map((i) => answers[i]).map((x) => [x.model, x.result.code, x.result.value, x.result.hex_float, x.exact.code, x.exact.unrounded,
            x.error_ulp])]);
      verdict.textContent = !both ? "" : !value_differs ? "Both give the same value."
          : `They differ: ${answers[0].result.hex_float} and ${answers[1].result.hex_float}; ` +
            (answers[0].exact.unrounded === answers[1].exact.unrounded ? `the exact sum is ${answers[0].exact.unrounded}.`
              : `the exact sums are ${answers[0].exact.unrounded} and ${answers[1].exact.unrounded}: their operands are rounded to other formats.`);
      verdict.classList.toggle("bad", value_differs);
    }

    // ---- the picture of one step
    function draw(drawing, width, i) {
      const data = columns && columns.drawn[i], step = step_of(i);
      if (!data) {
        drawing.append(svg("text", { x: 8, y: 24 }, !step ? "" : step.special ? "Inf or NaN among the terms decides: nothing is added."
            : "No term is left: the sum is zero."),
          svg("text", { x: 8, y: 46 }, step && step.result ? `d = ${step.result.code} = ${step.result.hex_float}` : ""));
        return 120;
      }
      const phase = phases.indexOf(state.phase), { top, bottom } = columns, n = top - bottom + 1;
      const start = 22 + Math.max(3, ...data.terms.map((t) => t.label.length)) * 7, size = Math.min(18, (width - start - 14) / n),
          x_of = (e) => start + (top - e) * size;
      // Only what stands for the same is compared: the same products, or the sums at the end.
      const twin_step = step_of(1 - i), alike = twin_step && twin_step.stage === step.stage;
      const is_last = [0, 1].every((j) => answers[j] && step_of(j) === answers[j].steps[answers[j].steps.length - 1]);
      const other = alike || is_last ? columns.drawn[1 - i] : null, line_x = x_of(data.lowest) + size;
      const every = [1, 2, 4, 8, 16].find((d) => d * size >= 40) || 32;
      for (let e = top; e >= bottom; --e) if (e % every === 0) drawing.append(svg("text",
          { class: "tick", x: x_of(e) + size / 2, y: 12, "text-anchor": "middle" }, tools.power(e)));
      let y = 20;
      const put_row = (row, look, twin_bit) => {
        drawing.append(svg("text", { class: "cell-label", x: 0, y: y + 13 }, `${row.negative ? "\u2212" : "+"} ${row.label}`));
        for (let e = top; e >= bottom; --e) {
          const { text, kind } = look(e);
          const differs = twin_bit && (twin_bit(e) || "0") !== (kind === "cut" && phase > 0 ? "0" : text || "0");
          if (text || differs) drawing.append(svg("rect", { class: `cell ${kind}${text === "1" ? " one" : ""}${differs ? " otherwise" : ""}`,
              x: x_of(e) + 0.5, y: y + 0.5, width: Math.max(1, size - 1), height: row_height - 2 }));
          if (size >= 7) drawing.append(svg("text", { class: `cell-text ${kind}${text === "1" ? " one" : ""}`, x: x_of(e) + size / 2, y: y + 13,
              "text-anchor": "middle" }, text || (kind === "cut" || kind === "none" ? "" : "\u00b7")));
        }
        y += row_height;
      };
      const kept_bit = (d, row) => row ? (e) => e < d.lowest ? "" : bit_at(row, e) : null;
      data.terms.forEach((term, k) => {
        const twin = other && alike && phase > 0 && other.kept.find((t) => t.label === term.label);
        put_row(term, (e) => {
          if (e >= data.lowest) return { text: bit_at(phase === 0 ? term : data.kept[k], e), kind: "kept" };
          const text = term.bits && e >= term.top - term.bits.length + 1 ? bit_at(term, e) : "";
          return { text, kind: text ? (phase === 0 ? "kept" : "cut") : "none" };
        }, twin && kept_bit(other, twin));
      });
      const terms_end = y;
      drawing.append(svg("line", { class: "rule", x1: 0, x2: width, y1: y + 2, y2: y + 2 }));
      y += 6;
      if (phase >= 2) put_row(data.sum, (e) => e >= data.lowest ? { text: bit_at(data.sum, e), kind: "kept" } : { text: "", kind: "none" },
          other && kept_bit(other, other.sum));
      else y += row_height;
      const inside = (row, e) => row.bits && e <= row.top ? bit_at(row, e) : "";
      if (phase >= 3 && data.result) put_row(data.result, (e) => e >= data.lowest ? { text: inside(data.result, e), kind: "result" }
          : { text: "", kind: "none" }, other && other.result && kept_bit(other, other.result));
      else y += row_height;
      drawing.append(svg("line", { class: "quantum", x1: line_x, x2: line_x, y1: 16, y2: y }));
      if (data.more) drawing.append(svg("text", { class: "tick", x: Math.min(width - 12, x_of(bottom) + size + 2), y: terms_end - 6 }, "\u2026"));
      const told = [`largest exponent ${data.largest}: the last column is 2^${data.lowest}`, "what lies right of the line is cut",
          `the integers add up to ${step.sum} * 2^${data.lowest}`,
        step.result ? `rounded: d = ${step.result.code} = ${step.result.hex_float}` : "the sum goes on as it is"][phase];
      drawing.append(svg("text", { class: "faint", x: 0, y: y + 18 }, told));
      return y + 28;
    }
    function csv_rows(i) {
      const step = step_of(i);
      if (!step || !step.terms) return [["stage"], [step ? step.stage : ""]];
      return [["term", "negative", "significand", "exponent", "fraction_bits", "kept in quanta", "quantum_exponent"],
        ...step.terms.map((t) => [t.term, t.negative, t.significand, t.exponent, t.fraction_bits, t.kept, step.quantum_exponent]),
            ["sum", "", "", "", "", step.sum, step.quantum_exponent],
        ["d", step.result ? step.result.code : ""]];
    }

    return { update(next) {
      state = with_defaults(next);
      if (!phases.includes(state.phase)) state.phase = "round";
      const a = state.a.split(","), b = state.b.split(",");
      error.hidden = Math.max(a.length, b.length) <= most_rows;
      error.textContent = error.hidden ? "" : `The table takes ${most_rows} products; narrow dot takes 65536.`;
      while (a.length < b.length) a.push("0");
      while (b.length < a.length) b.push("0");
      lists = { a: a.slice(0, most_rows).map((x) => x.trim()), b: b.slice(0, most_rows).map((x) => x.trim()) };
      state.a = lists.a.join(",");
      state.b = lists.b.join(",");
      scale_inputs.forEach((input, i) => { if (input !== document.activeElement) input.value = state[i ? "sb" : "sa"]; });
      show_operands();
      ask();
    } };
  }

  views.push({ id: "core", title: "Tensor core",
      summary: "A dot product as a GPU computes it: products lined up, cut, added and rounded, bit by bit; two models side by side, and " +
          "where they differ.", mount });
})();
