"use strict";
// The lanes: what is in view, what is chosen, and how it is drawn. Times are nanoseconds from the
// timeline's beginning. Whoever shows more listens to `events`: view, select, region, search,
// marks, layout.

const GUTTER = 208; // width of the lanes' titles
const AXIS = 26;
const NARROWEST = 100; // ns
const LETTER = 6.1; // mean width of a letter at 11 pixels
const MOST_RATIO = 2; // a frame costs by the pixel: screens finer than this get 2 x 2 blocks

class Timeline {
  constructor(store, canvas) {
    this.store = store;
    this.canvas = canvas;
    this.context = canvas.getContext("2d", { alpha: false });
    this.layout = new Layout(store);
    this.search = new Search(store);
    this.events = new EventTarget();
    this.view = { from: store.start, to: Math.max(store.end, store.start + NARROWEST) };
    this.selected = null;
    this.region = null;
    this.marks = [];
    this.past = [];
    this.scroll = 0;
    this.setTheme();
    this.resize();
  }

  emit(name) {
    this.events.dispatchEvent(new Event(name));
  }

  setTheme() {
    this.palette = new Palette(this.store, theme.dark);
    this.redraw();
  }

  // ---- Where we look ----

  get span() {
    return this.view.to - this.view.from;
  }

  get plotWidth() {
    return this.width - GUTTER;
  }

  timeAt(x) {
    return this.view.from + ((x - GUTTER) / this.plotWidth) * this.span;
  }

  xOf(time) {
    return GUTTER + ((time - this.view.from) / this.span) * this.plotWidth;
  }

  show(from, to) {
    const widest = (this.store.end - this.store.start) * 1.2 || NARROWEST;
    const width = Math.min(widest, Math.max(NARROWEST, to - from));
    const middle = Math.min(this.store.end, Math.max(this.store.start, (from + to) / 2));
    this.view = { from: middle - width / 2, to: middle + width / 2 };
    this.redraw();
    this.emit("view");
  }

  showAll() {
    this.show(this.store.start, this.store.end);
  }

  zoomAt(x, factor) {
    const time = this.timeAt(x);
    // At the narrowest the view stands still instead of creeping towards the cursor.
    if (factor < 1 && this.span <= NARROWEST) return;
    this.show(time - (time - this.view.from) * factor, time + (this.view.to - time) * factor);
  }

  pan(share) {
    this.show(this.view.from + share * this.span, this.view.to + share * this.span);
  }

  // Keeps the view to come back to, once for a gesture of many steps.
  remember(gesture = false) {
    const now = performance.now();
    if (gesture && now - (this.gestureTime || -Infinity) < 700) {
      this.gestureTime = now;
      return;
    }
    this.gestureTime = gesture ? now : -Infinity;
    this.past.push({ ...this.view });
    if (this.past.length > 200) this.past.shift();
  }

  back() {
    const view = this.past.pop();
    if (view) this.show(view.from, view.to);
  }

  scrollBy(pixels) {
    this.scrollTo(this.scroll + pixels);
  }

  scrollTo(pixels) {
    const most = Math.max(0, this.layout.height - (this.height - AXIS));
    this.scroll = Math.round(Math.min(most, Math.max(0, pixels)));
    this.redraw();
  }

  rowAt(y) {
    return y < AXIS ? null : this.layout.at(y - AXIS + this.scroll);
  }

  yOf(row) {
    return AXIS + row.top - this.scroll;
  }

  // ---- What is chosen ----

  // The spans under a point: the first one, how many, and their pixel column's time.
  pick(x, y) {
    const row = x < GUTTER ? null : this.rowAt(y);
    if (!row || !row.lane) return null;
    const { lane } = row;
    const slack = this.span / this.plotWidth;
    const from = this.timeAt(x) - slack / 2;
    const to = from + slack;
    let first = lane.firstEnding(from);
    // An op of 0 ns ends where it starts.
    while (first > 0 && lane.end[first - 1] >= from) first -= 1;
    const count = lane.firstStarting(to, first) - first;
    return count > 0 ? { lane, row: first, count, from, to } : null;
  }

  select(lane, row) {
    this.selected = lane ? { lane, row, flows: flowsOf(this.store, lane, row) } : null;
    this.redraw();
    this.emit("select");
  }

  // Selects a span and brings it into view: its lane, and its time when it is out of sight.
  reveal(lane, row) {
    if (!this.layout.rowOfLane.has(lane.index)) this.layout.toggleGroup(lane.group);
    const line = this.layout.rowOfLane.get(lane.index);
    const y = this.yOf(line);
    if (y < AXIS || y + line.height > this.height) this.scrollTo(line.top - this.height / 3);
    const middle = (lane.start[row] + lane.end[row]) / 2;
    if (middle < this.view.from || middle > this.view.to) {
      this.remember();
      this.show(middle - this.span / 2, middle + this.span / 2);
    }
    this.select(lane, row);
  }

  fit(from, to, margin = 0.05) {
    this.remember();
    this.show(from - (to - from) * margin, to + (to - from) * margin);
  }

  setRegion(from, to) {
    this.region = from === null ? null : { from: Math.min(from, to), to: Math.max(from, to) };
    this.redraw();
    this.emit("region");
  }

  addMark(time) {
    this.marks.push(Math.round(time));
    this.marks.sort((a, b) => a - b);
    this.redraw();
    this.emit("marks");
  }

  setMarks(times) {
    this.marks = [...times];
    this.redraw();
    this.emit("marks");
  }

  find(text) {
    this.search.run(text);
    this.redraw();
    this.emit("search");
  }

  arrange(change) {
    change(this.layout);
    this.scrollTo(this.scroll);
    this.emit("layout");
  }

  // ---- Drawing ----

  resize() {
    const box = this.canvas.parentElement.getBoundingClientRect();
    this.ratio = Math.min(MOST_RATIO, window.devicePixelRatio || 1);
    this.width = Math.max(GUTTER + 200, Math.floor(box.width));
    this.height = Math.max(160, Math.floor(box.height));
    this.canvas.width = Math.round(this.width * this.ratio);
    this.canvas.height = Math.round(this.height * this.ratio);
    this.canvas.style.width = `${this.width}px`;
    this.canvas.style.height = `${this.height}px`;
    this.frame = new Frame(Math.round(this.plotWidth * this.ratio),
      Math.round((this.height - AXIS) * this.ratio));
    this.redraw();
  }

  redraw() {
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => {
      this.pending = 0;
      this.draw();
    });
  }

  draw() {
    drawLanes(this);
  }
}
