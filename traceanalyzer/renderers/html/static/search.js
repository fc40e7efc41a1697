"use strict";
// Search by name: which names hold the text, and which spans of every lane carry one of them.

class Search {
  constructor(store) {
    this.store = store;
    this.lowered = null;
    this.clear();
  }

  get active() {
    return this.matches !== null;
  }

  clear() {
    this.matches = null;
    this.hits = null;
    this.count = 0;
    this.text = "";
  }

  run(text) {
    this.clear();
    const wanted = text.trim().toLowerCase();
    if (!wanted) return;
    this.lowered ||= this.store.names.map((name) => name.toLowerCase());
    this.text = text.trim();
    this.matches = Uint8Array.from(this.lowered, (name) => (name.includes(wanted) ? 1 : 0));
    this.hits = this.store.lanes.map((lane) => this.rowsOf(lane));
    this.count = this.hits.reduce((sum, rows) => sum + rows.length, 0);
  }

  rowsOf(lane) {
    const { matches } = this;
    let count = 0;
    for (let i = 0; i < lane.size; i++) count += matches[lane.name[i]];
    const rows = new Uint32Array(count);
    for (let i = 0, place = 0; place < count; i++) if (matches[lane.name[i]]) rows[place++] = i;
    return rows;
  }

  // The hit nearest after (direction 1) or before (-1) a span, in order of start and lane.
  next(direction, time, laneIndex) {
    let best = null;
    this.hits.forEach((rows, index) => {
      const lane = this.store.lanes[index];
      const place = nextPlace(rows, lane, direction, time, direction * (index - laneIndex) > 0);
      if (place < 0 || place >= rows.length) return;
      const start = lane.start[rows[place]];
      const nearer = best && (direction > 0 ? start < best.start : start >= best.start);
      if (!best || nearer) best = { lane, row: rows[place], start };
    });
    return best;
  }

  // Pixel columns of a lane's hits in view, each once with its first hit.
  columns(lane, view, columns) {
    const rows = this.hits[lane.index];
    const found = [];
    let place = lowerBound(rows, (row) => lane.end[row] > view.from);
    while (place < rows.length) {
      const column = Math.floor((lane.start[rows[place]] - view.from) / view.perPixel);
      if (column >= columns) break;
      found.push([Math.max(0, column), rows[place]]);
      const next = view.from + (Math.max(0, column) + 1) * view.perPixel;
      place = lowerBound(rows, (row) => lane.start[row] >= next, place + 1);
    }
    return found;
  }
}

// First place from `low` on whose row fulfils a condition that once true stays true.
function lowerBound(rows, holds, low = 0) {
  let high = rows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(rows[middle])) high = middle;
    else low = middle + 1;
  }
  return low;
}

function nextPlace(rows, lane, direction, time, equalCounts) {
  const from = (inclusive) => lowerBound(rows, (row) =>
    lane.start[row] > time || (inclusive && lane.start[row] === time));
  return direction > 0 ? from(equalCounts) : from(!equalCounts) - 1;
}
