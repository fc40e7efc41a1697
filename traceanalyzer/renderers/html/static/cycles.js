"use strict";
// Cycles: what is said of one, the lists of those worth a look, and the way from one to the next.

const KEPT_STATE = 0; // first of the states: the cycles that are averaged
const LISTED = 12;

function cycleFact(store, cycle) {
  const { start, end, usual, drafted, accepted, state, ordinal, number, group } = store.cycles;
  return {
    cycle, group: group[cycle], ordinal: ordinal[cycle], number: number[cycle],
    start: start[cycle], end: end[cycle], period: end[cycle] - start[cycle],
    usual: usual[cycle], drafted: drafted[cycle], accepted: accepted[cycle],
    state: state[cycle], kept: state[cycle] === KEPT_STATE,
    rejected: state[cycle] === KEPT_STATE && drafted[cycle] > 0 && accepted[cycle] === 0,
  };
}

function cycleText(store, cycle) {
  const fact = cycleFact(store, cycle);
  const parts = [`#${fact.ordinal}`, formatTime(fact.period)];
  if (fact.drafted >= 0) parts.push(`${fact.accepted} of ${fact.drafted} accepted`);
  if (!fact.kept) parts.push(stateText(store, fact.state));
  return parts.join(" · ");
}

function stateText(store, state) {
  return store.states[state].replace("_", "-");
}

class Cycles {
  constructor(timeline) {
    this.timeline = timeline;
    this.store = timeline.store;
    this.facts = Array.from({ length: this.store.cycles.size }, (_, i) => cycleFact(this.store, i));
  }

  ofGroup(group) {
    return this.facts.filter((fact) => fact.group === group);
  }

  // The rank whose cycles are walked: that of the selection, else the first that has any.
  get group() {
    const { selected } = this.timeline;
    if (selected && this.ofGroup(selected.lane.group).length) return selected.lane.group;
    return this.facts.length ? this.facts[0].group : 0;
  }

  // Kept cycles by how much longer than usual they took, compared within their bucket.
  slowest(group) {
    return this.ofGroup(group)
      .filter((fact) => fact.kept && fact.usual > 0)
      .sort((a, b) => b.period / b.usual - a.period / a.usual)
      .slice(0, LISTED);
  }

  rejected(group) {
    return this.ofGroup(group).filter((fact) => fact.rejected);
  }

  // The cycle at a time: the last that began before it, -1 before the first.
  placeAt(facts, time) {
    let place = -1;
    while (place + 1 < facts.length && facts[place + 1].start <= time) place += 1;
    return place;
  }

  jump(step) {
    const facts = this.ofGroup(this.group);
    if (!facts.length) return;
    const { view } = this.timeline;
    const place = this.placeAt(facts, (view.from + view.to) / 2);
    const inCycle = place >= 0 && this.timeline.span < facts[place].period * 1.5;
    const next = inCycle ? place + step : Math.max(0, place);
    this.open(facts[Math.max(0, Math.min(facts.length - 1, next))]);
  }

  open(fact) {
    this.opened = fact;
    this.timeline.emit("cycle");
    this.timeline.fit(fact.start, fact.end, 0.03);
    const [lane] = this.store.lanesOf(fact.group, "cycles");
    const row = lane ? lane.cycle.indexOf(fact.cycle) : -1;
    if (row >= 0) this.timeline.reveal(lane, row);
  }

  // The lists beside the lanes; each entry is a button that leads there.
  fillLists(holder) {
    const { group } = this;
    const slowness = (fact) => `${(fact.period / fact.usual).toFixed(2)} × usual`;
    const list = (title, facts, textOf, more) => (facts.length ? [
      make("h2", {}, title),
      make("ol", { className: "cycles" }, ...facts.slice(0, LISTED).map((fact) =>
        make("li", {}, this.button(fact, textOf(fact))))),
      more > 0 ? muted(`and ${formatCount(more)} more, see the strip`) : "",
    ] : []);
    const rejected = this.rejected(group);
    holder.replaceChildren(
      ...list("Slowest cycles", this.slowest(group), (fact) =>
        `#${fact.ordinal} ${formatTime(fact.period)}, ${slowness(fact)}`, 0),
      ...list(`Cycles with every draft rejected (${formatCount(rejected.length)})`, rejected,
        (fact) => `#${fact.ordinal} 0 of ${fact.drafted}`, rejected.length - LISTED),
    );
  }

  button(fact, text) {
    return make("button", { type: "button", onclick: () => this.open(fact) }, text);
  }
}
