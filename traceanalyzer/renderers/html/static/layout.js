"use strict";
// Which rows are seen, from top to bottom: pinned lanes, then each rank's head and its lanes.

const ROW_HEIGHT = { cycles: 16, phases: 20, stream: 26, collectives: 16,
  "graph launches": 14, ranges: 15, calls: 12 };
const HEAD_HEIGHT = 19;
const ROW_GAP = 2;
const MOST_OPEN = 4; // with more ranks than this only the first one starts open

class Layout {
  constructor(store) {
    this.store = store;
    this.pinned = new Set();
    const many = store.groups.length > MOST_OPEN;
    this.collapsed = new Set(many ? store.groups.keys() : []);
    this.collapsed.delete(0);
    this.arrange();
  }

  arrange() {
    this.rows = [];
    this.height = 0;
    for (const index of this.pinned) this.addLane(this.store.lanes[index], true);
    this.store.groups.forEach((title, group) => {
      const own = this.store.lanes.filter((lane) => lane.group === group);
      this.add({ kind: "head", group, title, height: HEAD_HEIGHT });
      own.filter((lane) => this.isOpen(lane)).forEach((lane) => this.addLane(lane, false));
    });
    this.rowOfLane = new Map();
    for (const row of this.rows) if (row.lane) this.rowOfLane.set(row.lane.index, row);
  }

  // A collapsed rank keeps the one line that says most.
  isOpen(lane) {
    if (this.pinned.has(lane.index)) return false;
    return !this.collapsed.has(lane.group) || lane.kind === "phases";
  }

  addLane(lane, pinned) {
    this.add({ kind: "lane", group: lane.group, lane, pinned, height: ROW_HEIGHT[lane.kind] });
  }

  add(row) {
    row.top = this.height;
    this.rows.push(row);
    this.height += row.height + ROW_GAP;
  }

  // The row at a distance from the top of them all.
  at(y) {
    return this.rows.find((row) => y >= row.top && y < row.top + row.height + ROW_GAP) || null;
  }

  togglePin(lane) {
    if (!this.pinned.delete(lane.index)) this.pinned.add(lane.index);
    this.arrange();
  }

  toggleGroup(group) {
    if (!this.collapsed.delete(group)) this.collapsed.add(group);
    this.arrange();
  }

  // The nearest lane above (-1) or below (1) another; without one, the first.
  neighbour(lane, step) {
    const lanes = this.rows.filter((row) => row.lane).map((row) => row.lane);
    const place = lanes.indexOf(lane);
    return lanes[place < 0 ? 0 : Math.max(0, Math.min(lanes.length - 1, place + step))];
  }
}
