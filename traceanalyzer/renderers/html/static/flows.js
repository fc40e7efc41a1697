"use strict";
// From a launch to the ops it caused, and back: they share a correlation id within a process,
// and the lanes of a process lie in one group (or in those of its GPUs).

const CALLERS = ["calls", "graph launches"];

// Spans linked to one: for a call its ops, for an op its call.
// Each is {lane, first, last, count}; a replayed graph links hundreds of ops, one entry a lane.
function flowsOf(store, lane, row) {
  const id = lane.correlation[row];
  const isCall = CALLERS.includes(lane.kind);
  if (id < 0 || (!isCall && lane.kind !== "stream" && lane.kind !== "collectives")) return [];
  const wanted = isCall ? ["stream"] : CALLERS;
  return store.lanes
    .filter((other) => wanted.includes(other.kind) && sameProcess(store, lane, other))
    .map((other) => linkedIn(other, id))
    .filter((linked) => linked.count);
}

function sameProcess(store, lane, other) {
  return store.processes[lane.group] === store.processes[other.group];
}

function linkedIn(lane, id) {
  const first = lane.correlation.indexOf(id);
  if (first < 0) return { lane, count: 0 };
  const last = lane.correlation.lastIndexOf(id);
  let count = 0;
  for (let i = first; i <= last; i++) if (lane.correlation[i] === id) count += 1;
  return { lane, first, last, count };
}

// From the call's start to the first op's start on a lane, whichever of the two is selected.
function launchLag(lane, row, linked) {
  const other = linked.lane.start[linked.first];
  return CALLERS.includes(lane.kind) ? other - lane.start[row] : lane.start[row] - other;
}
