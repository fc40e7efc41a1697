"use strict";
// What lies over the lanes: the axis, the region, marks, the selection and its flows.

function drawAxis(timeline) {
  const { context, palette, view, width } = timeline;
  context.fillStyle = palette.css.ground;
  context.fillRect(0, 0, width, AXIS);
  const step = axisStep(timeline.span, timeline.plotWidth / 110);
  context.strokeStyle = palette.css.line;
  context.fillStyle = palette.css.muted;
  const first = Math.ceil(view.from / step);
  for (let i = first; i * step <= view.to; i++) {
    const x = timeline.xOf(i * step);
    strokeLine(context, x, 12, x, AXIS);
    context.fillText(formatInstant(i * step, step), x + 3, 12);
  }
  context.fillText(`${formatTime(timeline.span)} in view`, 8, 12);
  timeline.marks.forEach((mark, i) => drawMark(timeline, mark, i));
  if (timeline.region) drawRegionLength(timeline);
}

// How much of the lanes is in sight, when not all are.
function drawScrollbar(timeline) {
  const { context, palette, layout, width, height, scroll } = timeline;
  const room = height - AXIS;
  if (layout.height <= room) return;
  context.globalAlpha = 0.4;
  context.fillStyle = palette.css.muted;
  const share = room / layout.height;
  context.fillRect(width - 5, AXIS + scroll * share, 4, room * share);
  context.globalAlpha = 1;
}

// 1, 2 or 5 times a power of ten that gives at most so many steps.
function axisStep(span, steps) {
  const least = span / Math.max(1, steps);
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least);
}

function strokeLine(context, x0, y0, x1, y1) {
  context.beginPath();
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
  context.stroke();
}

function drawMark(timeline, time, place) {
  const { context, palette } = timeline;
  const x = timeline.xOf(time);
  if (x < GUTTER || x > timeline.width) return;
  context.strokeStyle = context.fillStyle = palette.css.mark;
  strokeLine(context, x, 16, x, timeline.height);
  context.fillRect(x, 16, 14, 10);
  context.fillStyle = palette.css.ground;
  context.fillText(String(place + 1), x + 4, 21.5);
}

function drawRegionLength(timeline) {
  const { context, palette, region } = timeline;
  const x0 = Math.max(GUTTER, timeline.xOf(region.from));
  const x1 = Math.min(timeline.width, timeline.xOf(region.to));
  if (x1 <= x0) return;
  context.fillStyle = palette.css.accent;
  context.fillRect(x0, AXIS - 3, x1 - x0, 3);
}

function drawOverlay(timeline) {
  const { context } = timeline;
  context.save();
  context.beginPath();
  context.rect(GUTTER, AXIS, timeline.plotWidth, timeline.height - AXIS);
  context.clip();
  if (timeline.region) drawRegion(timeline);
  if (timeline.selected) drawSelection(timeline);
  context.restore();
}

function drawRegion(timeline) {
  const { context, palette, region } = timeline;
  const x0 = timeline.xOf(region.from);
  const x1 = timeline.xOf(region.to);
  context.globalAlpha = 0.09;
  context.fillStyle = palette.css.accent;
  context.fillRect(x0, AXIS, x1 - x0, timeline.height);
  context.globalAlpha = 1;
  context.strokeStyle = palette.css.accent;
  strokeLine(context, x0, AXIS, x0, timeline.height);
  strokeLine(context, x1, AXIS, x1, timeline.height);
}

function drawSelection(timeline) {
  const { lane, row, flows } = timeline.selected;
  const line = timeline.layout.rowOfLane.get(lane.index);
  if (!line) return;
  const { context, palette } = timeline;
  const y = timeline.yOf(line);
  const x0 = Math.max(GUTTER - 4, timeline.xOf(lane.start[row]));
  const x1 = Math.min(timeline.width + 4, timeline.xOf(lane.end[row]));
  context.lineWidth = 2;
  context.strokeStyle = palette.css.ink;
  context.strokeRect(x0, y, Math.max(2, x1 - x0), line.height);
  for (const linked of flows) drawFlow(timeline, y, line, linked);
  context.lineWidth = 1;
}

// An arrow from the launch to the first op on a lane, and a bracket over all of them there.
function drawFlow(timeline, y, line, linked) {
  const other = timeline.layout.rowOfLane.get(linked.lane.index);
  if (!other) return;
  const { context, palette } = timeline;
  const { lane, row } = timeline.selected;
  const otherY = timeline.yOf(other);
  const up = otherY < y;
  const edge = up ? otherY + other.height : otherY;
  const begin = up ? y : y + line.height;
  const x0 = timeline.xOf(lane.start[row]);
  const x1 = timeline.xOf(linked.lane.start[linked.first]);
  context.strokeStyle = context.fillStyle = palette.css.mark;
  context.lineWidth = 1.5;
  if (linked.count > 1) drawBracket(timeline, linked, x1, up ? edge + 1 : edge - 3);
  const middle = (begin + edge) / 2;
  context.beginPath();
  context.moveTo(x0, begin);
  context.bezierCurveTo(x0, middle, x1, middle, x1, edge);
  context.stroke();
  const isCall = CALLERS.includes(lane.kind);
  drawTip(context, isCall ? x1 : x0, isCall ? edge : begin, isCall === up ? 1 : -1);
  drawLag(timeline, linked, x1, middle);
}

function drawBracket(timeline, linked, x0, y) {
  const left = Math.max(GUTTER, x0);
  const right = Math.min(timeline.width, timeline.xOf(linked.lane.end[linked.last]));
  if (right > GUTTER) timeline.context.fillRect(left, y, Math.max(2, right - left), 2);
}

function drawTip(context, x, y, direction) {
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(x - 4, y + 7 * direction);
  context.lineTo(x + 4, y + 7 * direction);
  context.fill();
}

function drawLag(timeline, linked, x, y) {
  const { context, palette } = timeline;
  const { lane, row } = timeline.selected;
  const text = `${linked.count > 1 ? `${linked.count} ops, ` : ""}launch to start `
    + formatTime(launchLag(lane, row, linked));
  const left = Math.min(Math.max(x, GUTTER) + 8, timeline.width - text.length * LETTER - 8);
  context.fillStyle = palette.css.ground;
  context.fillRect(left - 3, y - 8, text.length * LETTER + 2, 16);
  context.fillStyle = palette.css.mark;
  context.fillText(text, left, y);
}
