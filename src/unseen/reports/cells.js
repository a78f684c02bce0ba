
// Cells: what is behind a number, and files made of all of them. Whatever text they hold is set as text, never as HTML.
if (document.getElementById("data").textContent) {
  const make = (tag, text, parent, kind) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (kind) made.className = kind;
    if (parent) parent.append(made);
    return made;
  };
  const plain = (value) => (typeof value === "string" ? value : JSON.stringify(value));
  const read = async () => {
    const data = await unpack("data");
    if (data.results && !data.whole) {
      data.whole = data.results.map(({ id, cell, ...more }) => {
        const part = (name, none) => (more[name] === undefined ? none : data.parts[more[name]]);
        return {
          ...more, error: more.error || "", cell: { id, ...cell, parameters: data.parts[cell.parameters] },
          sweep: part("sweep", []), details: part("details", {}), environment: part("environment", {}), record: part("record", {}), cite: part("cite", []),
        };
      });
      data.place = new Map(data.whole.map((result, place) => [result.cell.id, place]));
    }
    return data;
  };

  // Downloads: the long form, a row per metric, and one object per cell, in full precision.
  const quoted = (value) => {
    const text = value === null || value === undefined ? "" : plain(value);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const csv = (results) => {
    const names = [...new Set(results.flatMap((r) => Object.keys(r.cell.parameters)))].sort();
    const before = ["id", "benchmark", "version", "model", "dataset", "revision"];
    const lines = [["cell", ...before.slice(1), ...names.map((n) => `parameters.${n}`), "metric", "value", "error", "findings", "seconds", "recorded"]];
    for (const result of results) {
      const own = [...before.map((n) => result.cell[n]), ...names.map((n) => result.cell.parameters[n])];
      const after = [result.error, (result.record.findings || []).join("; "), result.seconds, result.recorded];
      const metrics = result.error ? [["", null]] : Object.entries(result.metrics);
      for (const [name, value] of metrics) lines.push([...own, name, value, ...after]);
    }
    return lines.map((line) => line.map(quoted).join(",") + "\n").join("");
  };
  const json = (results) => JSON.stringify(results.map(({ command, cite, ...result }) => ({ ...result, command, cite })));
  const kinds = { csv: ["text/csv", csv], json: ["application/json", json] };
  for (const button of all("[data-download]")) {
    button.addEventListener("click", async () => {
      const kind = button.dataset.download, data = await read();
      save(data.files ? data.files[kind] : kinds[kind][1](data.whole), `${about.stem}-results.${kind}`, kinds[kind][0]);
    });
  }

  // One cell, or the cells of one mean.
  const number = (value, percent) => {
    if (typeof value !== "number") return value;
    return percent ? `${(100 * value).toFixed(2)} %` : String(Number(value.toPrecision(6)));
  };
  const table = (parent, title, pairs) => {
    const entries = pairs.filter(([, value]) => value !== undefined && value !== "");
    if (!entries.length) return;
    make("h4", title, parent);
    const body = make("table", undefined, parent).createTBody();
    for (const [name, value] of entries) {
      const row = body.insertRow();
      make("th", name, row);
      make("td", value, row);
    }
  };
  const sweep = (parent, trials) => {
    if (!trials.length) return;
    const folded = make("details", undefined, parent);
    make("summary", `Sweep: ${trials.length} ${trials.length === 1 ? "setting" : "settings"} tried`, folded);
    const names = [...new Set(trials.flatMap((trial) => Object.keys(trial)))];
    const grid = make("table", undefined, make("div", undefined, folded, "scroll"));
    const head = grid.createTHead().insertRow(), body = grid.createTBody();
    for (const name of names) make("th", name, head);
    for (const trial of trials.slice(0, 500)) {
      const row = body.insertRow();
      for (const name of names) row.insertCell().textContent = trial[name] === undefined ? "" : number(typeof trial[name] === "object" ? JSON.stringify(trial[name]) : trial[name], false);
    }
  };
  const flat = (value, above = "") => Object.entries(value).flatMap(([name, inner]) =>
    inner && typeof inner === "object" && !Array.isArray(inner) ? flat(inner, `${above}${name} `) : [[above + name, plain(inner)]]);
  const one = (parent, result, data, open) => {
    const { cell } = result, styles = data.styles[cell.benchmark] || [];
    const part = make("details", undefined, parent, "one");
    part.open = open;
    const seed = cell.parameters.seed === undefined ? "" : `, seed ${cell.parameters.seed}`;
    const [name, , percent] = styles[0] || [];
    const value = result.error ? "failed" : name in result.metrics ? number(result.metrics[name], percent) : "";
    make("summary", `${value}${seed} `, part);
    if (result.error) make("p", result.error, part, "alarm");
    const told = styles.map(([n, title, share]) => {
      const [low, high] = [result.metrics[`${n}_low`], result.metrics[`${n}_high`]];
      const bounds = low === undefined ? "" : ` [${number(low, share)}, ${number(high, share)}]`;
      return [title, result.metrics[n] === undefined ? undefined : number(result.metrics[n], share) + bounds];
    });
    table(part, "Numbers", told);
    table(part, "Configuration", [["benchmark", cell.benchmark], ["model", cell.model], ["dataset", cell.dataset],
      ...flat(cell.parameters), ["version", cell.version], ["weights + data", cell.revision], ["cell", cell.id]]);
    table(part, "Run record", [["findings", (result.record.findings || []).join("; ")], ["dropped", (result.record.dropped || []).slice(0, 100).map((each) => `${each.kind} ${each.name}: ${each.reason}`).join("\n")]]);
    sweep(part, result.sweep);
    table(part, "Details", flat(result.details).filter(([, text]) => text.length < 200));
    table(part, "Environment", [["recorded", result.recorded], ["seconds", String(Number(result.seconds.toPrecision(4)))], ...flat(result.environment)]);
    if (result.command) {
      make("h4", "Compute it anew", part);
      make("code", result.command, part);
    }
    make("h4", "Cite", part);
    const list = make("ul", undefined, part);
    for (const text of result.cite) make("li", text, list);
  };
  const dialog = document.getElementById("cell");
  const show = async (places) => {
    const data = await read(), found = places.map((place) => data.whole[place]).filter(Boolean);
    if (!found.length) return;
    const inside = dialog.querySelector("div");
    inside.replaceChildren();
    const { cell } = found[0], models = new Set(found.map((r) => r.cell.model));
    make("h3", models.size === 1 ? data.names[cell.model] || cell.model : `${models.size} models`, inside);
    const datasets = new Set(found.map((r) => r.cell.dataset));
    make("p", `${cell.benchmark} on ${datasets.size === 1 ? cell.dataset : `${datasets.size} datasets`}: ${found.length} ${found.length === 1 ? "cell" : "cells"}`, inside);
    found.slice(0, 100).forEach((result) => {
      if (datasets.size > 1) make("p", result.cell.dataset, inside, "of");
      one(inside, result, data, found.length === 1);
    });
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
  };
  window.showCells = async (ids) => { const { place } = await read(); show(ids.map((id) => place.get(id))); };
  if (dialog) {
    document.addEventListener("click", (event) => {
      const button = event.target.closest("[data-cells]");
      if (button) show(button.dataset.cells.split(" ").map(Number));
      if (event.target === dialog) dialog.close();
    });

    // The list of all cells: some hundred at a time.
    const list = document.getElementById("cell-list"), find = document.getElementById("find");
    const more = document.getElementById("more"), said = document.getElementById("found");
    const grid = list.querySelector("table");
    let left = [], lines = null;
    const add = () => {
      const body = grid.tBodies[0];
      for (const line of left.splice(0, 100)) {
        const row = body.insertRow();
        const button = make("button", line.value, make("td", undefined, row, "number"), "to-cells");
        button.type = "button";
        button.dataset.cells = line.place;
        for (const text of line.columns) make("td", text, row);
      }
      more.hidden = !left.length;
    };
    const search = async () => {
      const data = await read();
      lines ||= data.whole.map((result, place) => {
        const { cell } = result, [name, , percent] = (data.styles[cell.benchmark] || [[]])[0];
        const told = flat(cell.parameters).filter(([key]) => !key.startsWith("extraction")).map((pair) => pair.join(" ")).join(", ");
        const columns = [data.names[cell.model] || cell.model, cell.dataset, cell.benchmark, told];
        const value = result.error ? "failed" : name in result.metrics ? number(result.metrics[name], percent) : "–";
        return { place, value, columns, text: `${cell.id} ${cell.model} ${columns.join(" ")} ${result.error}`.toLowerCase() };
      });
      const asked = find.value.toLowerCase().split(/\s+/).filter(Boolean);
      left = lines.filter((line) => asked.every((word) => line.text.includes(word)));
      said.textContent = `${left.length.toLocaleString("en")} of ${lines.length.toLocaleString("en")} cells`;
      grid.tBodies[0].replaceChildren();
      if (!grid.tHead.rows.length) {
        const head = grid.tHead.insertRow();
        for (const text of ["value", "model", "dataset", "benchmark", "setting"]) make("th", text, head);
      }
      add();
    };
    list.addEventListener("toggle", () => { if (list.open && !lines) search(); });
    find.addEventListener("input", search);
    more.addEventListener("click", add);
  }
}
