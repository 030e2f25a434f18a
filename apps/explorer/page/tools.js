// What the views share: elements, pictures and tables with their exports, texts of numbers, links, help.
// Nothing here computes with a number format: that is the engine's work.
"use strict";

const views = [];  // each view file pushes {id, title, summary, mount(root, state, change) -> {update(state)}}

const tools = (() => {
  const fill = (node, attributes, children) => {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else node.setAttribute(name, value === true ? "" : value);
    }
    for (const child of children.flat(Infinity))
      if (child !== null && child !== undefined && child !== false) node.append(child);  // strings become text, never HTML
    return node;
  };
  const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
  const svg = (tag, attributes, ...children) =>
    fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

  // ---- numbers as text ----
  const digits_of = (x, most) => {
    const small = x !== 0 && Math.abs(x) < 1e-4;
    const [digits, exponent] = (small ? x.toExponential(most - 1) : x.toPrecision(most)).split("e");
    return (digits.includes(".") ? digits.replace(/\.?0+$/, "") : digits) + (exponent ? "e" + exponent : "");
  };
  // The program's exact decimals can have a thousand digits. Up to 17 are shown as they are; "~" says that more were left out.
  const decimal = (text) => {
    if (!/^-?\d+(\.\d*)?$/.test(text)) return text.length <= 26 ? text : text.slice(0, 25) + "…";
    if (text.length <= 18 && !/^-?0\.0000/.test(text)) return text;
    return (text.replace(/[-.]/g, "").replace(/^0+|0+$/g, "").length > 17 ? "~" : "") + digits_of(+text, 17);
  };
  const number = (x) => {
    if (x === null || x === undefined || x === "") return "-";
    if (typeof x === "string") return decimal(x);
    if (!Number.isFinite(x)) return Number.isNaN(x) ? "nan" : x > 0 ? "inf" : "-inf";
    return Number.isInteger(x) && Math.abs(x) < 1e7 ? String(x) : digits_of(x, 6);
  };
  const count = (n) => n === null || n === undefined ? "-" : String(n).replace(/\B(?=(\d{3})+$)/g, "\u202f");
  const percent = (part, whole) => {
    if (!whole) return "-";
    const p = 100 * part / whole;
    // A share that is not none and not all never reads 0 % or 100 %.
    if (part > 0 && p < 0.01) return "<0.01 %";
    if (part < whole && p > 99.99) return ">99.99 %";
    return (p === 0 || p === 100 ? p : p < 1 || p > 99.9 ? p.toFixed(2) : p.toFixed(1)) + " %";
  };
  const power = (k) => "2^" + k;
  // JSON writes inf and nan as strings: this gives a number to draw with.
  const real = (x) => typeof x === "number" ? x : x === null || x === undefined ? NaN
    : /^-inf/i.test(x) ? -Infinity : /^\+?inf/i.test(x) ? Infinity : Number(x);
  const log2 = (x) => Math.log2(Math.abs(real(x)));

  // ---- calls ----
  // One call a frame; while one runs (an engine call, say) only the newest request waits. Errors go to the page.
  const debounce = (f) => {
    let waiting = null, busy = false;
    const next = async () => {
      const args = waiting;
      waiting = null;
      try { await f(...args); } catch (error) { fail(error); }
      busy = false;
      if (waiting) start();
    };
    // A timer stands in where frames do not come (a tab in the background).
    const start = () => {
      busy = true;
      let done = false;
      const once = () => { if (!done) { done = true; next(); } };
      requestAnimationFrame(once);
      setTimeout(once, 50);
    };
    return (...args) => { waiting = args; if (!busy) start(); };
  };
  const fail = (error) => {
    const box = document.getElementById("error");
    box.textContent = error && error.message || String(error);
    box.hidden = false;
    console.error(error);
  };
  const say = (text) => { document.getElementById("say").textContent = text; };

  const kept = {};
  const once = (name, make) => kept[name] || (kept[name] = make());
  // The table of formats, and the words an option accepts, as the program lists them in its own sentence.
  const formats = () => once("formats", () => engine.json(["formats", "--json"]));
  const accepted = (option) => once(option, async () => {
    const { err } = await engine.run(["show", "0", option, "?"]);
    return (err.split("accepted:")[1] || "").replace(/\([^)]*\)/g, " ").split(/[\s,]+/).filter(Boolean);
  });

  // ---- files for people ----
  const download = (name, blob) => {
    const link = el("a", { href: URL.createObjectURL(blob), download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    say("saved " + name);
  };
  const csv = (rows) => rows.map((row) => row.map((cell) => {
    const text = cell === null || cell === undefined ? "" : String(cell);
    return /[",\n\r]/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text;
  }).join(",")).join("\r\n") + "\r\n";
  // Outside of the page there is no style sheet: what it says is written into each element.
  const inked = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-size", "font-family",
    "font-weight", "text-anchor", "fill-opacity"];
  const standalone = (picture) => {
    const copy = picture.cloneNode(true);
    const from = [picture, ...picture.querySelectorAll("*")], to = [copy, ...copy.querySelectorAll("*")];
    from.forEach((node, i) => {
      const style = getComputedStyle(node);
      for (const name of inked) to[i].setAttribute(name, style.getPropertyValue(name));
      to[i].removeAttribute("class");
    });
    const width = picture.width.baseVal.value, height = picture.height.baseVal.value;
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    copy.setAttribute("viewBox", `0 0 ${width} ${height}`);
    copy.prepend(svg("rect", { width, height, fill: getComputedStyle(document.body).backgroundColor }));
    return { text: new XMLSerializer().serializeToString(copy), width, height };
  };
  const save = async (name, what) => {
    if (Array.isArray(what)) return download(name + ".csv", new Blob([csv(what)], { type: "text/csv" }));
    return download(name + ".svg", new Blob([standalone(what).text], { type: "image/svg+xml" }));
  };
  const save_png = async (name, picture) => {
    const { text, width, height } = standalone(picture), image = new Image();
    image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
    await image.decode();
    const canvas = el("canvas", { width: 2 * width, height: 2 * height });
    canvas.getContext("2d").drawImage(image, 0, 0, 2 * width, 2 * height);
    canvas.toBlob((blob) => download(name + ".png", blob), "image/png");
  };
  const exports = (get_svg, get_rows, name) => {
    const button = (kind, f) => el("button", {
      type: "button", class: "small", "aria-label": `save ${name} as ${kind}`, "data-test": `save-${name}-${kind.toLowerCase()}`,
      onclick: () => Promise.resolve(f()).catch(fail) }, kind);
    return el("span", { class: "exports", role: "group", "aria-label": "save " + name },
      get_svg && [button("SVG", () => save(name, get_svg())), button("PNG", () => save_png(name, get_svg()))],
      get_rows && button("CSV", () => save(name, get_rows())));
  };

  // ---- pieces of a page ----
  let serial = 0;
  const unique = (word) => word + "-" + ++serial;
  const help = (text, about) => {
    const box = el("div", { class: "help-text", popover: "auto", id: unique("help") }, text);
    const button = el("button", { type: "button", class: "help", "aria-label": about ? "help: " + about : "help", popovertarget: box.id }, "?");
    box.addEventListener("toggle", (event) => {
      if (event.newState !== "open") return;
      const at = button.getBoundingClientRect(), room = document.documentElement.clientWidth - box.offsetWidth - 8;
      box.style.left = Math.max(8, Math.min(at.left, room)) + "px";
      const under = at.bottom + 6, over = at.top - box.offsetHeight - 6;
      box.style.top = (under + box.offsetHeight > innerHeight && over > 0 ? over : under) + "px";
    });
    return [button, box];
  };
  const heading = (text, explanation, ...more) =>
    el("div", { class: "heading" }, el("span", { class: "title" }, el("h3", {}, text), explanation && help(explanation, text)), more);
  const field = (label, control, explanation) => {
    control.id = control.id || unique("field");
    return el("div", { class: "field" },
      el("span", { class: "label" }, el("label", { for: control.id }, label), explanation && help(explanation, label)), control);
  };
  const select = (test, options, onchange) => {
    const node = el("select", { "data-test": test, onchange: () => onchange(node.value) });
    node.offer = (list) => {  // strings or [value, text]; keeps the choice where it can
      const had = node.value;
      node.replaceChildren(...list.map((o) => Array.isArray(o) ? el("option", { value: o[0] }, o[1]) : el("option", {}, o)));
      if (had) node.value = had;
    };
    node.offer(options);
    return node;
  };
  // Buttons of which any number (or one) is pressed. node.show(list, pressed) draws it and keeps the focus.
  const chips = (test, label, onpress) => {
    const node = el("div", { class: "chips", role: "group", "aria-label": label, "data-test": test });
    node.show = (list, pressed) => {
      const same = list.length === node.children.length && list.every((o, i) => node.children[i].textContent === o);
      if (!same) node.replaceChildren(...list.map((o) =>
        el("button", { type: "button", class: "chip", "data-test": `${test}-${o}`, onclick: () => onpress(o) }, o)));
      for (const chip of node.children) chip.setAttribute("aria-pressed", String(pressed.includes(chip.textContent)));
    };
    return node;
  };
  // A table that scrolls inside its own box. A cell is a text, an element, or {text, class, test, value, title}.
  const table = (name, caption) => {
    const head = el("thead"), body = el("tbody"), state = { rows: [] };
    const cell = (c, i) => {
      const o = c !== null && typeof c === "object" && !(c instanceof Node) ? c : { text: c };
      return el(i === 0 ? "th" : "td", { scope: i === 0 ? "row" : null, class: o.class, "data-test": o.test,
        "data-value": o.value, title: o.title }, o.text === null || o.text === undefined ? "-" : o.text);
    };
    const node = el("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": caption },
      el("table", { "data-test": name }, el("caption", { class: "sr" }, caption), head, body));
    return {
      node,
      // cells for the screen, rows for the CSV (head included); without rows the cells' texts are saved
      show(columns, cells, rows) {
        head.replaceChildren(el("tr", {}, columns.map((c) => el("th", { scope: "col" }, c))));
        body.replaceChildren(...cells.map((row) => el("tr", {}, row.map(cell))));
        state.rows = rows || [columns, ...[...body.rows].map((r) => [...r.cells].map((c) => c.textContent))];
      },
      exports: exports(null, () => state.rows, name),
    };
  };
  // A picture that is drawn again when its width changes; draw(svg, width) returns its height. Heights are reserved.
  const picture = (name, height, draw, rows) => {
    const drawing = svg("svg", { role: "img", "data-test": name, width: 300, height });
    const node = el("div", { class: "picture" }, drawing);
    node.style.minHeight = height + "px";
    let width = 0, label = name;
    const redraw = () => {
      if (!width) return;
      drawing.replaceChildren(svg("title", {}, label));
      drawing.setAttribute("width", width);
      const now = draw(drawing, width) || height;
      drawing.setAttribute("height", now);
      node.style.minHeight = now + "px";
    };
    new ResizeObserver(() => {
      const now = Math.floor(node.clientWidth);
      if (now && now !== width) { width = now; redraw(); }
    }).observe(node);
    return { node, redraw(text) { label = text || label; drawing.setAttribute("aria-label", label); redraw(); },
      exports: exports(() => drawing, rows, name) };
  };
  // An axis of powers of two: returns x(log2), clamped to the axis, after grid lines and labels are drawn.
  const axis = (drawing, { left, right, top, bottom, low, high }) => {
    const span = Math.max(high - low, 1), most = Math.max(2, Math.floor((right - left) / 52));
    const step = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024].find((s) => span / s <= most) || 2048;
    const x = (k) => left + (Math.min(Math.max(k, low), high) - low) * (right - left) / span;
    for (let k = Math.ceil(low / step) * step; k <= high; k += step) drawing.append(
      svg("line", { class: k === 0 ? "grid zero" : "grid", x1: x(k), x2: x(k), y1: top, y2: bottom }),
      svg("text", { class: "tick", x: x(k), y: bottom + 14, "text-anchor": "middle" }, power(k)));
    return x;
  };
  // The fields of a code ("0 0011 101"), each in its colour.
  const fields = (text, format) => {
    const words = text.split(" "), kinds = [];
    if (format.has_sign) kinds.push("sign");
    if (format.exponent_bits) kinds.push("exponent");
    if (format.mantissa_bits) kinds.push("mantissa");
    return el("span", { class: "fields" }, words.map((word, i) => [i ? " " : null, el("span", { class: kinds[i] || "mantissa" }, word)]));
  };

  // ---- the state in the link: #view?key=value&key=value ----
  const parse_link = (hash) => {
    const [id, query] = hash.replace(/^#/, "").split(/\?(.*)/s);
    return { id, state: Object.fromEntries(new URLSearchParams(query || "")) };
  };
  const link = (id, state) => {
    const kept_state = Object.entries(state).filter(([, value]) => value !== "" && value !== null && value !== undefined);
    const query = new URLSearchParams(kept_state).toString().replace(/%2C/g, ",").replace(/%3A/g, ":");
    return "#" + id + (query ? "?" + query : "");
  };

  return { el, svg, number, count, percent, power, real, log2, debounce, fail, say, formats, accepted, once, csv, save, save_png,
    exports, help, heading, field, select, chips, table, picture, axis, fields, parse_link, link, unique };
})();
