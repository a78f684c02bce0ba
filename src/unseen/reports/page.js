"use strict";
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const about = JSON.parse(document.getElementById("page").textContent);

// Charts and cells are unpacked once, when they are first needed.
const unpacked = new Map();
const unpack = (id) => {
  if (!unpacked.has(id)) {
    const text = document.getElementById(id).textContent;
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    unpacked.set(id, text ? new Response(plain).json() : Promise.resolve(null));
  }
  return unpacked.get(id);
};
const save = (content, name, kind) => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type: kind }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
};

// Models: one under the pointer or kept by a click, the best k, those that a search leaves.
const choice = { focus: "", lit: null, hidden: {} };
const views = [];
const rows = new Map();
for (const row of all("tr[data-key], .legend [data-key]")) {
  rows.set(row.dataset.key, [...(rows.get(row.dataset.key) || []), row]);
}
const tell = (...names) => {
  for (const view of views) {
    for (const name of names) view.signal(name, choice[name]);
    view.runAsync();
  }
};
let kept = "";
const focus = (wanted) => {
  const key = wanted || kept;
  if (key === choice.focus) return;
  for (const row of rows.get(choice.focus) || []) row.classList.remove("focus");
  for (const row of rows.get(key) || []) row.classList.add("focus");
  choice.focus = key;
  tell("focus");
};
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
const chooser = document.querySelector(".choose");
if (chooser) {
  const filter = document.getElementById("filter"), best = document.getElementById("best");
  const words = new Map([...rows].map(([key, found]) => [key, `${key} ${found[0].textContent}`.toLowerCase()]));
  for (const entry of all(".legend .group[data-key]")) words.delete(entry.dataset.key);
  const choose = () => {
    const asked = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const gone = [...words].filter(([, text]) => !asked.every((word) => text.includes(word))).map(([key]) => key);
    const none = gone.length === words.size;
    choice.hidden = Object.fromEntries((none ? [] : gone).map((key) => [key, true]));
    const lit = about.order.slice(0, Number(best.value));
    choice.lit = lit.length ? Object.fromEntries(lit.map((key) => [key, true])) : null;
    for (const [key, found] of rows) {
      for (const row of found) {
        row.hidden = key in choice.hidden;
        row.classList.toggle("best", Boolean(choice.lit && choice.lit[key]));
        row.classList.toggle("dim", Boolean(choice.lit && words.has(key) && !choice.lit[key]));
      }
    }
    const left = words.size - Object.keys(choice.hidden).length;
    document.getElementById("chosen").textContent = none ? "no such model" : asked.length ? `${left} of ${words.size} models` : "";
    tell("hidden", "lit");
  };
  filter.addEventListener("input", choose);
  best.addEventListener("change", choose);
  chooser.addEventListener("submit", (event) => event.preventDefault());
}

// Charts are drawn when they come near, the others when there is time. The interpreter (`ast`) evaluates expressions
// without `eval`, which the page's own policy forbids.
const options = { mode: "vega-lite", renderer: "svg", ast: true, actions: false, tooltip: { theme: "custom" } };
const drawn = new Map();
const shown = (spec, pictures) => JSON.parse(JSON.stringify(spec), (_, value) =>
  typeof value === "string" && value.startsWith("picture:") && pictures ? pictures[Number(value.slice(8))] : value);
const draw = (place) => {
  if (!drawn.has(place)) drawn.set(place, drawing(place));
  return drawn.get(place);
};
const drawing = async (place) => {
  try {
    const spec = (await unpack("specs"))[place.dataset.figure];
    const pictures = JSON.stringify(spec).includes('"picture:') ? await unpack("pictures") : null;
    const { view } = await vegaEmbed(place, shown(spec, pictures), options);
    document.documentElement.dataset.first ||= Math.round(performance.now());
    if ("hidden" in view.getState().signals) {
      views.push(view);
      for (const [name, value] of Object.entries(choice)) view.signal(name, value);
      view.runAsync();
      view.addEventListener("pointermove", (_, item) => focus((item && item.datum && item.datum.model) || ""));
      view.addEventListener("pointerout", () => focus(""));
      view.addEventListener("click", (_, item) => {
        const ids = item && item.datum && item.datum.cells;
        if (ids && ids.length && window.showCells) window.showCells(ids);
      });
    }
    return view;
  } catch (error) {
    place.textContent = `This chart could not be drawn (${error.message}); its numbers are in the table.`;
    return null;
  }
};
const places = all("[data-figure]");
const near = new IntersectionObserver((found) => {
  for (const each of found) if (each.isIntersecting) { near.unobserve(each.target); draw(each.target); }
}, { rootMargin: "600px" });
const folded = (place) => place.closest("details:not([open])");
for (const place of places) near.observe(place);
for (const more of all("details.more")) {
  more.addEventListener("toggle", () => { if (more.open) for (const place of all("[data-figure]", more)) draw(place); });
}
const idle = window.requestIdleCallback ? (run) => requestIdleCallback(run, { timeout: 300 }) : (run) => setTimeout(run, 30);
const rest = async () => {
  for (const place of places.filter((each) => !folded(each))) {
    await new Promise((resolve) => idle(resolve));
    await draw(place);
  }
  const pictures = await unpack("pictures");
  for (const image of all("img[data-picture]")) image.src = pictures[Number(image.dataset.picture)];
  document.documentElement.dataset.ready = "yes";
};
if (document.readyState === "complete") rest(); else addEventListener("load", rest);

// A picture in a table is shown large under the pointer.
const peek = new Image();
peek.id = "peek";
peek.alt = "";
document.addEventListener("pointerover", (event) => {
  const row = event.target.closest("th, td"), image = row && row.querySelector("img[data-picture]");
  if (!image || !image.src) { peek.remove(); return; }
  const at = image.getBoundingClientRect();
  peek.src = image.src;
  peek.style.left = `${Math.min(at.right + 8, innerWidth - 176)}px`;
  peek.style.top = `${Math.max(8, Math.min(at.top, innerHeight - 190))}px`;
  document.body.append(peek);
});

// A chart as a file: on white, named after the page and its title.
const slug = (text) => text.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 70);
const onWhite = async (view, scale) => {
  const canvas = await view.toCanvas(scale);
  const whole = document.createElement("canvas");
  [whole.width, whole.height] = [canvas.width, canvas.height];
  const context = whole.getContext("2d");
  context.fillStyle = "white";
  context.fillRect(0, 0, whole.width, whole.height);
  context.drawImage(canvas, 0, 0);
  return whole;
};
const blob = (canvas, kind, quality) => new Promise((resolve) => canvas.toBlob(resolve, kind, quality));
const pdf = async (view) => {
  // One page of the chart's size with one picture of it, 4 pixels per point.
  const canvas = await onWhite(view, 4);
  const image = new Uint8Array(await (await blob(canvas, "image/jpeg", 0.95)).arrayBuffer());
  const [width, height] = [canvas.width / 4, canvas.height / 4];
  const content = `${width} 0 0 ${height} 0 0 cm /I Do`;
  const objects = [
    ["<</Type/Catalog/Pages 2 0 R>>"], ["<</Type/Pages/Kids[3 0 R]/Count 1>>"],
    [`<</Type/Page/Parent 2 0 R/MediaBox[0 0 ${width} ${height}]/Contents 4 0 R/Resources<</XObject<</I 5 0 R>>>>>>`],
    [`<</Length ${content.length}>>stream\n${content}\nendstream`],
    [`<</Type/XObject/Subtype/Image/Width ${canvas.width}/Height ${canvas.height}/ColorSpace/DeviceRGB` +
      `/BitsPerComponent 8/Filter/DCTDecode/Length ${image.length}>>stream\n`, image, "\nendstream"],
  ];
  const parts = ["%PDF-1.4\n"], offsets = [];
  const size = (part) => part.length;
  let position = parts[0].length;
  objects.forEach((object, index) => {
    offsets.push(position);
    const whole = [`${index + 1} 0 obj\n`, ...object, "\nendobj\n"];
    position += whole.reduce((sum, part) => sum + size(part), 0);
    parts.push(...whole);
  });
  const table = offsets.map((offset) => `${String(offset).padStart(10, "0")} 00000 n \n`).join("");
  parts.push(`xref\n0 6\n0000000000 65535 f \n${table}trailer<</Size 6/Root 1 0 R>>\nstartxref\n${position}\n%%EOF\n`);
  return new Blob(parts);
};
for (const button of all("[data-save]")) {
  button.addEventListener("click", async () => {
    const figure = button.closest("figure"), view = await draw(figure.querySelector("[data-figure]"));
    if (!view) return;
    const name = `${about.stem}-${slug(figure.querySelector("figcaption b").textContent)}.${button.dataset.save}`;
    if (button.dataset.save === "svg") {
      const text = await view.toSVG();
      save(text.replace(/(<svg[^>]*>)/, '$1<rect width="100%" height="100%" fill="white"/>'), name, "image/svg+xml");
    } else if (button.dataset.save === "png") {
      save(await blob(await onWhite(view, 3), "image/png"), name, "image/png");
    } else {
      save(await pdf(view), name, "application/pdf");
    }
  });
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

const root = document.documentElement;
document.getElementById("theme").addEventListener("click", () => {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});
document.getElementById("print").addEventListener("click", async () => {
  await Promise.all(places.filter((each) => !folded(each)).map(draw));
  print();
});
addEventListener("beforeprint", () => { for (const each of all("details:not(#cell-list, .more)")) each.open = true; });
