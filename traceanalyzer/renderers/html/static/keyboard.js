"use strict";
// The keyboard reaches everything that the pointer does. W, A, S, D move as long as they are held.

const SPEED = { zoom: 2.4, pan: 0.9 }; // a second: powers of e, and shares of the view

class Keyboard {
  constructor(timeline, cycles, pointer, searchField) {
    Object.assign(this, { timeline, cycles, pointer, searchField });
    this.held = new Set();
    this.actions = this.actionsByKey();
    document.addEventListener("keydown", (event) => this.press(event));
    document.addEventListener("keyup", (event) => this.held.delete(event.key.toLowerCase()));
    window.addEventListener("blur", () => this.held.clear());
    searchField.addEventListener("keydown", (event) => this.pressInSearch(event));
  }

  actionsByKey() {
    const { timeline, cycles } = this;
    const page = () => (timeline.height - AXIS) * 0.8;
    return {
      "/": () => this.searchField.focus(),
      n: (event) => this.nextHit(event.shiftKey ? -1 : 1),
      f: () => this.fit(),
      r: () => this.markRegion(),
      m: (event) => (event.shiftKey ? timeline.setMarks([]) : timeline.addMark(this.time)),
      p: () => this.onLane((layout, lane) => layout.togglePin(lane)),
      c: () => this.onLane((layout, lane) => layout.toggleGroup(lane.group)),
      t: () => theme.toggle(),
      "{": () => cycles.jump(-1),
      "}": () => cycles.jump(1),
      0: () => this.all(),
      home: () => this.all(),
      backspace: () => timeline.back(),
      pageup: () => timeline.scrollBy(-page()),
      pagedown: () => timeline.scrollBy(page()),
      arrowleft: () => this.step(-1),
      arrowright: () => this.step(1),
      arrowup: () => this.changeLane(-1),
      arrowdown: () => this.changeLane(1),
      enter: () => this.follow(),
      escape: () => this.clear(),
      "?": () => document.getElementById("help").toggleAttribute("open"),
    };
  }

  press(event) {
    const tag = event.target.tagName;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (["INPUT", "SELECT", "TEXTAREA"].includes(tag)) return;
    const key = event.key.toLowerCase();
    if (key === "enter" && event.target !== this.timeline.canvas) return; // a button's own key
    if ("wasd".includes(key) && key.length === 1) this.hold(key);
    else if (Object.hasOwn(this.actions, key)) this.actions[key](event);
    else return;
    event.preventDefault();
  }

  pressInSearch(event) {
    if (event.key === "Enter") this.nextHit(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape") {
      this.searchField.value = "";
      this.timeline.find("");
      this.timeline.canvas.focus();
    } else return;
    event.preventDefault();
  }

  hold(key) {
    if (this.held.has(key)) return;
    if (!this.held.size) {
      this.timeline.remember(true);
      this.last = performance.now();
      requestAnimationFrame((now) => this.tick(now));
    }
    this.held.add(key);
    this.move(1 / 30); // a short press moves too
  }

  tick(now) {
    if (!this.held.size) return;
    this.move(Math.min(0.05, Math.max(0, now - this.last) / 1000));
    this.last = now;
    requestAnimationFrame((next) => this.tick(next));
  }

  move(seconds) {
    const { timeline, held } = this;
    const zoom = (held.has("s") ? 1 : 0) - (held.has("w") ? 1 : 0);
    const pan = (held.has("d") ? 1 : 0) - (held.has("a") ? 1 : 0);
    if (zoom) timeline.zoomAt(this.x, Math.exp(zoom * SPEED.zoom * seconds));
    if (pan) timeline.pan(pan * SPEED.pan * seconds);
  }

  // Where the keys act: at the pointer, without one in the middle.
  get x() {
    return this.pointer.x ?? (GUTTER + this.timeline.width) / 2;
  }

  get time() {
    const { selected } = this.timeline;
    return selected ? selected.lane.start[selected.row] : this.timeline.timeAt(this.x);
  }

  nextHit(direction) {
    const { timeline } = this;
    if (!timeline.search.active) return;
    const { selected } = timeline;
    const time = selected ? selected.lane.start[selected.row] : timeline.view.from - direction;
    const found = timeline.search.next(direction, time, selected ? selected.lane.index : -1);
    if (found) timeline.reveal(found.lane, found.row);
  }

  fit() {
    const { selected, region } = this.timeline;
    if (selected) {
      const { lane, row } = selected;
      this.timeline.fit(lane.start[row], lane.end[row], 0.15);
    } else if (region) this.timeline.fit(region.from, region.to);
  }

  markRegion() {
    const { selected, view } = this.timeline;
    const [from, to] = selected
      ? [selected.lane.start[selected.row], selected.lane.end[selected.row]] : [view.from, view.to];
    this.timeline.setRegion(Math.round(from), Math.round(to));
  }

  onLane(change) {
    const { selected } = this.timeline;
    const row = this.timeline.rowAt(this.pointer.y);
    const lane = selected ? selected.lane : row && row.lane;
    if (lane) this.timeline.arrange((layout) => change(layout, lane));
  }

  all() {
    this.timeline.remember();
    this.timeline.showAll();
  }

  step(direction) {
    const { selected } = this.timeline;
    if (!selected) {
      this.changeLane(1);
      return;
    }
    const row = selected.row + direction;
    if (row >= 0 && row < selected.lane.size) this.timeline.reveal(selected.lane, row);
  }

  // To the nearest span of the lane above or below, in the middle of the view at first.
  changeLane(direction) {
    const { timeline } = this;
    const { selected, view } = timeline;
    const lane = timeline.layout.neighbour(selected && selected.lane, direction);
    if (!lane) return;
    const time = selected ? selected.lane.start[selected.row] : (view.from + view.to) / 2;
    timeline.reveal(lane, Math.min(lane.size - 1, lane.firstEnding(time)));
  }

  follow() {
    const { selected } = this.timeline;
    if (selected && selected.flows.length) {
      const [linked] = selected.flows;
      this.timeline.reveal(linked.lane, linked.first);
    }
  }

  clear() {
    this.timeline.select(null);
    this.timeline.setRegion(null);
  }
}
