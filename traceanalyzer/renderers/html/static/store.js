"use strict";
// The packed lanes as typed arrays, and an index that answers "how busy from a to b" exactly.
// Spans of a lane are sorted and never overlap, so starts and ends both ascend.

const BLOCK = 64; // spans between two entries of the cumulative index

class Columns {
  constructor(bytes) {
    const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
    this.bytes = bytes;
    this.begin = 4 + length;
    this.header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, this.begin)));
  }

  // One column; the bytes of each width lie apart: all lowest bytes first.
  read(name, Type) {
    const [width, size, differences, folded, offset] = this.header.columns[name];
    const out = new Type(size);
    const from = this.begin + offset;
    if (width === 8) this.readWide(out, from);
    else this.readNarrow(out, from, width);
    if (folded) unfold(out);
    if (differences) for (let i = 1; i < size; i++) out[i] += out[i - 1];
    return out;
  }

  readNarrow(out, from, width) {
    const bytes = this.bytes;
    const size = out.length;
    const second = from + size;
    const third = second + size;
    const fourth = third + size;
    if (width === 1) for (let i = 0; i < size; i++) out[i] = bytes[from + i];
    else if (width === 2) {
      for (let i = 0; i < size; i++) out[i] = bytes[from + i] | (bytes[second + i] << 8);
    } else {
      for (let i = 0; i < size; i++) {
        out[i] = (bytes[from + i] | (bytes[second + i] << 8) | (bytes[third + i] << 16)
          | (bytes[fourth + i] << 24)) >>> 0;
      }
    }
  }

  readWide(out, from) {
    const { bytes } = this;
    const size = out.length;
    for (let i = 0; i < size; i++) {
      let value = 0;
      for (let plane = 7; plane >= 0; plane--) value = value * 256 + bytes[from + plane * size + i];
      out[i] = value;
    }
  }
}

// Signs travel in the lowest bit: 0, 1, 2, 3 stand for 0, -1, 1, -2.
function unfold(values) {
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    values[i] = value % 2 ? -(value + 1) / 2 : value / 2;
  }
}

class Lane {
  constructor(columns, told, index, NameType) {
    Object.assign(this, told);
    this.index = index;
    const read = (name, Type) => columns.read(`${index}.${name}`, Type);
    this.start = read("gap", Float64Array);
    this.end = read("duration", Float64Array);
    this.size = this.start.length;
    for (let i = 0, last = 0; i < this.size; i++) {
      this.start[i] += last;
      last = this.end[i] += this.start[i];
    }
    this.name = read("name", NameType);
    this.phase = read("phase", Uint8Array); // 0 is none, others are one more than their place
    this.cycle = read("cycle", Int32Array);
    this.correlation = read("correlation", Float64Array);
    this.buildIndex();
  }

  // Per phase the busy time before every BLOCK-th span.
  buildIndex() {
    const sums = new Float64Array(256);
    const seen = new Uint8Array(256);
    for (let i = 0; i < this.size; i++) seen[this.phase[i]] = 1;
    this.phases = [...seen.keys()].filter((phase) => seen[phase]);
    const blocks = Math.floor(this.size / BLOCK) + 1;
    this.before = this.phases.map(() => new Float64Array(blocks));
    for (let i = 0; i <= this.size; i++) {
      if (i % BLOCK === 0) {
        for (let p = 0; p < this.phases.length; p++) this.before[p][i / BLOCK] = sums[this.phases[p]];
      }
      if (i < this.size) sums[this.phase[i]] += this.end[i] - this.start[i];
    }
  }

  // First span that ends after a time.
  firstEnding(time, low = 0) {
    let high = this.size;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.end[middle] > time) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  // First span that starts at or after a time; searches upwards from `low`, near spans first.
  firstStarting(time, low = 0) {
    let step = 1;
    let high = low;
    while (high < this.size && this.start[high] < time) {
      low = high + 1;
      high += step;
      step *= 2;
    }
    high = Math.min(high, this.size);
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.start[middle] >= time) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  // Adds the busy time of each phase between two times to `sums`; `first` and `after` are the
  // spans that overlap them: the first that ends after `from`, the first that starts at `to`.
  addBusy(from, to, first, after, sums) {
    if (after <= first) return;
    if (after - first <= 2 * BLOCK) {
      for (let i = first; i < after; i++) sums[this.phase[i]] += this.end[i] - this.start[i];
    } else {
      this.addBefore(first, sums, -1);
      this.addBefore(after, sums, 1);
    }
    const last = after - 1;
    if (this.start[first] < from) sums[this.phase[first]] -= from - this.start[first];
    if (this.end[last] > to) sums[this.phase[last]] -= this.end[last] - to;
  }

  addBefore(row, sums, sign) {
    const block = Math.floor(row / BLOCK);
    for (let p = 0; p < this.phases.length; p++) sums[this.phases[p]] += sign * this.before[p][block];
    for (let i = block * BLOCK; i < row; i++) {
      sums[this.phase[i]] += sign * (this.end[i] - this.start[i]);
    }
  }

  // Busy time by phase between two times.
  busy(from, to) {
    const sums = new Float64Array(256);
    const first = this.firstEnding(from);
    this.addBusy(from, to, first, this.firstStarting(to, first), sums);
    return sums;
  }
}

class Store {
  constructor(bytes) {
    const columns = new Columns(bytes);
    const told = columns.header;
    Object.assign(this, {
      names: told.names, shorts: told.shorts, phases: told.phases, colours: told.colours,
      groups: told.groups, processes: told.processes, classes: told.classes, states: told.states,
      shown: told.shown, start: 0, end: told.end,
    });
    this.classOfName = columns.read("name_class", Int8Array);
    const NameType = this.names.length > 65536 ? Uint32Array : Uint16Array;
    this.lanes = told.lanes.map((lane, index) => new Lane(columns, lane, index, NameType));
    this.cycles = {};
    for (const name of told.cycle_columns) {
      this.cycles[name] = columns.read(`cycles.${name}`, Float64Array);
    }
    this.cycles.size = this.cycles.start.length;
  }

  // Text of a phase as spans carry it: 0 is none.
  phaseText(phase) {
    return phase ? this.phases[phase - 1] : "no phase";
  }

  lanesOf(group, kind) {
    return this.lanes.filter((lane) => lane.group === group && lane.kind === kind);
  }
}
