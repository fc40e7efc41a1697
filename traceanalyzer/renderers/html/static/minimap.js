"use strict";
// The whole trace in one line above the lanes, with a box where the view is.

class Minimap {
  constructor(timeline, canvas, box) {
    this.timeline = timeline;
    this.canvas = canvas;
    this.box = box;
    this.context = canvas.getContext("2d", { alpha: false });
    timeline.events.addEventListener("view", () => this.place());
    canvas.parentElement.addEventListener("pointerdown", (event) => this.grab(event));
    canvas.parentElement.addEventListener("pointermove", (event) => {
      if (event.buttons & 1) this.moveTo(event);
    });
    this.draw();
  }

  // The busiest line there is to show: phases of the first rank, else the first lane of all.
  get lane() {
    const { lanes } = this.timeline.store;
    return lanes.find((lane) => lane.kind === "phases") || lanes[0];
  }

  draw() {
    const { timeline, canvas } = this;
    const ratio = timeline.ratio;
    const width = Math.max(1, Math.round(timeline.plotWidth * ratio));
    const frame = new Frame(width, Math.round(28 * ratio));
    canvas.width = frame.width;
    canvas.height = frame.height;
    canvas.style.width = `${timeline.plotWidth}px`;
    frame.fill(timeline.palette.pixel.row);
    const { store } = timeline;
    if (this.lane) {
      const view = { from: store.start, perPixel: (store.end - store.start) / width };
      const box = { top: 2, bottom: frame.height - 2, right: width };
      drawLane(frame, box, this.lane, view, paintFor(timeline, this.lane), () => {});
    }
    this.context.putImageData(frame.image, 0, 0);
    this.place();
  }

  place() {
    const { store, view, plotWidth } = this.timeline;
    const whole = store.end - store.start || 1;
    const left = Math.max(0, (view.from - store.start) / whole) * plotWidth;
    const right = Math.min(1, (view.to - store.start) / whole) * plotWidth;
    this.box.style.left = `${Math.min(left, plotWidth - 3)}px`;
    this.box.style.width = `${Math.max(3, right - left)}px`;
  }

  grab(event) {
    this.canvas.parentElement.setPointerCapture(event.pointerId);
    this.timeline.remember();
    this.moveTo(event);
  }

  moveTo(event) {
    const { timeline } = this;
    const left = this.canvas.getBoundingClientRect().left;
    const share = (event.clientX - left) / timeline.plotWidth;
    const middle = timeline.store.start + share * (timeline.store.end - timeline.store.start);
    timeline.show(middle - timeline.span / 2, middle + timeline.span / 2);
  }
}
