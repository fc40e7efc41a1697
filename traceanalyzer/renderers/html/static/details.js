"use strict";
// The texts beside the lanes: the span under the pointer, the chosen span, a region's totals.

const KERNELS_LISTED = 40;

// Lines about what lies under the pointer.
function hoverLines(store, picked) {
  const { lane, row, count } = picked;
  if (count > 2) {
    const busy = lane.busy(picked.from, picked.to);
    const length = picked.to - picked.from;
    const shares = lane.phases.filter((phase) => busy[phase] > 0)
      .map((phase) => `${store.phaseText(phase)} ${formatShare(busy[phase] / length)}`);
    return [`${formatCount(count)} spans in this pixel of ${formatTime(length)}`, shares.join(", "),
      `first: ${store.names[lane.name[row]]}`];
  }
  return [store.names[lane.name[row]],
    `${formatTime(lane.end[row] - lane.start[row])} from ${formatTime(lane.start[row])}`,
    placeText(store, lane, row)];
}

// Phase, class, cycle and lane of a span.
function placeText(store, lane, row) {
  const parts = [];
  if (lane.kind !== "phases" && lane.phase[row]) parts.push(store.phaseText(lane.phase[row]));
  const kernelClass = store.classOfName[lane.name[row]];
  if (kernelClass >= 0) parts.push(store.classes[kernelClass]);
  if (lane.cycle[row] >= 0) parts.push(`cycle ${cycleText(store, lane.cycle[row])}`);
  parts.push(`${shortGroup(store, lane.group)}, ${lane.title}`);
  return parts.join(" · ");
}

// A rank without its GPU's name.
function shortGroup(store, group) {
  return store.groups[group].split(" · ")[0];
}

function flowText(lane, row, linked) {
  const lag = `launch to start ${formatTime(launchLag(lane, row, linked))}`;
  if (!CALLERS.includes(lane.kind)) return `launched in ${linked.lane.title}, ${lag}`;
  const ops = `${formatCount(linked.count)} op${linked.count === 1 ? "" : "s"}`;
  return `launched ${ops} on ${linked.lane.title}, ${lag}`;
}

class Details {
  constructor(timeline, holders) {
    this.timeline = timeline;
    this.store = timeline.store;
    Object.assign(this, holders);
    timeline.events.addEventListener("select", () => this.showSelected());
    timeline.events.addEventListener("region", () => this.showRegion());
    timeline.events.addEventListener("marks", () => this.showMarks());
  }

  showSelected() {
    const { selected } = this.timeline;
    if (!selected) {
      this.span.replaceChildren();
      return;
    }
    const { lane, row, flows } = selected;
    const facts = [
      ["duration", `${formatTime(lane.end[row] - lane.start[row])}`
        + ` (${formatCount(lane.end[row] - lane.start[row])} ns)`],
      ["start", `${formatTime(lane.start[row])} (${formatCount(lane.start[row])} ns)`],
      ...this.moreFacts(lane, row),
      ["lane", `${this.store.groups[lane.group]}, ${lane.title}`],
    ];
    this.span.replaceChildren(
      make("h2", {}, "Span"),
      make("p", { className: "name" }, make("bdi", {}, this.store.names[lane.name[row]])),
      make("dl", {}, ...facts.flatMap(([term, text]) =>
        [make("dt", {}, term), make("dd", {}, text)])),
      ...flows.map((linked) => this.flowButton(lane, row, linked)),
    );
  }

  moreFacts(lane, row) {
    const facts = lane.kind === "cycles" ? [] : [["phase", this.store.phaseText(lane.phase[row])]];
    const kernelClass = this.store.classOfName[lane.name[row]];
    if (kernelClass >= 0) facts.push(["class", this.store.classes[kernelClass]]);
    if (lane.cycle[row] >= 0) {
      const fact = cycleFact(this.store, lane.cycle[row]);
      const number = fact.number >= 0 ? `, the engine's ${fact.number}` : "";
      facts.push(["cycle", cycleText(this.store, lane.cycle[row]) + number]);
    }
    if (lane.correlation[row] >= 0) facts.push(["correlation", String(lane.correlation[row])]);
    return facts;
  }

  flowButton(lane, row, linked) {
    const open = () => this.timeline.reveal(linked.lane, linked.first);
    return make("button", { type: "button", className: "flow", onclick: open },
      flowText(lane, row, linked));
  }

  showMarks() {
    const { marks } = this.timeline;
    const entries = marks.map((time, i) => {
      const since = i ? `, ${formatTime(time - marks[i - 1])} after ${i}` : "";
      const half = () => this.timeline.span / 2;
      const open = () => this.timeline.show(time - half(), time + half());
      return make("li", {}, make("button", { type: "button", onclick: open },
        `${formatTime(time)}${since}`));
    });
    this.marks.replaceChildren(...(entries.length
      ? [make("h2", {}, "Marks"), make("ol", {}, ...entries)] : []));
  }

  showRegion() {
    const { region } = this.timeline;
    if (!region) {
      this.totals.replaceChildren();
      return;
    }
    const totals = regionTotals(this.store, region.from, region.to);
    this.totals.replaceChildren(
      make("h2", {}, `Region of ${formatTime(region.to - region.from)}`),
      muted(`from ${formatTime(region.from)}; exact, ops cut at its ends`),
      ...(totals.groups.length ? this.tables(totals) : [make("p", {}, "No GPU work was recorded.")]),
    );
  }

  tables(totals) {
    const length = totals.to - totals.from;
    const share = (ns, of) => formatShare(of ? ns / of : 0);
    const all = length * totals.groups.length;
    const many = totals.groups.length > 1 ? `, ${totals.groups.length} ranks together` : "";
    const shown = totals.kernels.slice(0, KERNELS_LISTED);
    const more = totals.kernels.length - shown.length;
    return [
      this.hiddenNote(totals),
      makeTable("GPU by rank", ["rank", "busy", "share", "idle"], totals.groups.map((each) =>
        [shortGroup(this.store, each.group), formatTime(each.busy), share(each.busy, length),
          formatTime(length - each.busy)]),
      [1, 2, 3]),
      makeTable(`busy by phase${many}`, ["phase", "busy", "share", "ops"], totals.phases.map((row) =>
        [this.store.phaseText(row.key), formatTime(row.ns), share(row.ns, all),
          formatCount(row.count)]),
      [1, 2, 3]),
      makeTable(`busy by class${many}`, ["class", "busy", "share", "ops"], totals.classes.map((row) =>
        [row.key === OVERLAP ? "overlap across streams" : this.store.classes[row.key],
          formatTime(row.ns), share(row.ns, all), formatCount(row.count)]), [1, 2, 3]),
      makeTable(`busy by kernel${many}`, ["kernel", "busy", "ops"], shown.map((row) =>
        [this.kernelCell(row.key), formatTime(row.ns), formatCount(row.count)]), [1, 2]),
      more > 0 ? muted(`and ${formatCount(more)} more kernels`) : "",
    ];
  }

  kernelCell(name) {
    if (name === OVERLAP) return "overlap across streams";
    return make("bdi", { title: this.store.names[name] }, this.store.shorts[name]);
  }

  // Totals over parts that the file does not hold would be too small, and are never shown bare.
  hiddenNote({ from, to }) {
    const { shown } = this.store;
    if (!shown) return "";
    const part = ([a, b]) => Math.max(0, Math.min(b, to) - Math.max(a, from));
    const held = shown.reduce((sum, window) => sum + part(window), 0);
    if (held >= to - from) return "";
    const share = formatShare(held / (to - from));
    return make("p", { className: "warning" },
      `Only ${share} of this region is in this file; totals are of that part.`);
  }
}
