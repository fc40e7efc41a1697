"use strict";
// Mouse, pen and touch: wheel zooms at the cursor, drag pans, shift and drag (or a drag on the
// axis) marks a region, click chooses, double click zooms to a span.

const STILL = 3; // pixels below which a press is a click

class Pointer {
  constructor(timeline, tip) {
    this.timeline = timeline;
    this.canvas = timeline.canvas;
    this.tip = tip;
    this.drag = null;
    this.x = null;
    this.y = 0;
    const on = (name, handler, options) =>
      this.canvas.addEventListener(name, (event) => handler.call(this, event), options);
    on("wheel", this.wheel, { passive: false });
    on("pointerdown", this.down);
    on("pointermove", this.move);
    on("pointerup", this.up);
    on("pointercancel", () => { this.drag = null; });
    on("pointerleave", () => this.hideTip());
    on("dblclick", this.zoomToSpan);
  }

  wheel(event) {
    event.preventDefault();
    const { timeline } = this;
    this.hideTip();
    if (event.altKey || (event.offsetX < GUTTER && !event.ctrlKey)) {
      timeline.scrollBy(event.deltaY);
      return;
    }
    timeline.remember(true);
    const sideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (sideways) timeline.pan((event.deltaX || event.deltaY) / timeline.plotWidth);
    else timeline.zoomAt(Math.max(GUTTER, event.offsetX), Math.exp(event.deltaY * 0.0022));
  }

  down(event) {
    if (event.button !== 0) return;
    this.canvas.focus({ preventScroll: true });
    this.canvas.setPointerCapture(event.pointerId);
    const selects = event.offsetX >= GUTTER && (event.shiftKey || event.offsetY < AXIS);
    this.drag = { x: event.offsetX, y: event.offsetY, selects, moved: false,
      view: { ...this.timeline.view }, scroll: this.timeline.scroll };
  }

  move(event) {
    this.x = Math.max(GUTTER, event.offsetX);
    this.y = event.offsetY;
    if (!this.drag) {
      this.hover(event);
      return;
    }
    const { drag, timeline } = this;
    const dx = event.offsetX - drag.x;
    const dy = event.offsetY - drag.y;
    if (!drag.moved && Math.abs(dx) + Math.abs(dy) < STILL) return;
    if (!drag.moved && !drag.selects) timeline.remember();
    drag.moved = true;
    this.hideTip();
    if (drag.selects) this.dragRegion(event, false);
    else {
      const shift = (dx / timeline.plotWidth) * timeline.span;
      timeline.scroll = Math.max(0, drag.scroll - dy);
      timeline.scrollBy(0);
      timeline.show(drag.view.from - shift, drag.view.to - shift);
    }
  }

  // While the pointer moves only the region is drawn; its totals come when it is let go.
  dragRegion(event, done) {
    const { timeline, drag } = this;
    const [from, to] = [timeline.timeAt(drag.x), timeline.timeAt(Math.max(GUTTER, event.offsetX))]
      .map(Math.round).sort((a, b) => a - b);
    if (done) timeline.setRegion(from, to);
    else {
      timeline.region = { from, to };
      timeline.redraw();
    }
  }

  up(event) {
    const { drag } = this;
    if (!drag) return;
    if (drag.moved && drag.selects) this.dragRegion(event, true);
    this.drag = null;
    if (!drag.moved) this.click(event);
  }

  click(event) {
    const { timeline } = this;
    const row = timeline.rowAt(event.offsetY);
    if (event.offsetX < GUTTER) {
      if (row && row.lane) timeline.arrange((layout) => layout.togglePin(row.lane));
      else if (row) timeline.arrange((layout) => layout.toggleGroup(row.group));
      return;
    }
    const picked = timeline.pick(event.offsetX, event.offsetY);
    if (picked) timeline.select(picked.lane, picked.row);
    else timeline.select(null);
  }

  zoomToSpan(event) {
    const picked = this.timeline.pick(event.offsetX, event.offsetY);
    if (picked) this.timeline.fit(picked.lane.start[picked.row], picked.lane.end[picked.row], 0.15);
  }

  hover(event) {
    const { timeline, tip } = this;
    const picked = timeline.pick(event.offsetX, event.offsetY);
    if (!picked) {
      this.hideTip();
      return;
    }
    const lines = hoverLines(timeline.store, picked);
    tip.replaceChildren(...lines.filter((line) => line).map((line, i) =>
      make("div", { className: i ? "muted" : "name" }, make("bdi", {}, line))));
    tip.hidden = false;
    this.placeTip(event);
  }

  placeTip(event) {
    const { timeline, tip } = this;
    const left = Math.min(event.offsetX + 14, timeline.width - tip.offsetWidth - 4);
    const below = event.offsetY + 18;
    const fits = below + tip.offsetHeight < timeline.height;
    const top = fits ? below : event.offsetY - tip.offsetHeight - 10;
    tip.style.transform = `translate(${Math.max(0, left)}px, ${Math.max(0, top)}px)`;
  }

  hideTip() {
    this.tip.hidden = true;
  }
}
