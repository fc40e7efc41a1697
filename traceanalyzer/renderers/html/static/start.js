"use strict";
// Puts the timeline page together. `timelinePage` is what other pages and tests may use.

const timelinePage = { ready: false };

async function startTimeline() {
  const byId = (id) => document.getElementById(id);
  const store = new Store(await readBlob("lanes"));
  const timeline = new Timeline(store, byId("timeline"));
  const searchField = byId("search");
  const cycles = new Cycles(timeline);
  const pointer = new Pointer(timeline, byId("tip"));
  new Details(timeline, { span: byId("span"), marks: byId("marks"), totals: byId("totals") });
  new Keyboard(timeline, cycles, pointer, searchField);
  const minimap = new Minimap(timeline, byId("minimap"), byId("viewbox"));
  const link = new Link(timeline, searchField);
  const strip = cycles.facts.length ? startStrip(timeline, cycles, byId) : null;
  showCount(timeline, byId("hits"));
  followSearch(timeline, searchField);
  followSize(timeline, minimap, strip);
  cycles.fillLists(byId("lists"));
  document.addEventListener("themechange", () => {
    timeline.setTheme();
    minimap.draw();
    if (strip) strip.redraw();
  });
  Object.assign(timelinePage, { store, timeline, cycles, strip, link });
  showFirst(timeline);
  link.restore();
  timeline.draw();
  timelinePage.ready = true;
}

function startStrip(timeline, cycles, byId) {
  byId("strip").hidden = false;
  return new CycleStrip(timeline, cycles, {
    scroller: byId("strip-scroller"), spacer: byId("strip-spacer"), canvas: byId("strip-canvas"),
    rank: byId("strip-rank"), order: byId("strip-order"), only: byId("strip-only"),
    density: byId("strip-density"), summary: byId("strip-summary"),
  });
}

// A file of chosen windows opens at the first of them.
function showFirst(timeline) {
  const { shown } = timeline.store;
  if (shown && shown.length === 1) timeline.show(...shown[0]);
}

function showCount(timeline, holder) {
  timeline.events.addEventListener("search", () => {
    const { search } = timeline;
    const spans = `${formatCount(search.count)} span${search.count === 1 ? "" : "s"}`;
    holder.textContent = search.active ? spans : "";
  });
}

function followSearch(timeline, field) {
  let timer = 0;
  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => timeline.find(field.value), 90);
  });
}

function followSize(timeline, minimap, strip) {
  let before = `${innerWidth}`;
  const observer = new ResizeObserver(() => {
    const box = timeline.canvas.parentElement.getBoundingClientRect();
    const now = `${Math.floor(box.width)} ${Math.floor(box.height)} ${devicePixelRatio}`;
    if (now === before) return;
    before = now;
    timeline.resize();
    minimap.draw();
    if (strip) strip.resize();
  });
  observer.observe(timeline.canvas.parentElement);
}

startTimeline();
