// View 2: a format made by hand, its values on a log axis beside others, its limits and its card.
"use strict";

(() => {
  const { el, svg } = tools;
  const defaults = { e: "3", m: "4", bias: "", specials: "nan", beside: "e4m3,e5m2", axis: "all" };
  const most_bits_for_dots = 10, most_powers = 300;
  const kinds = { inf: ["Inf and NaN (IEEE 754)", ["", "ieee"]], nan: ["NaN, no Inf (fn)", ["fn", ""]],
    none: ["every code finite (f)", ["f", ""]], uz: ["NaN in place of -0 (fnuz)", ["fnuz"]] };

  const texts = {
    bias: "What is subtracted from the exponent field. Empty: the usual one of such formats. Greyed out where this build of the " +
      "program has no names for other biases.",
    specials: "What the topmost codes mean. IEEE 754 gives a whole binade to Inf and NaN; the OCP formats (fn) keep all but one " +
      "code a sign for values; fnuz formats have one NaN, in place of -0; some have no specials at all.",
    values: "A dot is one positive value (negative ones mirror them); lighter dots are subnormal, and zero is infinitely far to " +
      "the left. Within a binade (from one power of two to the next) values have even steps: there the dots climb evenly, and " +
      "they begin again at the bottom with steps twice as large. Formats above 10 bits have too many: bars show how many values " +
      "a binade holds, on a log scale.",
    limits: "Epsilon is the step just above 1; decades is log10 of largest over smallest positive value.",
    card: "What the format does at its edges: value, hex float and code of each.",
  };

  // ---- from the controls to a name that the program knows ----
  // Several names can spell one format, and a name of the table can mean another one (e4m3 has no Inf): the answer is checked.
  const meets = (f, s) => f.exponent_bits === +s.e && f.mantissa_bits === +s.m && (s.bias === "" || f.bias === +s.bias) &&
    /uz$/.test(f.name) === (s.specials === "uz") &&
    f.has_inf === (s.specials === "inf") && f.has_nan === (s.specials !== "none") && f.has_sign && f.has_zero;
  const find = async (s) => {
    const known = (await tools.formats()).find((f) => meets(f, s));
    if (known) return known;
    const plain = `e${s.e}m${s.m}`, endings = kinds[s.specials][1];
    const names = [...endings.map((end) => plain + end), ...(s.bias === "" ? [] : endings.map((end) => `${plain}b${s.bias}${end}`))];
    let sentence = "", other = "";
    for (const name of names) {
      try {
        const [format] = await engine.json(["formats", "--json", "--", name]);
        if (meets(format, s)) return format;
        other = other || name;
      } catch (error) { sentence = error.message; }
    }
    throw new Error(other && s.bias === "" ? `${other} names a format with other specials, and no name spells this one` : sentence);
  };
  const has_bias = () => tools.once("bias in names", () => engine.json(["formats", "--json", "--", "e4m3b9fn"]).then(() => true, () => false));

  // ---- the values ----
  const hex = (n) => "0x" + n.toString(16).toUpperCase();
  const all_codes = (f) => Array.from({ length: 2 ** f.bits }, (_, code) => hex(code));
  const values_of = (f) => tools.once("values " + f.name, () =>
    engine.json(["show", "--from", f.name, "--formats", f.name, "--json", "--", ...all_codes(f)]));
  // Positive codes are in the order of their values: how many values lie from one power of two to another is the
  // difference of the codes that the program gives them.
  const density_of = (f) => tools.once("density " + f.name, async () => {
    const low = Math.floor(tools.log2(f.min_subnormal === null ? f.min_normal : f.min_subnormal)), top = Math.floor(tools.log2(f.max));
    const step = Math.ceil((top - low + 1) / most_powers), powers = [];
    for (let k = low; k <= top; k += step) powers.push(k);
    const rows = await engine.json(["show", "--formats", f.name, "--json", "--", ...powers.map((k) => `0x1p${k}`), String(f.max)]);
    const codes = rows.map((r) => BigInt(r.code));
    codes[powers.length] += 1n;  // the largest value counts too
    return powers.map((k, i) => {
      const binades = i + 1 < powers.length ? step : top - k + 1;
      return { low: k, high: k + binades, count: Number(codes[i + 1] - codes[i]) / binades };
    });
  });

  // ---- the picture ----
  const span_of = (formats) => [
    Math.floor(Math.min(...formats.map((f) => tools.log2(f.min_subnormal === null ? f.min_normal : f.min_subnormal)))) - 1,
    Math.ceil(Math.max(...formats.map((f) => tools.log2(f.max)))) + 1];
  // Within a binade the dots climb, in even steps as the values do; at each power of two they begin again at the bottom.
  const draw_dots = (drawing, values, x, y, inside) => {
    const radius = Math.min(2.2, Math.max(1.1, .12 * (x(inside.low + 1) - x(inside.low))));
    for (const v of values) {
      const value = tools.real(v.value), k = tools.log2(value);
      if (!(value > 0 && inside(k))) continue;
      const climb = value / 2 ** Math.floor(k) - 1;
      drawing.append(svg("circle", { class: "dot " + v.class, cx: x(k).toFixed(1), cy: (y - 30 * climb).toFixed(1), r: radius.toFixed(1),
        "data-code": v.code, "data-value": v.value }, svg("title", {}, `${v.code} = ${tools.number(v.value)}`)));
    }
  };
  const draw_density = (drawing, bins, f, x, y, inside, scale) => {
    for (const b of bins) {
      if (b.high <= inside.low || b.low >= inside.high) continue;
      const height = Math.max(1.5, Math.log2(b.count + 1) * scale);
      const room = x(b.high) - x(b.low), kind = b.low < Math.floor(tools.log2(f.min_normal)) ? "range sub" : "range";
      drawing.append(svg("rect", { class: kind, x: x(b.low), y: y - height, width: room > 4 ? room - .5 : room, height,
        "data-count": b.count }, svg("title", {}, `2^${b.low} to 2^${b.high}: ${tools.number(b.count)} values a binade`)));
    }
  };
  const pitch = 48;
  const draw = (drawing, width, { formats, parts, axis }) => {
    const top = 6, left = 92, right = width - 24, bottom = top + pitch * formats.length;
    const [low, high] = span_of(axis === "own" ? formats.slice(0, 1) : formats);
    const x = tools.axis(drawing, { left, right, top, bottom, low, high });
    const inside = (k) => k >= low && k <= high;
    Object.assign(inside, { low, high });
    const tallest = Math.max(1, ...parts.filter((p) => p.bins).flatMap((p) => p.bins.map((b) => Math.log2(b.count + 1))));
    formats.forEach((f, i) => {
      const y = top + pitch * i, part = parts[i];
      drawing.append(svg("text", { class: i === 0 ? "strong" : null, x: left - 8, y: y + 21, "text-anchor": "end" }, f.name),
        svg("text", { class: "faint", x: left - 8, y: y + 35, "text-anchor": "end" }, part.bins ? "per binade" : "values"));
      if (part.bins) draw_density(drawing, part.bins, f, x, y + 42, inside, 34 / tallest);
      else draw_dots(drawing, part.values, x, y + 41, inside);
    });
    return bottom + 20;
  };

  // ---- limits and card ----
  const yes = (flag) => flag ? "yes" : "no";
  const limit_rows = [["bits", "bits"], ["exponent bits", "exponent_bits"], ["mantissa bits", "mantissa_bits"], ["bias", "bias"],
    ["largest", "max"], ["lowest", "lowest"], ["smallest normal", "min_normal"], ["smallest subnormal", "min_subnormal"],
    ["epsilon", "epsilon"], ["decades", "decades"], ["zero", "has_zero"], ["sign", "has_sign"], ["Inf", "has_inf"], ["NaN", "has_nan"],
    ["source", "source"]];
  const limit_cell = (f, key) => {
    const x = f[key];
    const text = typeof x === "boolean" ? yes(x) : key === "decades" ? x.toFixed(1) : key === "source" ? x : tools.number(x);
    return { text, class: key === "source" ? "wrap" : null, title: String(x), value: String(x), test: `${key}-${f.name}` };
  };
  const card_rows = async (f) => {
    const asked = [["largest", f.max], ["lowest", f.lowest], ["smallest normal", f.min_normal], ["smallest subnormal", f.min_subnormal], ["one", 1],
      ["zero", 0], ["-0 becomes", "-0"], ["Inf becomes", "inf"], ["NaN becomes", "nan"]].filter(([, v]) => v !== null);
    const rows = await engine.json(["show", "--formats", f.name, "--json", "--", ...asked.map(([, v]) => String(v))]);
    return rows.map((row, i) => ({ what: asked[i][0], ...row }));
  };
  const layout_cells = (f) => el("div", { class: "layout", role: "img",
    "aria-label": `${f.has_sign ? "1 sign bit, " : ""}${f.exponent_bits} exponent bits, ${f.mantissa_bits} mantissa bits` },
    [["sign", f.has_sign ? 1 : 0], ["exponent", f.exponent_bits], ["mantissa", f.mantissa_bits]].map(([kind, n]) =>
      Array.from({ length: n }, () => el("i", { class: kind }, f.bits > 20 ? "" : kind[0]))));

  const mount = (root, state, change) => {
    const data = { formats: [], parts: [], own: null, card: [] };
    const number = (key, low, high) => {
      const node = el("input", { type: "number", min: low, max: high, "data-test": "design-" + key,
        oninput: () => { if (node.value !== "") change(data.bias ? { [key]: node.value } : { bias: "", [key]: node.value }); } });
      return node;
    };
    const e = number("e", 1, 11), m = number("m", 0, 52);
    const bias = el("input", { type: "number", "data-test": "design-bias", oninput: () => change({ bias: bias.value }) });
    const specials = tools.select("design-specials", Object.entries(kinds).map(([k, [text]]) => [k, text]),
      (k) => change(data.bias ? { specials: k } : { specials: k, bias: "" }));
    const start = tools.select("design-start", [["", "choose…"]], async (name) => {
      const f = data.known.find((g) => g.name === name);
      if (!f) return;
      const kind = f.has_inf ? "inf" : !f.has_nan ? "none" : /uz$/.test(name) ? "uz" : "nan";
      const wanted = { e: String(f.exponent_bits), m: String(f.mantissa_bits), bias: "", specials: kind };
      const usual = await find(wanted).catch(() => null);  // the bias is spelled only where it is not the usual one
      change(usual && usual.bias === f.bias ? wanted : { ...wanted, bias: String(f.bias) });
    });
    const axis = tools.select("design-axis", [["all", "range of all"], ["own", "range of the first"]], (kind) => change({ axis: kind }));
    const listed = (s) => s.beside.split(",").filter((n) => n && n !== "none");
    const beside = tools.chips("beside", "formats beside it", (name) => {
      const now = listed({ ...defaults, ...state });
      const next = now.includes(name) ? now.filter((n) => n !== name) : [...now, name].slice(-3);
      change({ beside: next.join() || "none" });
    });
    const problem = el("p", { class: "problem", role: "alert", "data-test": "design-error" }, "\u00a0");
    const title = el("p", { class: "design-name mono", "data-test": "design-name" }, "\u00a0");
    const open_number = el("a", { href: "#number", "data-test": "open-number" }, "Try numbers in it");
    const dot_rows = () => [["format", "code", "value", "class", "from", "to", "values_per_binade"],
      ...data.formats.flatMap((f, i) => data.parts[i].bins
        ? data.parts[i].bins.map((b) => [f.name, "", "", "", "2^" + b.low, "2^" + b.high, b.count])
        : data.parts[i].values.map((v) => [f.name, v.code, v.value, v.class, "", "", ""]))];
    const picture = tools.picture("values", 3 * pitch + 26, (drawing, width) => data.formats.length ? draw(drawing, width, data) : 0, dot_rows);
    const limits = tools.table("limits", "limits of the formats side by side"), card = tools.table("card", "card: the special and extreme codes");
    const card_head = el("div", { class: "card-head" });
    const values = tools.table("all-values", "every code and its value");
    const listing = el("details", { "data-test": "values-list", ontoggle: () => draw_values() },
      el("summary", {}, "Every code and its value, as a table"), el("div", { class: "tall" }, values.node), values.exports);

    root.append(
      el("div", { class: "row" }, tools.field("Start from", start), tools.field("Exponent bits", e), tools.field("Mantissa bits", m),
        tools.field("Bias", bias, texts.bias), tools.field("Specials", specials, texts.specials)),
      title, problem,
      el("div", { class: "field" }, el("span", { class: "label" }, "Beside it, up to three"), beside),
      tools.heading("All values on a log axis", texts.values,
        el("span", { class: "inline" }, el("label", { class: "sr", for: axis.id = tools.unique("axis") }, "axis"), axis), picture.exports),
      picture.node,
      el("div", { class: "columns wide-first" },
        el("div", {}, tools.heading("Limits side by side", texts.limits, limits.exports), limits.node),
        el("div", {}, tools.heading("Card", texts.card, card.exports), card_head, card.node, el("p", {}, open_number))),
      listing);

    const draw_values = async () => {
      if (!listing.open || !data.own) return;
      if (data.own.bits > most_bits_for_dots) return values.show(["code"], [[`${data.own.name} has too many codes to list`]]);
      const rows = await values_of(data.own);
      values.show(["code", "value", "class", "fields"],
        rows.map((r) => [r.code, { text: tools.number(r.value), value: r.value }, r.class, tools.fields(r.fields, data.own)]),
        [["code", "value", "class", "fields"], ...rows.map((r) => [r.code, r.value, r.class, r.fields])]);
    };
    const draw_tables = () => {
      limits.show(["", ...data.formats.map((f) => f.name)], limit_rows.map(([text, key]) => [text, ...data.formats.map((f) => limit_cell(f, key))]),
        [["limit", ...data.formats.map((f) => f.name)], ...limit_rows.map(([, key]) => [key, ...data.formats.map((f) => f[key])])]);
      card.show(["", "value", "hex float", "code"],
        data.card.map((r) => [r.what, { text: tools.number(r.value), value: r.value, title: r.value }, tools.number(r.hex_float), r.code]),
        [["what", "value", "hex_float", "code"], ...data.card.map((r) => [r.what, r.value, r.hex_float, r.code])]);
      card_head.replaceChildren(layout_cells(data.own));
    };
    const controls = (s) => {
      start.offer([["", "choose…"], ...data.known.filter((f) => f.has_zero && f.exponent_bits).map((f) => f.name)]);
      start.value = "";
      for (const [node, key] of [[e, "e"], [m, "m"], [bias, "bias"]]) if (document.activeElement !== node) node.value = s[key];
      bias.disabled = !data.bias;
      specials.value = s.specials;
      axis.value = data.axis = s.axis;
      beside.show(data.known.map((f) => f.name), listed(s));
    };
    const refresh = tools.debounce(async (asked) => {
      const s = { ...defaults, ...asked };
      data.known = await tools.formats();
      data.bias = await has_bias();
      controls(s);
      let own, others;
      try {
        own = await find(s);
        others = listed(s).slice(0, 3);
        others = others.length ? await engine.json(["formats", "--json", "--", ...others]) : [];
      } catch (error) { problem.textContent = error.message; return; }
      problem.textContent = "\u00a0";
      if (document.activeElement !== bias) bias.value = s.bias === "" ? "" : own.bias;
      bias.placeholder = String(own.bias);
      const formats = [own, ...others];
      const parts = await Promise.all(formats.map(async (f) =>
        f.bits > most_bits_for_dots ? { bins: await density_of(f) } : { values: await values_of(f) }));
      Object.assign(data, { own, formats, parts, card: await card_rows(own) });
      title.textContent = `${own.name}: ${own.bits} bits, bias ${own.bias}`;
      open_number.href = tools.link("number", { f: own.name, b: own.name });
      picture.redraw(`positive values of ${formats.map((f) => f.name).join(", ")} on a log axis`);
      draw_tables();
      await draw_values();
      tools.say(`${own.name}: ${own.bits} bits, largest ${tools.number(own.max)}, smallest normal ${tools.number(own.min_normal)}`);
    });
    return { update: refresh };
  };

  views.push({ id: "designer", title: "Format designer", mount,
    summary: "Choose exponent bits, mantissa bits, bias and specials, and see every value of the format beside others." });
})();
