"use strict";
// How the lanes are drawn: spans as pixels, names where there is room, titles at the left.

function drawLanes(timeline) {
  timeline.wide = [];
  drawPixels(timeline);
  const { context, ratio } = timeline;
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.fillStyle = timeline.palette.css.ground;
  context.fillRect(0, 0, timeline.canvas.width, timeline.canvas.height);
  context.putImageData(timeline.frame.image, Math.round(GUTTER * ratio), Math.round(AXIS * ratio));
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  drawNames(timeline);
  drawOverlay(timeline);
  drawTitles(timeline);
  drawAxis(timeline);
  drawScrollbar(timeline);
}

function drawPixels(timeline) {
  const { frame, palette, ratio } = timeline;
  const view = columnsOf(timeline);
  frame.fill(palette.pixel.ground);
  for (const row of timeline.layout.rows) {
    const top = Math.round((row.top - timeline.scroll) * ratio);
    const bottom = top + Math.round(row.height * ratio);
    if (bottom <= 0 || top >= frame.height) continue;
    if (!row.lane) {
      frame.rectangle(0, frame.width, top, bottom, palette.pixel.head);
      continue;
    }
    const box = { top, bottom, right: frame.width };
    drawGround(timeline, row.lane, box, view);
    drawLane(frame, box, row.lane, view, paintFor(timeline, row.lane),
      (span, x0, x1) => timeline.wide.push({ row, span, x0: x0 / ratio, x1: x1 / ratio }));
    if (timeline.search.active) drawTicks(timeline, row.lane, box, view);
  }
}

function columnsOf(timeline) {
  return { from: timeline.view.from, perPixel: timeline.span / timeline.frame.width };
}

// The ground of a lane: hatched where the file holds no detail.
function drawGround(timeline, lane, box, view) {
  const { frame, palette } = timeline;
  frame.rectangle(0, box.right, box.top, box.bottom, palette.pixel.row);
  if (!timeline.store.shown || lane.kind === "cycles" || lane.kind === "phases") return;
  const column = (time) => Math.round((time - view.from) / view.perPixel);
  let reached = column(timeline.store.start);
  for (const [from, to] of [...timeline.store.shown, [timeline.store.end, timeline.store.end]]) {
    const until = Math.min(box.right, column(from));
    const left = Math.max(0, reached);
    if (until > left) frame.hatch(left, until, box.top, box.bottom, palette.pixel.hatch);
    reached = Math.max(reached, column(to));
    if (reached >= box.right) break;
  }
}

// How a lane's spans are coloured; while searching all but the hits is dim.
function paintFor(timeline, lane) {
  const { palette, search } = timeline;
  const set = palette.sets[setOf(lane)];
  const tone = lane.kind === "cycles" ? cycleTone(timeline, lane) : (phase) => phase;
  const colour = (phase, row) => set.plain[tone(phase, row)];
  const dark = (phase, row) => set.dark[tone(phase, row)];
  if (!search.active) return { colour, dark, mixed: colour };
  const { dim, hatch } = palette.pixel;
  const hit = (row) => search.matches[lane.name[row]];
  return { colour: (phase, row) => (hit(row) ? colour(phase, row) : dim),
    dark: (phase, row) => (hit(row) ? dark(phase, row) : hatch), mixed: () => dim };
}

function cycleTone(timeline, lane) {
  const { state } = timeline.store.cycles;
  return (phase, row) => (state[lane.cycle[row]] === 0 ? row % 2 : 2);
}

// A hit is seen however short it is: its column is filled from top to bottom.
function drawTicks(timeline, lane, box, view) {
  const set = timeline.palette.sets[setOf(lane)];
  const rows = timeline.search.hits[lane.index];
  if (!rows.length) return;
  const colour = lane.kind === "cycles" ? timeline.palette.pixel.mark : null;
  for (const [column, row] of timeline.search.columns(lane, view, box.right)) {
    timeline.frame.column(column, box.top, box.bottom, colour ?? set.dark[lane.phase[row]]);
  }
}

function drawNames(timeline) {
  const { context } = timeline;
  for (const { row, span, x0, x1 } of timeline.wide) {
    const { lane } = row;
    const letters = Math.floor((x1 - x0 - 6) / LETTER);
    if (letters < 3 || row.height < 12) continue;
    const text = labelOf(timeline.store, lane, span);
    const shown = text.length > letters ? `${text.slice(0, letters - 1)}…` : text;
    context.fillStyle = inkFor(timeline, lane, span);
    context.fillText(shown, GUTTER + x0 + 4, timeline.yOf(row) + row.height / 2 + 0.5);
  }
}

function inkFor(timeline, lane, row) {
  const { search, palette } = timeline;
  if (search.active && !search.matches[lane.name[row]]) return palette.css.muted;
  const set = palette.sets[setOf(lane)];
  return set.ink[lane.kind === "cycles" ? cycleTone(timeline, lane)(0, row) : lane.phase[row]];
}

function drawTitles(timeline) {
  const { context, palette } = timeline;
  context.fillStyle = palette.css.ground;
  context.fillRect(0, AXIS, GUTTER - 1, timeline.height);
  for (const row of timeline.layout.rows) {
    const y = timeline.yOf(row);
    if (y + row.height < AXIS || y > timeline.height) continue;
    if (row.kind === "head") drawHead(timeline, row, y);
    else drawTitle(timeline, row, y);
  }
}

function drawHead(timeline, row, y) {
  const { context, palette } = timeline;
  context.fillStyle = palette.css.head;
  context.fillRect(0, y, timeline.width, row.height);
  context.fillStyle = palette.css.ink;
  context.font = "bold 11px system-ui, sans-serif";
  const mark = timeline.layout.collapsed.has(row.group) ? "▸" : "▾";
  context.fillText(cut(`${mark} ${row.title}`, timeline.width), 5, y + row.height / 2 + 0.5);
  context.font = "11px system-ui, sans-serif";
}

function drawTitle(timeline, row, y) {
  const { context, palette } = timeline;
  const chosen = timeline.selected && timeline.selected.lane === row.lane;
  context.fillStyle = chosen ? palette.css.accent : palette.css[row.height < 14 ? "muted" : "ink"];
  const rank = row.pinned ? `★ ${shortGroup(timeline.store, row.group)}: ` : "";
  context.fillText(cut(rank + row.lane.title, GUTTER - 10), 12, y + row.height / 2 + 0.5);
}

function cut(text, width) {
  const letters = Math.floor(width / LETTER) - 1;
  return text.length > letters ? `${text.slice(0, letters - 1)}…` : text;
}

// Which set of colours a lane is drawn in.
function setOf(lane) {
  if (lane.kind === "cycles") return "cycles";
  return ["phases", "stream", "collectives"].includes(lane.kind) ? "gpu" : "host";
}

// What stands on a span when there is room for it.
function labelOf(store, lane, row) {
  if (lane.kind === "cycles") return cycleText(store, lane.cycle[row]);
  return store.shorts[lane.name[row]];
}
