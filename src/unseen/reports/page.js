"use strict";
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  // Charts. The interpreter (`ast`) evaluates expressions without `eval`, which the page's own policy forbids.
  const views = [];
  const rows = new Map();
  for (const row of all("tr[data-key], .legend [data-key]")) {
    rows.set(row.dataset.key, [...(rows.get(row.dataset.key) || []), row]);
  }
  // A click on the legend keeps one in focus until the next click; else it is what the pointer is over.
  let focused = "", kept = "";
  const focus = (wanted) => {
    const key = wanted || kept;
    if (key === focused) return;
    for (const row of rows.get(focused) || []) row.classList.remove("focus");
    for (const row of rows.get(key) || []) row.classList.add("focus");
    focused = key;
    for (const view of views) view.signal("focus", key).runAsync();
  };
  const options = {
    mode: "vega-lite", renderer: "svg", ast: true, tooltip: { theme: "custom" },
    actions: { export: true, source: false, compiled: false, editor: false },
  };
  const specs = read("specs");
  const drawn = all("[data-figure]").map(async (place) => {
    try {
      const { view } = await vegaEmbed(place, specs[place.dataset.figure], options);
      if ("focus" in view.getState().signals) {
        views.push(view);
        view.addEventListener("pointermove", (_, item) => focus((item && item.datum && item.datum.model) || ""));
        view.addEventListener("pointerout", () => focus(""));
      }
    } catch (error) {
      place.textContent = `This chart could not be drawn (${error.message}); its numbers are in the table.`;
    }
  });
  Promise.all(drawn).then(() => { document.documentElement.dataset.ready = "yes"; });
  for (const [key, found] of rows) {
    for (const row of found) {
      if (row.tagName === "LI") {
        row.tabIndex = 0;
        row.addEventListener("click", () => { kept = kept === key ? "" : key; focus(kept); });
        row.addEventListener("keydown", (event) => { if (event.key === "Enter") row.click(); });
      }
      row.addEventListener("pointerenter", () => focus(key));
      row.addEventListener("pointerleave", () => focus(""));
    }
  }

  // Tables: numbers by size, the greatest first; words by the alphabet; what is missing stays last.
  const compare = (a, b, down) => {
    if (a === undefined || b === undefined) return (a === undefined) - (b === undefined);
    const [x, y] = [Number(a), Number(b)];
    const order = Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b) : x - y;
    return down ? -order : order;
  };
  for (const table of all("table")) {
    all("thead th", table).forEach((head, position) => {
      const button = head.querySelector("button");
      if (!button) return;
      button.addEventListener("click", () => {
        const before = head.getAttribute("aria-sort");
        const down = before ? before === "ascending" : head.classList.contains("number");
        for (const other of all("thead th", table)) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const body = table.tBodies[0];
        body.append(...[...body.rows].sort((a, b) =>
          compare(a.cells[position].dataset.sort, b.cells[position].dataset.sort, down)));
      });
    });
  }

  // Downloads come out of the page itself.
  const exports = read("exports");
  const kinds = { csv: "text/csv", json: "application/json" };
  for (const button of all("[data-download]")) {
    button.addEventListener("click", () => {
      const kind = button.dataset.download;
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([exports[kind]], { type: kinds[kind] }));
      link.download = `${exports.stem}.${kind}`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
  }

  const root = document.documentElement;
  document.getElementById("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
  addEventListener("beforeprint", () => { for (const folded of all("details:not(.vega-embed *)")) folded.open = true; });
})();
