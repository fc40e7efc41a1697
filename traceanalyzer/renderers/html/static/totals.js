"use strict";
// Exact GPU time between two instants, as the report counts it. A phase's busy time is the union
// of its ops over streams; classes and kernels add up to it: of two ops that overlap in a stream
// the earlier keeps the time, and time in which several streams run is a row of its own.

const OVERLAP = -1; // stands for the name in the row of time that several streams share

// The pieces of one stream, clipped to the region, that no earlier op of the stream covers.
// `apart`: whether only ops of one phase cover one another.
function streamPieces(lanes, from, to, apart) {
  const cursors = lanes.map((lane) => ({ lane, row: lane.firstEnding(from) }));
  const reached = new Float64Array(256).fill(from);
  const pieces = new Map();
  for (let next = earliest(cursors, to); next; next = earliest(cursors, to)) {
    const { lane, row } = next;
    next.row += 1;
    const phase = lane.phase[row];
    const slot = apart ? phase : 0;
    const start = Math.max(lane.start[row], reached[slot]);
    const end = Math.min(lane.end[row], to);
    if (end <= start) continue;
    reached[slot] = end;
    if (!pieces.has(slot)) pieces.set(slot, { start: [], end: [], name: [], row: 0 });
    const own = pieces.get(slot);
    own.start.push(start);
    own.end.push(end);
    own.name.push(lane.name[row]);
  }
  return pieces;
}

// Of several lanes of a stream the one whose next span starts first.
function earliest(cursors, to) {
  let best = null;
  for (const cursor of cursors) {
    const { lane, row } = cursor;
    if (row >= lane.size || lane.start[row] >= to) continue;
    if (!best || lane.start[row] < best.lane.start[best.row]) best = cursor;
  }
  return best;
}

// Sweeps the pieces of several streams; add(name, ns) gets every stretch in which something runs.
function sweepStreams(streams, add) {
  if (streams.length === 1) {
    const [only] = streams;
    only.start.forEach((start, i) => add(only.name[i], only.end[i] - start));
    return;
  }
  let time = Math.min(...streams.map((stream) => stream.start[0]));
  for (;;) {
    const { next, active, name } = stepAt(streams, time);
    if (next === Infinity) return;
    if (active) add(active > 1 ? OVERLAP : name, next - time);
    time = next;
  }
}

function stepAt(streams, time) {
  let next = Infinity;
  let active = 0;
  let name = OVERLAP;
  for (const stream of streams) {
    while (stream.row < stream.end.length && stream.end[stream.row] <= time) stream.row += 1;
    if (stream.row >= stream.end.length) continue;
    const begins = stream.start[stream.row];
    if (begins <= time) {
      active += 1;
      name = stream.name[stream.row];
    }
    next = Math.min(next, begins <= time ? stream.end[stream.row] : begins);
  }
  return { next, active, name };
}

// Lanes of each stream of a rank.
function streamsOf(store, group) {
  const tracks = new Map();
  for (const lane of store.lanesOf(group, "stream")) {
    if (!tracks.has(lane.track)) tracks.set(lane.track, []);
    tracks.get(lane.track).push(lane);
  }
  return [...tracks.values()];
}

class Tally {
  constructor() {
    this.rows = new Map();
  }

  add(key, ns, count) {
    const row = this.rows.get(key);
    if (row) {
      row.ns += ns;
      row.count += count;
    } else this.rows.set(key, { key, ns, count });
  }

  // Rows by time, the largest first.
  sorted() {
    return [...this.rows.values()].sort((a, b) => b.ns - a.ns || b.count - a.count);
  }
}

// Totals of a region: per rank its busy time, and over all ranks by phase, class and kernel.
function regionTotals(store, from, to) {
  const tallies = { phases: new Tally(), classes: new Tally(), kernels: new Tally() };
  const groups = [];
  store.groups.forEach((title, group) => {
    const streams = streamsOf(store, group);
    if (!streams.length) return;
    addPhases(store, streams, from, to, tallies);
    addCounts(store, streams.flat(), from, to, tallies);
    groups.push({ group, title, busy: busyOf(streams, from, to) });
  });
  const sorted = Object.entries(tallies).map(([name, tally]) => [name, tally.sorted()]);
  return { from, to, groups, ...Object.fromEntries(sorted) };
}

function addPhases(store, streams, from, to, tallies) {
  const byStream = streams.map((lanes) => streamPieces(lanes, from, to, true));
  for (const phase of new Set(byStream.flatMap((pieces) => [...pieces.keys()]))) {
    const own = byStream.filter((pieces) => pieces.has(phase)).map((pieces) => pieces.get(phase));
    const names = new Map();
    sweepStreams(own, (name, ns) => names.set(name, (names.get(name) || 0) + ns));
    for (const [name, ns] of names) {
      tallies.phases.add(phase, ns, 0);
      tallies.classes.add(name === OVERLAP ? OVERLAP : store.classOfName[name], ns, 0);
      tallies.kernels.add(name, ns, 0);
    }
  }
}

// How many ops there are: those that overlap the region, ops of 0 ns inside it included.
function addCounts(store, lanes, from, to, tallies) {
  for (const lane of lanes) {
    const phases = new Map();
    const names = new Map();
    for (let i = lane.firstEnding(from - 1); i < lane.size && lane.start[i] < to; i++) {
      if (lane.end[i] <= from && lane.start[i] < from) continue;
      phases.set(lane.phase[i], (phases.get(lane.phase[i]) || 0) + 1);
      names.set(lane.name[i], (names.get(lane.name[i]) || 0) + 1);
    }
    for (const [phase, count] of phases) tallies.phases.add(phase, 0, count);
    for (const [name, count] of names) {
      tallies.classes.add(store.classOfName[name], 0, count);
      tallies.kernels.add(name, 0, count);
    }
  }
}

function busyOf(streams, from, to) {
  const pieces = streams.map((lanes) => streamPieces(lanes, from, to, false).get(0));
  const running = pieces.filter((each) => each);
  let busy = 0;
  if (running.length) sweepStreams(running, (name, ns) => { busy += ns; });
  return busy;
}
