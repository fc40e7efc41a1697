"use strict";
// What a page of sections does: draws its charts when they come into view and before printing,
// sorts and filters tables, copies them as CSV.
// The root element's data-charts says how far the charts are: "loading", "ready", or "failed".

const PRINT_WIDTH_PX = 680;
const plotOptions = {
  responsive: true, displaylogo: false, displayModeBar: "hover", modeBarButtons: [["toImage"]],
};

const charts = {
  figures: {},

  async load() {
    const root = document.documentElement;
    root.dataset.charts = "loading";
    try {
      charts.figures = await readJson("figures");
      await runLazily("plotly");
      if (!window.Plotly) throw new Error("plotly did not start");
      charts.watch();
      root.dataset.charts = "ready";
    } catch (error) {
      root.dataset.charts = "failed";
      for (const details of document.querySelectorAll("figure details")) details.open = true;
      throw error;
    }
  },

  watch() {
    const observer = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        observer.unobserve(entry.target);
        charts.draw(entry.target);
      }
    }, { rootMargin: "400px" });
    for (const plot of charts.all()) observer.observe(plot);
  },

  all() {
    return document.querySelectorAll(".plot");
  },

  draw(plot) {
    if (plot.dataset.drawn || !window.Plotly) return;
    plot.dataset.drawn = "yes";
    const { data, layout } = charts.figures[plot.id.slice("plot-".length)];
    const size = parseFloat(getComputedStyle(document.body).fontSize) - 1;
    const font = { ...layout.font, size };
    const height = layout.height * Math.max(1, size / layout.font.size);
    Plotly.newPlot(plot, data, { ...layout, font, height, dragmode: false }, plotOptions);
  },

  // Paper is narrower than most windows, and a chart does not shrink by itself.
  toPaper() {
    for (const plot of charts.all()) {
      charts.draw(plot);
      if (plot.dataset.drawn) Plotly.relayout(plot, { width: PRINT_WIDTH_PX, autosize: false });
    }
  },

  toWindow() {
    for (const plot of charts.all()) {
      if (plot.dataset.drawn) Plotly.relayout(plot, { width: null, autosize: true });
    }
  },
};

const tables = {
  value(cell) {
    return cell.dataset.value ?? cell.textContent;
  },

  // Numbers by size and before texts; cells without a value last.
  compare(a, b) {
    if (a === "" || b === "") return (a === "") - (b === "");
    const [x, y] = [Number(a.replaceAll(",", "")), Number(b.replaceAll(",", ""))];
    if (Number.isNaN(x) || Number.isNaN(y)) {
      return Number.isNaN(x) - Number.isNaN(y) || a.localeCompare(b);
    }
    return x - y;
  },

  sort(head) {
    const table = head.closest("table");
    const column = [...head.parentNode.children].indexOf(head);
    const isFigure = head.classList.contains("figure");
    const current = head.getAttribute("aria-sort");
    const next = current === "descending" || (!current && !isFigure) ? "ascending" : "descending";
    for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", next);
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => [tables.value(row.cells[column]), row]);
    const sign = next === "ascending" ? 1 : -1;
    rows.sort(([a], [b]) => (a === "" || b === "" ? 1 : sign) * tables.compare(a, b));
    body.append(...rows.map(([, row]) => row));
  },

  filter(input) {
    const table = document.getElementById(input.dataset.filters);
    const wanted = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of table.tBodies[0].rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !wanted.every((word) => text.includes(word));
      shown += !row.hidden;
    }
    tables.tell(table, `${shown} of ${table.tBodies[0].rows.length} rows`);
  },

  tell(table, text) {
    document.getElementById(`${table.id}-status`).textContent = text;
  },

  // A spreadsheet runs a text that begins like a formula, and names are other people's text.
  csvField(text) {
    const isFormula = /^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text));
    const harmless = isFormula ? `'${text}` : text;
    return /[",\r\n]/.test(harmless) ? `"${harmless.replaceAll('"', '""')}"` : harmless;
  },

  csv(table) {
    const heads = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
    const rows = [...table.tBodies[0].rows].filter((row) => !row.hidden);
    const lines = [heads, ...rows.map((row) => [...row.cells].map(tables.value))];
    return lines.map((line) => line.map(tables.csvField).join(",") + "\n").join("");
  },

  async copy(button) {
    const table = document.getElementById(button.dataset.copies);
    const text = tables.csv(table);
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    tables.tell(table, `${text.split("\n").length - 2} rows copied`);
  },
};

for (const head of document.querySelectorAll("table.sortable th")) {
  head.querySelector("button")?.addEventListener("click", () => tables.sort(head));
}
for (const input of document.querySelectorAll("[data-filters]")) {
  input.addEventListener("input", () => tables.filter(input));
}
for (const button of document.querySelectorAll("[data-copies]")) {
  button.addEventListener("click", () => tables.copy(button));
}
addEventListener("beforeprint", charts.toPaper);
addEventListener("afterprint", charts.toWindow);

// The text of the page is on screen before the charts' program is read.
if (document.getElementById("figures")) {
  requestAnimationFrame(() => setTimeout(charts.load));
}
