// View 1: one number in every format, its bits, and how rounding modes and real casts treat it.
"use strict";

(() => {
  const { el, svg } = tools;
  const defaults = { v: "0.1", code: "", b: "fp16", f: "e4m3", axis: "ml", rule: "", random: "0x80000000" };
  const examples = ["0.1", "1e-7", "3.14159", "-0x1.8p-3", "65520", "465", "inf", "nan"];
  const axes = [["ml", "FP32's range"], ["near", "near the value"], ["all", "all of FP64"]];

  const texts = {
    value: "A decimal (0.1, -1e-7), a hex float (0x1.8p-3), inf or nan. It is read exactly, then rounded once to each format.",
    code: "The integer that encodes the value. Type one (0x2E66, 0b101, 31) or flip bits: then every format below shows the " +
      "exact value of that code.",
    ruler: "The axis is the base-2 logarithm of the magnitude; a binade is the space from one power of two to the next. Bars are " +
      "the ranges of the formats, lighter where values are subnormal. The red line is the value, a dot is where it lands in " +
      "that format (filled green when exact). A bar that reaches the edge goes on beyond it. Near the value, thin lines are " +
      "the neighbours in that format.",
    table: "Error in ulp: the distance from the value to the code's value, in steps of the format there. Below and above are the " +
      "neighbouring values. A format's name chooses it for the casts.",
    rules: "What each rounding mode, and each system's cast with its own rules for overflow and NaN, returns for the chosen " +
      "format. Those that differ from the first are marked. Choose one to have it explained.",
    random: "Stochastic rounding goes up when the dropped part of a step and these bits, both as 32-bit fractions, together " +
      "reach 1: with 0 it never does, with 0xFFFFFFFF whenever anything is dropped.",
  };

  // "--" keeps a value like -1e-7 or --json from being read as an option.
  const show = (s, options) => ["show", ...(s.code ? ["--from", s.b] : []), ...options, "--", s.code || s.v];
  const rule_options = (rule, random) => {
    const [kind, name] = rule.split(":");
    if (!name) return [];
    return ["--" + kind, name, ...(name === "stochastic" ? ["--random", random] : [])];
  };
  // A code's value in a form that reads back exactly: decimal while short.
  const exact_text = (row) => row.value.length <= 24 ? row.value : row.hex_float;
  const shown_value = (row) => ({ text: tools.number(row.value), title: row.value, value: row.value });

  const neighbour = (x) => x === null ? "-" : typeof x === "number" && x && Math.abs(x) < 1e-4 ? x.toExponential() : String(x);

  // ---- the bits of one format ----
  const bit_row = (flip) => {
    const node = el("div", { class: "bits", role: "toolbar", "aria-label": "bits, most significant first; arrow keys move, Space flips" });
    let made = "", buttons = [];
    const build = (format) => {
      const kinds = [...Array(format.has_sign ? 1 : 0).fill("sign"), ...Array(format.exponent_bits).fill("exponent"),
        ...Array(format.mantissa_bits).fill("mantissa")];
      buttons = kinds.map((kind, i) => {
        const place = format.bits - 1 - i, within = kinds.filter((k, j) => k === kind && j > i).length;
        return el("button", { type: "button", class: "bit " + kind, tabindex: i ? "-1" : "0", "data-test": "bit-" + place,
          "aria-label": kind === "sign" ? "sign bit" : `${kind} bit ${within}`, onclick: () => flip(place) });
      });
      node.replaceChildren(...["sign", "exponent", "mantissa"].map((kind) => {
        const group = buttons.filter((_, i) => kinds[i] === kind);
        return group.length ? el("span", { class: "bit-group" }, el("span", { class: "bit-name " + kind, "aria-hidden": "true" },
          kind === "sign" ? "s" : `${kind} ${group.length}`), el("span", {}, group)) : "";
      }));
    };
    const move = (to) => {
      buttons.forEach((b, i) => { b.tabIndex = i === to ? 0 : -1; });
      buttons[to].focus();
    };
    node.addEventListener("keydown", (event) => {
      const at = buttons.indexOf(document.activeElement), last = buttons.length - 1;
      const to = { ArrowRight: Math.min(at + 1, last), ArrowLeft: Math.max(at - 1, 0), Home: 0, End: last }[event.key];
      if (at < 0 || to === undefined) return;
      event.preventDefault();
      move(to);
    });
    return { node, show(format, fields) {
      if (made !== format.name) build(format);
      made = format.name;
      [...fields.replace(/ /g, "")].forEach((bit, i) => {
        buttons[i].textContent = bit;
        buttons[i].setAttribute("aria-pressed", String(bit === "1"));
      });
    } };
  };

  // The program's table, and formats of the designer that a link names.
  const with_own = async (names) => {
    const known = await tools.formats();
    const own = names.filter((n, i) => names.indexOf(n) === i && !known.some((f) => f.name === n));
    return own.length ? [...known, ...await engine.json(["formats", "--json", "--", ...own])] : known;
  };

  // ---- the ruler: a bar a format, subnormals lighter, the value as a line, where it lands as a dot ----
  const limits_of_axis = (kind, at) => kind === "all" ? [-1078, 1028] : kind === "near" && Number.isFinite(at)
    ? [Math.floor(at) - 5, Math.floor(at) + 6] : [-152, 132];
  const draw_ruler = (drawing, width, { rows, formats, axis, chosen }) => {
    const pitch = 21, top = 18, left = 92, narrow_page = width < 520, right = width - (narrow_page ? 34 : 70), bottom = top + pitch * rows.length;
    const at = tools.log2((rows.find((r) => r.format === "fp64") || rows[0]).value);
    const [low, high] = limits_of_axis(axis, at);
    const x = tools.axis(drawing, { left, right, top, bottom, low, high });
    rows.forEach((row, i) => {
      const f = formats.find((g) => g.name === row.format), y = top + pitch * i;
      const bar = (from, to, kind) => {
        const a = x(tools.log2(from)), b = x(tools.log2(to));
        if (b > a) drawing.append(svg("rect", { class: "range " + kind, x: a, y: y + 4, width: b - a, height: 13 }));
      };
      drawing.append(svg("text", { x: left - 8, y: y + 15, "text-anchor": "end", class: row.format === chosen ? "strong" : null }, row.format));
      if (f.min_subnormal !== null) bar(f.min_subnormal, f.min_normal, "sub");
      bar(f.min_normal, f.max, "");
      const inside = (k) => k >= low && k <= high;
      if (axis === "near") for (const next of [row.below, row.above]) {
        const k = tools.log2(next);
        if (inside(k)) drawing.append(svg("line", { class: "neighbour", x1: x(k), x2: x(k), y1: y + 2, y2: y + 19 }));
      }
      const k = tools.log2(row.value), good = Number.isFinite(k);
      if (good && inside(k)) drawing.append(svg("circle", { class: row.error_ulp === 0 ? "lands exact" : "lands", cx: x(k), cy: y + 10.5, r: 4.5,
        "data-test": "lands-" + row.format, "data-log2": k }, svg("title", {}, `${row.format}: ${tools.number(row.value)}`)));
      drawing.append(svg("text", { class: good ? "faint" : "no-number", x: right + 8, y: y + 15 },
        !good ? row.value : row.class === "subnormal" ? (narrow_page ? "sub" : "subnormal") : ""));
    });
    if (at >= low && at <= high) drawing.append(svg("line", { class: "marker", x1: x(at), x2: x(at), y1: top - 4, y2: bottom }),
      svg("text", { class: "marked", x: Math.min(Math.max(x(at), left + 40), right - 40), y: top - 7, "text-anchor": "middle" }, "the value"));
    return bottom + 20;
  };

  // ---- modes and casts side by side ----
  const rule_card = (entry, base, chosen, choose) => {
    const [kind, name] = entry.rule.split(":"), row = entry.row, differs = row && base && row.code !== base.code;
    return el("button", { type: "button", class: "rule" + (differs ? " differs" : ""), disabled: !row, "aria-pressed": String(entry.rule === chosen),
      title: row ? "explain this one below" : entry.error, "data-test": entry.rule.replace(":", "-"), "data-code": row ? row.code : "",
      onclick: () => choose(entry.rule) },
      el("span", { class: "rule-name" }, el("span", {}, name.replace(/_/g, " ")), differs && el("span", { class: "badge" }, "differs")),
      row ? [el("span", { class: "mono big" }, tools.number(row.value)),
        el("span", { class: "mono faint" }, row.code), el("span", { class: "mono faint" }, row.error_ulp === null ? "" : tools.number(row.error_ulp) + " ulp")]
        : el("span", { class: "faint why" }, entry.error.includes("no such") ? "not in this system" : entry.error));
  };
  const try_rule = async (s, rule) => {
    try {
      return { rule, row: (await engine.json(show(s, ["--formats", s.f, ...rule_options(rule, s.random), "--json"])))[0] };
    } catch (error) { return { rule, row: null, error: error.message }; }
  };

  // The program's lines "  word   sentence" as a list. A long sentence goes on in lines that begin farther right.
  const steps = (text) => {
    const list = [];
    for (const line of text.trimEnd().split("\n")) {
      const [, word, sentence] = line.match(/^ {2}(\S+) +(.*)$/) || [];
      if (word) list.push([word, sentence]);
      else if (list.length && /^ {3}/.test(line)) list[list.length - 1][1] += " " + line.trim();
      else list.push([line.trim()]);
    }
    return list.map(([word, sentence]) => sentence === undefined ? el("p", {}, word)
      : el("dl", {}, el("dt", {}, word), " ", el("dd", {}, sentence), " "));
  };

  const mount = (root, state, change) => {
    const data = { rows: [], formats: [], rules: [] };
    const get = (s) => Object.assign({}, defaults, s, { v: s.v || (s.code ? "" : defaults.v) });

    const value = el("input", { type: "text", class: "mono", spellcheck: "false", autocomplete: "off", "data-test": "value",
      oninput: () => change({ v: value.value || " ", code: "" }) });
    const code = el("input", { type: "text", class: "mono", spellcheck: "false", autocomplete: "off", "data-test": "code", size: "18",
      onchange: () => { data.flipped = null; change({ v: "", code: code.value }); } });
    const bits_of = tools.select("bits-format", [], (b) => change({ b, v: state.code ? data.text : state.v, code: "" }));
    const target = tools.select("format", [], (f) => change({ f }));
    const axis = tools.select("axis", axes, (kind) => change({ axis: kind }));
    const random = el("input", { type: "text", class: "mono", size: "12", "data-test": "random", onchange: () => change({ random: random.value }) });
    const flip = (place) => {
      // A click that comes before the answer to the last one flips what that one made.
      const flipped = BigInt(data.flipped ?? data.own.code) ^ (1n << BigInt(place));
      data.flipped = "0x" + flipped.toString(16).toUpperCase();
      change({ v: "", code: data.flipped });
    };
    const bits = bit_row(flip), meaning = el("p", { class: "mono meaning", "data-test": "bits-value" }, "\u00a0");
    const problem = el("p", { class: "problem", role: "alert", "data-test": "number-error" }, "\u00a0");
    const chips = tools.chips("example", "examples", (v) => change({ v, code: "" }));
    const ruler_rows = () => [["format", "value", "log2 of the magnitude", "class"],
      ...data.rows.map((r) => [r.format, r.value, tools.log2(r.value), r.class])];
    const ruler = tools.picture("ruler", 395, (drawing, width) => data.rows.length ? draw_ruler(drawing, width, data) : 395, ruler_rows);
    const all = tools.table("all-formats", "the value in every format");
    const modes = el("div", { class: "rules", "data-test": "roundings" }), casts = el("div", { class: "rules", "data-test": "casts" });
    const rule_rows = () => [["format", "rule", "code", "value", "error_ulp", "class", "message"],
      ...data.rules.map(({ rule, row, error }) => row ? [row.format, rule, row.code, row.value, row.error_ulp, row.class, ""]
        : [data.chosen, rule, "", "", "", "", error])];
    const explained = el("div", { class: "steps panel", "data-test": "explain" });
    const explained_rule = el("span", { class: "faint", "data-test": "explain-rule" });

    root.append(
      el("div", { class: "row" },
        el("div", { class: "grow" }, tools.field("Value", value, texts.value)), chips),
      problem,
      el("div", { class: "panel" },
        el("div", { class: "row" }, tools.field("Bits of", bits_of), tools.field("Code", code, texts.code)),
        bits.node, meaning),
      tools.heading("Every format on a ruler of binades", texts.ruler,
        el("span", { class: "inline" }, el("label", { class: "sr", for: axis.id = tools.unique("axis") }, "axis"), axis), ruler.exports),
      ruler.node,
      tools.heading("Every format as numbers", texts.table, all.exports),
      all.node,
      tools.heading("Rounding modes and real casts, side by side", texts.rules, tools.exports(null, rule_rows, "casts")),
      el("div", { class: "row" }, tools.field("Format", target), tools.field("Random bits of stochastic", random, texts.random)),
      el("h4", {}, "Rounding modes"), modes, el("h4", {}, "Named casts"), casts,
      tools.heading("Step by step", "The program's own reasoning: narrow show --explain.", explained_rule), explained);

    const cells = (s) => data.rows.map((r) => {
      const f = data.formats.find((g) => g.name === r.format);
      const name = el("button", { type: "button", class: "plain", title: "choose for the casts below", "data-test": "choose-" + r.format,
        onclick: () => change({ f: r.format }) }, r.format);
      return [{ text: name, class: r.format === s.f ? "chosen" : null },
        { text: r.code, test: "code-" + r.format }, { ...shown_value(r), test: "value-" + r.format },
        { text: tools.number(r.error_ulp), class: "num", test: "error-" + r.format, value: String(r.error_ulp) },
        { text: r.class, test: "class-" + r.format },
        { text: neighbour(r.below), value: String(r.below), test: "below-" + r.format, class: "num" },
        { text: neighbour(r.above), value: String(r.above), test: "above-" + r.format, class: "num" }, tools.fields(r.fields, f)];
    });
    const columns = ["format", "code", "value", "error (ulp)", "class", "below", "above", "fields"];

    const draw_first = (s) => {
      const own = data.own, f = data.formats.find((g) => g.name === s.b);
      if (document.activeElement !== value || s.code) value.value = s.code ? data.text : s.v;
      if (document.activeElement !== code || !s.code) code.value = own.code;
      bits.show(f, own.fields);
      meaning.textContent = own.class === "nan" || own.class === "inf" ? `${own.code} = ${own.value}`
        : `${own.code} = ${tools.number(own.value)} = ${own.hex_float}, ${own.class}`;
      ruler.redraw(`${data.text || s.v} on the ranges of ${data.rows.length} formats`);
      all.show(columns, cells(s), [columns, ...data.rows.map((r) => [r.format, r.code, r.value, r.error_ulp, r.class, r.below, r.above, r.fields])]);
    };
    const draw_rules = (s) => {
      const base = data.rules[0].row, card = (e) => rule_card(e, base, s.rule || data.rules[0].rule, (rule) => change({ rule }));
      const focus = document.activeElement && document.activeElement.dataset.test;
      modes.replaceChildren(...data.rules.filter((e) => e.rule.startsWith("rounding")).map(card));
      casts.replaceChildren(...data.rules.filter((e) => e.rule.startsWith("cast")).map(card));
      const again = focus && root.querySelector(`.rules [data-test="${focus}"]`);
      if (again) again.focus();
    };
    const controls = (s) => {
      const names = data.formats.map((f) => f.name);
      bits_of.offer(names);
      target.offer(names);
      bits_of.value = s.b;
      target.value = s.f;
      axis.value = s.axis;
      random.value = s.random;
      chips.show(examples, s.code ? [] : [s.v]);
    };

    const refresh = tools.debounce(async (asked) => {
      const s = get(asked);
      data.formats = await with_own([s.b, s.f]);
      data.axis = s.axis;
      data.chosen = s.f;
      controls(s);
      let rows;
      const names = data.formats.map((f) => f.name).join();
      try { rows = await engine.json(show(s, ["--formats", names, "--json"])); } catch (error) {
        problem.textContent = error.message;
        if (document.activeElement !== value) value.value = s.v;
        return;
      }
      problem.textContent = "\u00a0";
      data.rows = rows;
      data.own = rows.find((r) => r.format === s.b);
      if (!s.code || s.code === data.flipped) data.flipped = null;
      data.text = s.code ? exact_text(data.own) : "";
      draw_first(s);
      const words = [...(await tools.accepted("--rounding")).map((w) => "rounding:" + w),
        ...(await tools.accepted("--cast")).map((w) => "cast:" + w)];
      data.rules = await Promise.all(words.map((rule) => try_rule(s, rule)));
      draw_rules(s);
      const rule = s.rule || words[0], answer = await engine.run(show(s, ["--formats", s.f, ...rule_options(rule, s.random), "--explain"]));
      explained.replaceChildren(...steps(answer.status ? answer.err : answer.out));
      explained_rule.textContent = rule.replace(":", " ");
      const here = data.rules[0].row;
      if (here) tools.say(`${data.text || s.v} in ${s.f} is ${here.value}, ${here.class}`);
    });
    return { update: refresh };
  };

  views.push({ id: "number", title: "Number", mount,
    summary: "Type a value or flip bits, and see it in every format: where it lands, what is lost, and how modes and real casts differ." });
})();
