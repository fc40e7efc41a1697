"use strict";
// The cycle strip: cycles one below the other, all beginning at the left edge, on one time scale.
// What differs from cycle to cycle stands out: a late phase, a long gap, a slow or rejected cycle.

const STRIP = { left: 128, right: 150, top: 22 };
const DENSITIES = { rows: 16, compact: 4 };
const SLOW = 1.15; // times the usual period of its bucket
const CLOSEST = 1000; // ns that the scale can be narrowed to
const NEARBY = 1.25; // the scale ends at so much of the 95th percentile; longer cycles are cut

class CycleStrip {
  constructor(timeline, cycles, holders) {
    this.timeline = timeline;
    this.cycles = cycles;
    this.store = timeline.store;
    Object.assign(this, holders); // scroller, spacer, canvas, rank, order, only, density, summary
    this.context = this.canvas.getContext("2d", { alpha: false });
    this.current = 0;
    this.fillRanks();
    for (const control of [this.rank, this.order, this.only, this.density]) {
      control.addEventListener("change", () => this.arrange());
    }
    this.scroller.addEventListener("scroll", () => this.redraw());
    this.canvas.addEventListener("click", (event) => this.click(event));
    this.canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.canvas.addEventListener("dblclick", () => this.zoom(0, Infinity));
    this.canvas.addEventListener("pointermove", (event) => this.hover(event));
    this.canvas.addEventListener("keydown", (event) => this.press(event));
    timeline.events.addEventListener("view", () => this.redraw());
    timeline.events.addEventListener("cycle", () => this.follow(cycles.opened));
    this.arrange();
  }

  // A cycle that was opened from elsewhere is brought into sight.
  follow(fact) {
    const place = this.facts.indexOf(fact);
    if (place >= 0) this.moveTo(place);
  }

  fillRanks() {
    const groups = [...new Set(this.cycles.facts.map((fact) => fact.group))];
    this.rank.replaceChildren(...groups.map((group) =>
      make("option", { value: String(group) }, this.store.groups[group])));
  }

  // ---- Which cycles, in which order ----

  arrange() {
    const own = this.cycles.ofGroup(Number(this.rank.value));
    this.facts = own.filter((fact) => this.isShown(fact));
    if (this.order.value === "slowest") this.facts.sort((a, b) => b.period - a.period);
    this.rowHeight = DENSITIES[this.density.value];
    this.widest = this.scaleOf(own);
    this.range = { from: 0, to: this.widest };
    [this.lane] = this.store.lanesOf(Number(this.rank.value), "phases");
    this.spacer.style.height = `${STRIP.top + this.facts.length * this.rowHeight}px`;
    this.current = Math.min(this.current, Math.max(0, this.facts.length - 1));
    this.summarise(own);
    this.resize();
  }

  isShown(fact) {
    switch (this.only.value) {
      case "slow": return this.isSlow(fact);
      case "rejected": return fact.rejected;
      case "kept": return fact.kept;
      default: return true;
    }
  }

  isSlow(fact) {
    return fact.kept && fact.period >= SLOW * fact.usual;
  }

  scaleOf(facts) {
    const kept = facts.filter((fact) => fact.kept);
    const periods = (kept.length ? kept : facts).map((fact) => fact.period).sort((a, b) => a - b);
    if (!periods.length) return 1;
    const high = periods[Math.floor((periods.length - 1) * 0.95)];
    return Math.min(periods[periods.length - 1] * 1.02, high * NEARBY);
  }

  summarise(own) {
    const slow = own.filter((fact) => this.isSlow(fact)).length;
    const rejected = own.filter((fact) => fact.rejected).length;
    const told = own.some((fact) => fact.drafted >= 0);
    const shown = formatCount(this.facts.length);
    this.summary.textContent = `${shown} of ${formatCount(own.length)} cycles · `
      + `${formatCount(slow)} slow (${SLOW} × the usual of their shape or more)`
      + (told ? ` · ${formatCount(rejected)} with every draft rejected` : "")
      + (this.rowHeight < 12 ? " · red: slow or rejected, grey: not averaged" : "");
  }

  // ---- Drawing ----

  resize() {
    const { ratio } = this.timeline;
    this.width = Math.max(400, this.scroller.clientWidth);
    this.height = this.scroller.clientHeight;
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.canvas.style.width = `${this.width}px`;
    this.canvas.style.height = `${this.height}px`;
    this.plotWidth = this.width - STRIP.left - STRIP.right;
    this.frame = new Frame(Math.round(this.plotWidth * ratio),
      Math.max(1, Math.round((this.height - STRIP.top) * ratio)));
    this.redraw();
  }

  redraw() {
    if (this.pending || !this.frame) return;
    this.pending = requestAnimationFrame(() => {
      this.pending = 0;
      this.draw();
    });
  }

  get visible() {
    const first = Math.floor(this.scroller.scrollTop / this.rowHeight);
    const count = Math.ceil((this.height - STRIP.top) / this.rowHeight) + 1;
    return this.facts.slice(first, first + count).map((fact, i) => ({
      fact, place: first + i, y: STRIP.top + (first + i) * this.rowHeight - this.scroller.scrollTop,
    }));
  }

  draw() {
    const { context, timeline } = this;
    const { ratio, palette } = timeline;
    const rows = this.visible;
    this.frame.fill(palette.pixel.ground);
    for (const row of rows) this.drawBar(row);
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = palette.css.ground;
    context.fillRect(0, 0, this.canvas.width, this.canvas.height);
    const corner = [STRIP.left, STRIP.top].map((pixels) => Math.round(pixels * ratio));
    context.putImageData(this.frame.image, ...corner);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    for (const row of rows) this.drawTexts(row);
    this.drawScale();
  }

  drawBar({ fact, y }) {
    if (!this.lane) return;
    const { ratio, palette } = this.timeline;
    const top = Math.round((y - STRIP.top) * ratio);
    const space = this.rowHeight > 6 ? 2 : 0;
    const bottom = top + Math.max(1, Math.round((this.rowHeight - space) * ratio));
    const perPixel = this.perPixel;
    const right = Math.min(this.frame.width, Math.floor((fact.period - this.range.from) / perPixel));
    if (right <= 0) return;
    this.frame.rectangle(0, right, top, bottom, palette.pixel.row);
    const paint = this.paint;
    const view = { from: fact.start + this.range.from, perPixel };
    drawLane(this.frame, { top, bottom, right }, this.lane, view, paint, () => {});
    if (!fact.kept) this.frame.hatch(0, right, top, bottom, palette.pixel.ground);
  }

  get perPixel() {
    return (this.range.to - this.range.from) / this.frame.width;
  }

  get paint() {
    const { plain } = this.timeline.palette.sets.gpu;
    const colour = (phase) => plain[phase];
    return { colour, dark: colour, mixed: colour };
  }

  drawTexts({ fact, place, y }) {
    const { context } = this;
    const { css } = this.timeline.palette;
    const middle = y + this.rowHeight / 2;
    const { view } = this.timeline;
    const center = (view.from + view.to) / 2;
    const inView = fact.start <= center && center < fact.end
      && view.to - view.from < 3 * fact.period;
    if (inView || (place === this.current && document.activeElement === this.canvas)) {
      context.strokeStyle = css.accent;
      context.lineWidth = 2;
      context.strokeRect(1, y, this.width - 2, this.rowHeight - 1);
      context.lineWidth = 1;
    }
    this.drawFlags(fact, middle);
    if (this.rowHeight < 12) return;
    context.fillStyle = css.ink;
    context.textAlign = "right";
    context.fillText(`#${fact.ordinal}`, 52, middle);
    context.textAlign = "left";
    const cutOff = fact.period > this.range.to ? " ▸" : "";
    context.fillText(`${formatTime(fact.period)}${cutOff}`, this.width - STRIP.right + 8, middle);
    context.fillStyle = css.muted;
    const accepted = `${fact.accepted} of ${fact.drafted}`;
    if (fact.drafted >= 0) context.fillText(accepted, this.width - 72, middle);
  }

  // Words beside the colours: slow, rejected, or why a cycle is not averaged.
  drawFlags(fact, middle) {
    const { context } = this;
    const { css } = this.timeline.palette;
    const words = [];
    if (!fact.kept) words.push(stateText(this.store, fact.state));
    if (this.isSlow(fact)) words.push("slow");
    if (fact.rejected) words.push("rejected");
    if (!words.length) return;
    context.fillStyle = fact.kept ? css.mark : css.muted;
    if (this.rowHeight >= 12) context.fillText(cut(words.join(", "), STRIP.left - 56), 58, middle);
    else context.fillRect(STRIP.left - 10, middle - this.rowHeight / 2, 6, this.rowHeight - 1);
  }

  drawScale() {
    const { context, width } = this;
    const { css } = this.timeline.palette;
    context.fillStyle = css.ground;
    context.fillRect(0, 0, width, STRIP.top);
    context.fillStyle = css.muted;
    context.strokeStyle = css.line;
    const { from, to } = this.range;
    const step = axisStep(to - from, this.plotWidth / 110);
    for (let i = Math.ceil(from / step); i * step <= to; i++) {
      const x = STRIP.left + ((i * step - from) / (to - from)) * this.plotWidth;
      strokeLine(context, x, 12, x, STRIP.top);
      context.fillText(i ? formatInstant(i * step, step) : "0", x + 3, 11);
    }
    if (this.rowHeight < 12) return;
    context.fillText("cycle", 24, 11);
    context.fillText("period", width - STRIP.right + 8, 11);
    context.fillText("accepted", width - 72, 11);
  }

  // ---- The time scale: what lies late in every cycle can be looked at closely ----

  wheel(event) {
    const sideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (!event.ctrlKey && !sideways) return; // scrolls the rows
    event.preventDefault();
    const { from, to } = this.range;
    if (!event.ctrlKey) {
      const shift = ((event.deltaX || event.deltaY) / this.plotWidth) * (to - from);
      this.zoom(from + shift, to + shift);
      return;
    }
    const time = from + ((event.offsetX - STRIP.left) / this.plotWidth) * (to - from);
    const factor = Math.exp(event.deltaY * 0.0022);
    this.zoom(time - (time - from) * factor, time + (to - time) * factor);
  }

  // Shows from one time after the cycles' start to another, as far as there is anything.
  zoom(from, to) {
    const width = Math.min(this.widest, Math.max(CLOSEST, to - from));
    const start = Math.max(0, Math.min(this.widest - width, from));
    this.range = { from: start, to: start + width };
    this.redraw();
  }

  // ---- Reaching a cycle ----

  factAt(event) {
    const row = Math.floor((event.offsetY - STRIP.top + this.scroller.scrollTop) / this.rowHeight);
    return event.offsetY < STRIP.top ? undefined : this.facts[row];
  }

  click(event) {
    const fact = this.factAt(event);
    if (!fact) return;
    this.cycles.open(fact);
  }

  hover(event) {
    const fact = this.factAt(event);
    this.canvas.title = fact ? `cycle ${cycleText(this.store, fact.cycle)}` : "";
  }

  press(event) {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20 }[event.key];
    const { from, to } = this.range;
    const tenth = (to - from) / 10;
    if (step) this.moveTo(this.current + step);
    else if (event.key === "+") this.zoom(from + tenth, to - tenth);
    else if (event.key === "-") this.zoom(from - tenth, to + tenth);
    else if (event.key === "ArrowLeft") this.zoom(from - tenth, to - tenth);
    else if (event.key === "ArrowRight") this.zoom(from + tenth, to + tenth);
    else if (event.key === "Enter") this.openCurrent();
    else return;
    event.preventDefault();
    event.stopPropagation(); // the lanes have other uses for these keys
  }

  openCurrent() {
    const fact = this.facts[this.current];
    if (fact) this.cycles.open(fact);
  }

  moveTo(place) {
    this.current = Math.max(0, Math.min(this.facts.length - 1, place));
    const y = this.current * this.rowHeight;
    const room = this.height - STRIP.top - this.rowHeight;
    const { scrollTop } = this.scroller;
    if (y < scrollTop) this.scroller.scrollTop = y;
    else if (y > scrollTop + room) this.scroller.scrollTop = y - room;
    const fact = this.facts[this.current];
    if (fact) {
      const text = `Cycle strip: cycle ${cycleText(this.store, fact.cycle)}`;
      this.canvas.setAttribute("aria-label", text);
    }
    this.redraw();
  }
}
