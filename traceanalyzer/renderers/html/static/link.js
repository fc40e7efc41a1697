"use strict";
// Deep links: #t=from,to (ns) &s=lane:row &r=from,to &m=time,... &q=text restore what was seen.
// A link is somebody else's text: only numbers that make sense are taken from it.

class Link {
  constructor(timeline, searchField) {
    this.timeline = timeline;
    this.searchField = searchField;
    for (const name of ["view", "select", "region", "marks", "search"]) {
      timeline.events.addEventListener(name, () => this.later());
    }
    window.addEventListener("hashchange", () => {
      if (location.hash !== this.written) this.restore();
    });
  }

  // The address is rewritten when the view has come to rest.
  later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.write(), 200);
  }

  write() {
    this.written = this.text();
    try {
      history.replaceState(null, "", this.written);
    } catch {
      // Some viewers of attached files forbid it; the page works all the same.
    }
  }

  text() {
    const { view, selected, region, marks, search } = this.timeline;
    const parts = [`t=${Math.round(view.from)},${Math.round(view.to)}`];
    if (selected) parts.push(`s=${selected.lane.index}:${selected.row}`);
    if (region) parts.push(`r=${region.from},${region.to}`);
    if (marks.length) parts.push(`m=${marks.join(",")}`);
    if (search.active) parts.push(`q=${encodeURIComponent(search.text)}`);
    return `#${parts.join("&")}`;
  }

  restore() {
    const given = new URLSearchParams(location.hash.slice(1).replaceAll("+", "%2B"));
    const { timeline } = this;
    const view = numbers(given.get("t"), 2);
    if (view && view[1] > view[0]) timeline.show(...view);
    const region = numbers(given.get("r"), 2);
    if (region && region[1] > region[0]) timeline.setRegion(...region);
    const marks = numbers(given.get("m"));
    if (marks) timeline.setMarks(marks.slice(0, 100));
    this.restoreSelection(given.get("s"));
    if (given.has("q")) {
      this.searchField.value = given.get("q");
      timeline.find(given.get("q"));
    }
  }

  restoreSelection(text) {
    const found = /^(\d+):(\d+)$/.exec(text || "");
    const lane = found && this.timeline.store.lanes[Number(found[1])];
    if (lane && Number(found[2]) < lane.size) this.timeline.select(lane, Number(found[2]));
  }
}

// Finite numbers after commas, as many as asked for; null for anything else.
function numbers(text, count = null) {
  if (!text) return null;
  const found = text.split(",").map(Number);
  return found.every(Number.isFinite) && (count === null || found.length === count) ? found : null;
}
