"use strict";
// Spans as pixels. A column of pixels is filled to the exact share of its time that is busy, and
// stacked by phase: what takes 11 % of a microsecond never looks like a busy microsecond.

const LEAST_HEIGHT = 2; // device pixels: nothing that runs disappears
const SEPARATED = 5; // from this width on a span's first column is darker, to tell it from the last

// A frame buffer: one Uint32 a device pixel, the same on every machine and quick without a GPU.
class Frame {
  constructor(width, height) {
    this.width = width;
    this.height = height;
    this.image = new ImageData(width, height);
    this.pixels = new Uint32Array(this.image.data.buffer);
  }

  fill(colour) {
    this.pixels.fill(colour);
  }

  rectangle(x0, x1, y0, y1, colour) {
    for (let y = Math.max(0, y0); y < Math.min(this.height, y1); y++) {
      this.pixels.fill(colour, y * this.width + x0, y * this.width + x1);
    }
  }

  column(x, y0, y1, colour) {
    for (let y = Math.max(0, y0); y < Math.min(this.height, y1); y++) {
      this.pixels[y * this.width + x] = colour;
    }
  }

  // Diagonal lines: "not in this file", which must not look like idle time.
  hatch(x0, x1, y0, y1, colour) {
    for (let y = Math.max(0, y0); y < Math.min(this.height, y1); y++) {
      const first = x0 + ((y + 8 - (x0 % 8)) % 8);
      for (let x = first; x < x1; x += 8) this.pixels[y * this.width + x] = colour;
    }
  }
}

// Draws one lane.
//   frame: where; box: {top, bottom} in device pixels, columns from box.left (0) to box.right.
//   lane: what; view: {from, perPixel}, the time of column 0 and of one column's width.
//   paint: {colour, dark, mixed}, each of (phase, row): a span, its first column where it is wide,
//     and a column that several share. onWide(row, x0, x1) is told of spans with room for a name.
function drawLane(frame, box, lane, view, paint, onWide) {
  const columns = box.right;
  const sums = new Float64Array(256);
  const timeOf = (column) => view.from + column * view.perPixel;
  let row = lane.firstEnding(view.from);
  let column = 0;
  while (row < lane.size && column < columns) {
    const x0 = (lane.start[row] - view.from) / view.perPixel;
    const x1 = (lane.end[row] - view.from) / view.perPixel;
    if (x0 >= column + 1) column = Math.floor(x0);
    if (column >= columns) break;
    if (x0 <= column && x1 >= column + 1) {
      const until = Math.min(columns, Math.floor(x1));
      drawSolid(frame, box, column, until, row, lane, paint);
      if (until - Math.max(0, column) >= 24) onWide(row, column, until);
      column = until;
      if (lane.end[row] <= timeOf(column)) row += 1;
    } else {
      row = drawMixed(frame, box, column, lane, row, timeOf(column), timeOf(column + 1), sums, paint);
      column += 1;
    }
  }
}

function drawSolid(frame, box, x0, x1, row, lane, paint) {
  const phase = lane.phase[row];
  frame.rectangle(x0, x1, box.top, box.bottom, paint.colour(phase, row));
  if (x1 - x0 >= SEPARATED) frame.column(x0, box.top, box.bottom, paint.dark(phase, row));
}

// One column that several spans, or a part of one, share. Returns the first row after it.
function drawMixed(frame, box, x, lane, row, from, to, sums, paint) {
  const after = lane.firstStarting(to, row);
  for (const phase of lane.phases) sums[phase] = 0;
  lane.addBusy(from, to, row, after, sums);
  if (after > row) drawStack(frame, box, x, lane, row, sums, to - from, paint);
  const last = after - 1;
  return last >= row && lane.end[last] > to ? last : Math.max(after, row);
}

function drawStack(frame, box, x, lane, row, sums, length, paint) {
  let total = 0;
  for (const phase of lane.phases) total += sums[phase];
  const full = box.bottom - box.top;
  if (total <= 0) { // spans of 0 ns
    frame.column(x, box.bottom - LEAST_HEIGHT, box.bottom, paint.mixed(lane.phase[row], row));
    return;
  }
  const height = Math.min(full, Math.max(LEAST_HEIGHT, Math.round((full * total) / length)));
  let reached = 0;
  let bottom = box.bottom;
  for (const phase of lane.phases) {
    if (sums[phase] <= 0) continue;
    reached += sums[phase];
    const top = box.bottom - Math.round((height * reached) / total);
    frame.column(x, top, bottom, paint.mixed(phase, row));
    bottom = top;
  }
}
