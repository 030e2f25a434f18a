// View 5, Loss scale: steps that overflow are clicked into a timeline, and the loss scalers of the frameworks run along.
(() => {
  "use strict";
  const { el, svg } = tools;
  const left = 56, right = 10, strip = 34, gap = 14, foot = 26, height = 320, key = 36;
  const most_steps = 20000;

  const presets = [
    ["none", "none", () => []],
    ["every500", "every 500", n => many(n, i => i > 0 && i % 500 === 0)],
    ["burst", "a burst", n => many(n, i => i >= Math.floor(n * 0.4) && i < Math.floor(n * 0.4) + 12)],
    ["random", "random 1 %", n => { const next = dice(1); return many(n, () => next() < 0.01); }],
  ];

  function many(n, overflows) {
    const list = [];
    for (let i = 0; i < n; ++i) if (overflows(i)) list.push(i);
    return list;
  }

  // Which steps "random" means must not change from visit to visit: a link says the same to everybody.
  function dice(seed) {
    let x = seed >>> 0;
    return () => { x = (Math.imul(x, 1664525) + 1013904223) >>> 0; return x / 4294967296; };
  }

  // "3,500,1000-1010" and back.
  function parse_steps(text, n) {
    const steps = new Set();
    for (const word of text.split(/[\s,]+/).filter(Boolean)) {
      const match = /^(\d+)(?:-(\d+))?$/.exec(word);
      if (!match) throw Error(`"${word}" is no step; accepted: 500, or 1000-1010`);
      const last = Math.min(Number(match[2] || match[1]), n - 1);
      for (let i = Number(match[1]); i <= last; ++i) steps.add(i);
    }
    return steps;
  }
  function steps_text(steps) {
    const list = [...steps].sort((x, y) => x - y), words = [];
    for (let i = 0; i < list.length; ) {
      let j = i;
      while (j + 1 < list.length && list[j + 1] === list[j] + 1) ++j;
      words.push(j > i ? `${list[i]}-${list[j]}` : `${list[i]}`);
      i = j + 1;
    }
    return words.join(",");
  }

  function scale_text(x) {
    if (typeof x !== "number") return x === null || x === undefined ? "-" : String(x);
    const e = Math.log2(x);
    return x > 0 && Number.isInteger(e) ? (e >= 0 && e < 4 ? String(x) : `2^${e}`) : tools.number(x);
  }

  const whole = (text, low, high, otherwise) => {
    const x = Number.parseInt(text, 10);
    return Number.isFinite(x) ? Math.min(high, Math.max(low, x)) : otherwise;
  };

  function mount(root, first_state, change) {
    let state = first_state, n = 5000, events = new Set(), cursor = 600, policies = null, traces = null, drag = null, width = 800, fault = "";

    const input = (test, key, size, placeholder) => el("input", { type: "text", class: "mono", "data-test": test, size, placeholder,
      spellcheck: "false", autocomplete: "off", onchange: (event) => change({ [key]: event.target.value.trim() }) });
    const steps_input = input("scale-steps", "steps", 6, "5000"), at_input = input("scale-at", "at", 22, "500,1000-1010");
    const init_input = input("scale-init", "init", 8, "its own"), interval_input = input("scale-interval", "interval", 8, "its own");
    const from_input = tools.select("scale-from", [["", "never"], ...[8, 12, 15, 16, 17, 18, 20, 24, 28,
        32].map((k) => [String(k), `from scale 2^${k} on`])],
      (from) => change({ from }));
    const error = el("p", { class: "error", role: "alert", "data-test": "scale-error", hidden: true });
    const complain = (text) => { error.textContent = text; error.hidden = !text; };
    const chart = tools.picture("scale-timeline", height + key, draw, rows), drawing = chart.node.firstChild;
    drawing.setAttribute("tabindex", "0");
    drawing.setAttribute("role", "slider");
    drawing.classList.add("timeline");
    const readout = el("p", { class: "faint two-lines", "data-test": "scale-cursor" });
    const table = tools.table("scale-table", "The scalers and what they lost");

    root.append(
      el("div", { class: "row" },
        el("div", { class: "field" }, el("span", { class: "label" }, "steps that overflow",
            tools.help("Click a step of the timeline, or drag over a range. With the keyboard: arrow " +
          "keys move, space toggles, shift with an arrow key marks a range.\nA marked step overflows at every scale, as a bad batch does: " +
              "it is skipped, and the weights do not change.")),
          el("div", { class: "chips", role: "group", "aria-label": "steps that overflow" },
              presets.map(([id, label, make]) => el("button", { type: "button", class: "chip",
            "data-test": `scale-preset-${id}`, onclick: () => set_events(new Set(make(n)), `overflows: ${label}`) }, label)))),
        tools.field("at", at_input), tools.field("other steps overflow", from_input,
            "Never, or only where the scale has grown beyond what the gradients bear: then the scalers find that " +
          "limit again and again, and lose a step each time."), tools.field("steps", steps_input),
        tools.field("initial scale", init_input, "65536 or 2^16. Empty: what each framework starts with."),
        tools.field("growth interval", interval_input, "Good steps before the scale grows. Empty: the default of each framework.")),
      error, tools.heading("Scales", "The scale before each step, on a logarithmic axis. Lines that lie together are drawn a little " +
          "apart. A short stroke is a skipped step; " +
        "a cross is where the framework ends the run with an error.", chart.exports), chart.node, readout,
      tools.heading("What it cost", "Steps lost: skipped steps, and those that never ran because the framework ended the run.", table.exports),
          table.node);

    function set_events(next, said) {
      events = next;
      change({ at: steps_text(events) || "none" });
      if (said) tools.say(said);
    }

    // ---- what the program says
    let traced = 0;  // steps that the traces are of
    const ask = tools.debounce(async () => {
      try {
        // Scalers that grow: a constant scale and no scaling have nothing to react with.
        policies = policies || (await engine.json(["list-scaling", "--json"])).filter((row) => row.kind === "loss scaler" &&
            row.parameters.some((p) => p.name === "growth"));
        // Inf overflows at every scale. 2^(16 - k) times 2^k is the first power of two beyond FP16.
        const usual = state.from ? 2 ** (16 - whole(state.from, -60, 60, 16)) : 0;
        const all = n;
        let text = "step,amax\n";
        for (let i = 0; i < all; ++i) text += `${i},${events.has(i) ? "inf" : usual}\n`;
        const [path] = await engine.add([new File([text], "loss-scale-events.csv")]);
        const args = ["scale-trace", "--events", path, "--policy", policies.map((p) => p.name).join(","), "--json"];
        if (state.init) args.push("--init", state.init);
        if (state.interval) args.push("--growth-interval", state.interval);
        traces = await engine.json(args);
        traced = all;
        complain(fault);
      } catch (problem) {
        traces = null;  // those of another request would be read as its answer
        table.show(["framework"], []);
        chart.redraw();
        return complain(problem.message.replace(/^narrow: /, ""));
      }
      chart.redraw();
      fill_table();
    });

    // ---- the picture
    const x_of = (step) => left + (step + 0.5) / n * (width - left - right);
    const step_at = (x) => Math.min(n - 1, Math.max(0, Math.floor((x - left) / (width - left - right) * n)));
    const is_positive = (scale) => typeof scale === "number" && scale > 0;
    const colour = (place) => `of-${place % 6 + 1}`;

    function draw(picture, now) {
      width = now;
      const mark = Math.max(2, (width - left - right) / n);
      picture.append(svg("rect", { class: "strip", x: left, y: 1, width: width - left - right, height: strip - 2 }),
        svg("text", { class: "tick", x: left - 4, y: strip / 2 + 4, "text-anchor": "end" }, "overflow"));
      for (const word of steps_text(events).split(",").filter(Boolean)) {
        const [from, to] = word.split("-").map(Number), begin = x_of(from) - mark / 2;
        picture.append(svg("rect", { class: "overflow", x: begin, y: 2, width: x_of(to ?? from) + mark / 2 - begin, height: strip - 4 },
            svg("title", {}, `overflow at step ${word}`)));
      }
      if (traces) draw_curves(picture);
      const tick = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000].find((t) => n / t * 60 <= width - left - right) || 10000;
      for (let i = 0; i < n; i += tick) picture.append(svg("text", { class: "tick", x: x_of(i), y: height - 8,
          "text-anchor": i ? "middle" : "start" }, i ? String(i) : "step 0"));
      picture.append(svg("line", { class: "cursor", y1: 0, y2: height - foot }));
      let x = left, y = height + 12;  // the names, also for whoever sees only the picture
      Object.keys(traces || {}).forEach((name, place) => {
        const room = 24 + 7 * name.length;
        if (x + room > width) { x = left; y += 17; }
        picture.append(svg("path", { class: `curve ${colour(place)}`, d: `M${x} ${y - 4}h12` }), svg("text", { class: "tick", x: x + 16, y }, name));
        x += room;
      });
      show_cursor();
    }

    function draw_curves(picture) {
      const scales = Object.values(traces).flat().map((row) => row.scale).filter(is_positive).map(Math.log2);
      const low = scales.reduce((x, e) => Math.min(x, Math.floor(e)), 0), high = scales.reduce((x, e) => Math.max(x, Math.ceil(e)), 17);
      const top = strip + gap, bottom = height - foot, y_of = (e) => bottom - 6 - (e - low) / (high - low) * (bottom - top - 6);
      const every = [1, 2, 4, 8, 16, 32, 64].find((d) => (high - low) / d <= 10) || 128;
      for (let e = Math.ceil(low / every) * every; e <= high; e += every) picture.append(svg("line",
          { class: "grid", x1: left, x2: width - right, y1: y_of(e), y2: y_of(e) }),
        svg("text", { class: "tick", x: left - 4, y: y_of(e) + 4, "text-anchor": "end" }, tools.power(e)));
      Object.entries(traces).forEach(([name, list], place) => {
        const lift = (place - 2.5) * 1.7, lines = [], skips = [];  // scalers often agree: a little apart, all are seen
        let before = null;
        for (const row of list) {
          const y = is_positive(row.scale) ? (y_of(Math.log2(row.scale)) + lift).toFixed(1) : null, x = x_of(row.step).toFixed(1);
          if (y !== null && before === null) lines.push(`M${x} ${y}`);
          else if (y !== before && y !== null) lines.push(`H${x}V${y}`);
          if (row.skipped && y !== null) skips.push(`M${x} ${y - 4}v8`);
          before = y;
        }
        const end = x_of(list.length - 1);
        if (before !== null) lines.push(`H${end.toFixed(1)}`);
        picture.append(svg("path", { class: `curve ${colour(place)}`, d: lines.join("") }, svg("title", {}, name)),
            svg("path", { class: `curve ${colour(place)}`, d: skips.join("") }));
        if (list.length < traced && before !== null) picture.append(svg("path", { class: "end", d: `M${end - 5} ${before - 5}l10 10m0 -10l-10 10` }));
      });
    }

    function show_cursor() {
      const line = drawing.querySelector(".cursor"), text = `step ${cursor}${events.has(cursor) ? ": overflow" : ""}`;
      if (line) for (const end of ["x1", "x2"]) line.setAttribute(end, x_of(cursor));
      for (const [name, value] of [["min", 0], ["max", n - 1], ["now", cursor], ["text", text]]) drawing.setAttribute("aria-value" + name, value);
      readout.textContent = `At ${text}.`;
      for (const cell of table.node.querySelectorAll("td.at")) cell.textContent = at_cursor(traces[cell.parentNode.firstChild.textContent]);
    }
    const at_cursor = (list) => { const row = list[cursor]; return row ? scale_text(row.scale) + (row.skipped ? ", skipped" : "") : cursor < traced ? "ended" : "-"; };

    // ---- pointer and keys
    const place_of = (event) => event.clientX - drawing.getBoundingClientRect().left;
    // A step is narrower than a pixel in a long run: a click near a mark means the mark.
    function nearest(x) {
      let best = step_at(x), distance = 4;
      for (const i of events) if (Math.abs(x_of(i) - x) < distance) { distance = Math.abs(x_of(i) - x); best = i; }
      return best;
    }
    function mark_range(before, from, to, add) {
      events = new Set(before);
      for (let i = Math.min(from, to); i <= Math.max(from, to); ++i) add ? events.add(i) : events.delete(i);
      cursor = to;
    }
    drawing.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      const from = nearest(place_of(event));
      drag = { from, x: place_of(event), add: !events.has(from), before: new Set(events), moved: false };
      drawing.setPointerCapture(event.pointerId);
      drawing.focus({ preventScroll: true });
      event.preventDefault();
    });
    const redraw = tools.debounce(() => chart.redraw());
    drawing.addEventListener("pointermove", (event) => {
      if (!drag || (!drag.moved && Math.abs(place_of(event) - drag.x) < 4)) return;
      drag.moved = true;
      mark_range(drag.before, drag.from, step_at(place_of(event)), drag.add);
      redraw();
    });
    drawing.addEventListener("pointerup", () => {
      if (!drag) return;
      if (!drag.moved) mark_range(drag.before, drag.from, drag.from, drag.add);
      drag = null;
      set_events(events, `step ${cursor}: ${events.has(cursor) ? "overflow" : "good"}`);
    });
    drawing.addEventListener("pointercancel", () => { if (drag) events = drag.before; drag = null; redraw(); });
    drawing.addEventListener("keydown", (event) => {
      const far = Math.max(1, Math.round(n / 20)), move = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: far, PageDown: -far,
          Home: -n, End: n }[event.key];
      if (event.key === " " || event.key === "Enter") {
        mark_range(events, cursor, cursor, !events.has(cursor));
        set_events(events);
      } else if (move) {
        const to = Math.min(n - 1, Math.max(0, cursor + move)), from = cursor;
        if (event.shiftKey) { mark_range(events, from, to, true); set_events(events); }
        cursor = to;
        show_cursor();
      } else return;
      event.preventDefault();
    });

    // ---- the table
    function fill_table() {
      table.show(["framework", "first scale", "at the cursor", "last scale", "skipped", "steps lost", "its rule"],
          Object.entries(traces).map(([name, list], place) => {
        const skipped = list.filter((row) => row.skipped === true).length, lost = skipped + n - list.length, ended = list.length < n,
            last = list.length ? list[list.length - 1].scale : null;
        const swatch = el("span", { class: `swatch ${colour(place)}` });
        const cell = (key, text, more) => ({ text, test: `scale-${key}-${name}`, ...more });
        return [{ text: [swatch, name] }, cell("first", scale_text(list[0] && list[0].scale)), cell("now", at_cursor(list), { class: "at" }),
          cell("last", scale_text(last), { class: is_positive(last) ? null : "bad" }), cell("skipped", String(skipped), { value: skipped }),
          cell("lost", lost + (ended ? `: the framework ends the run at step ${list.length - 1}` : ""),
              { value: lost, class: ended ? "bad" : null }),
          { text: policies.find((p) => p.name === name)?.what, class: "words" }];
      }));
    }
    function rows() {
      const names = Object.keys(traces || {}), out = [["step", ...names.flatMap((name) => [`${name} scale`, `${name} skipped`])]];
      for (let i = 0; i < n; ++i) out.push([i, ...names.flatMap((name) => { const row = traces[name][i];
          return row ? [row.scale, row.skipped ? 1 : 0] : ["", ""]; })]);
      return out;
    }

    return { update(next) {
      state = next;
      n = whole(state.steps, 10, most_steps, 5000);
      const text = state.at === undefined ? "600-603,2000,3500-3511" : state.at === "none" ? "" : state.at;
      at_input.value = text;
      steps_input.value = String(n);
      init_input.value = state.init || "";
      interval_input.value = state.interval || "";
      from_input.value = state.from || "";
      try {
        fault = "";
        events = parse_steps(text, n);
      } catch (problem) { return complain(fault = problem.message); }
      cursor = Math.min(cursor, n - 1);
      chart.redraw("Timeline of steps and the loss scales. Arrow keys move, space toggles an overflow, shift with an arrow key marks a range");
      ask();
    } };
  }

  views.push({ id: "scale", title: "Loss scale",
      summary: "Steps overflow, and each framework reacts by its own rule: it skips the step, halves the scale, waits, and grows again. " +
    "Click steps of the timeline or drag over a range, and see what the loss scalers of six frameworks make of it.", mount });
})();
