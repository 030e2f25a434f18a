// The shell: tabs, the state in the link, the theme, and what is said when something fails.
"use strict";

const app = (() => {
  const tabs = document.getElementById("tabs"), main = document.getElementById("view");
  const mounted = {};  // id -> {state, update}
  let current = "";

  // Browsers limit how often a page may rewrite its address: a drag writes it once, when it rests.
  let timer = 0;
  const write_link = () => {
    clearTimeout(timer);
    timer = 0;
    history.replaceState(null, "", tools.link(current, mounted[current].state));
  };
  const change = (id, difference) => {
    document.getElementById("error").hidden = true;
    const view = mounted[id];
    Object.assign(view.state, difference);
    if (id === current && !timer) timer = setTimeout(write_link, 150);
    if (view.update) view.update(view.state);
  };

  const open = (id, state) => {
    const view = views.find((v) => v.id === id) || views[0];
    current = view.id;
    for (const v of views) {
      const tab = document.getElementById("tab-" + v.id);
      tab.setAttribute("aria-selected", String(v === view));
      if (v === view) tab.scrollIntoView({ block: "nearest", inline: "nearest" });
      tab.tabIndex = v === view ? 0 : -1;
      document.getElementById("panel-" + v.id).hidden = v !== view;
    }
    document.title = view.title + " - narrow explorer";
    const known = mounted[view.id];
    if (!known) {
      const entry = mounted[view.id] = { state: { ...state }, update: null };
      try {
        const made = view.mount(document.getElementById("panel-" + view.id).lastChild, entry.state, (d) => change(view.id, d));
        entry.update = made && made.update;
      } catch (error) { tools.fail(error); }
    } else if (state) {
      for (const key of Object.keys(known.state)) delete known.state[key];
      Object.assign(known.state, state);
    }
    if (mounted[view.id].update && (known ? state : true)) mounted[view.id].update(mounted[view.id].state);
    write_link();
  };

  const build = () => {
    for (const view of views) {
      tabs.append(tools.el("button", { type: "button", role: "tab", id: "tab-" + view.id, "aria-controls": "panel-" + view.id,
        "data-test": "tab-" + view.id, onclick: () => open(view.id, mounted[view.id] ? null : {}) }, view.title));
      main.append(tools.el("section", { role: "tabpanel", id: "panel-" + view.id, "aria-labelledby": "tab-" + view.id, hidden: true },
        tools.el("h2", {}, view.title), tools.el("p", { class: "summary" }, view.summary), tools.el("div", { class: "body" })));
    }
    tabs.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key], last = views.length - 1;
      const at = views.findIndex((v) => v.id === current);
      const to = event.key === "Home" ? 0 : event.key === "End" ? last : step ? (at + step + views.length) % views.length : null;
      if (to === null) return;
      event.preventDefault();
      const tab = document.getElementById("tab-" + views[to].id);
      tab.focus();
      tab.click();
    });
  };

  // Storage can be forbidden (file://, private windows): then the theme lasts as long as the page.
  const themes = ["auto", "light", "dark"];
  const remember = (value) => {
    try { return value === undefined ? localStorage.getItem("narrow-theme") : localStorage.setItem("narrow-theme", value); }
    catch { return null; }
  };
  const set_theme = (name) => {
    document.documentElement.dataset.theme = name;
    document.getElementById("theme").textContent = "Theme: " + name;
    dispatchEvent(new Event("themechange"));
  };
  document.getElementById("theme").addEventListener("click", () => {
    const next = themes[(themes.indexOf(document.documentElement.dataset.theme) + 1) % themes.length];
    set_theme(next);
    remember(next);
  });
  set_theme(themes.includes(remember()) ? remember() : "auto");

  document.getElementById("copy").addEventListener("click", async () => {
    write_link();
    try {
      await navigator.clipboard.writeText(location.href);
      tools.say("link copied");
      document.getElementById("copy").textContent = "Copied";
      setTimeout(() => { document.getElementById("copy").textContent = "Copy link"; }, 1500);
    } catch { prompt("The link of this view:", location.href); }
  });
  document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });

  addEventListener("unhandledrejection", (event) => tools.fail(event.reason));
  addEventListener("hashchange", () => {
    const { id, state } = tools.parse_link(location.hash);
    open(id, state);
  });

  build();
  const { id, state } = tools.parse_link(location.hash);
  open(id, state);
  engine.ready.then(() => { document.getElementById("version").textContent = engine.version; }, (error) => {
    document.getElementById("version").textContent = "";
    tools.fail(error);
  });
  return { open };
})();
