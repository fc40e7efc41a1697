"use strict";
// Colours as the frame buffer wants them (little endian ABGR), in light and dark.

const GROUNDS = {
  light: { ground: "#ffffff", row: "#f1f3f6", hatch: "#c5cad2", dim: "#d5d9df", ink: "#1d2127",
    muted: "#5c6470", line: "#d9dde3", accent: "#1f5fd0", mark: "#b3261e", head: "#e6e9ee" },
  dark: { ground: "#16181d", row: "#22262d", hatch: "#4b525e", dim: "#3c424c", ink: "#d7dae0",
    muted: "#98a0ad", line: "#353a44", accent: "#7aa7ff", mark: "#ff8a80", head: "#2b3038" },
};
const NO_PHASE = "#8a94a6";
const CYCLE_COLOURS = ["#8c96a5", "#aab3c0"]; // two in turn, to tell neighbours apart
const CYCLE_DROPPED = "#d0b8b8";
const HOST_SHARE = 0.55; // host spans are paler than the GPU's, which the page is about

function channels(colour) {
  const number = parseInt(colour.slice(1), 16);
  return [number >> 16, (number >> 8) & 255, number & 255];
}

function packed([red, green, blue]) {
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

// Relative luminance as WCAG 2 defines it, 0 to 1.
function luminance(colour) {
  const [red, green, blue] = colour.map((value) => value / 255)
    .map((value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function mixed(colour, other, share) {
  const theirs = channels(other);
  return channels(colour).map((value, i) => Math.round(value * share + theirs[i] * (1 - share)));
}

class Palette {
  constructor(store, dark) {
    this.css = dark ? GROUNDS.dark : GROUNDS.light;
    const phases = [NO_PHASE, ...store.colours];
    const ramp = (share) => phases.map((colour) => mixed(colour, this.css.ground, share));
    this.gpu = ramp(1);
    this.host = ramp(HOST_SHARE);
    this.sets = { gpu: toSet(this.gpu), host: toSet(this.host) };
    const cycles = [...CYCLE_COLOURS, CYCLE_DROPPED].map(channels);
    this.cycleInk = cycles;
    this.sets.cycles = toSet(cycles);
    this.pixel = Object.fromEntries(Object.entries(this.css)
      .map(([name, colour]) => [name, packed(channels(colour))]));
  }

  // Black or white, whichever has the higher contrast (WCAG 2) on a colour.
  static inkOn(colour) {
    return luminance(colour) > 0.179 ? "#111111" : "#ffffff";
  }
}

function toSet(colours) {
  return {
    plain: colours.map(packed),
    dark: colours.map((colour) => packed(colour.map((value) => Math.round(value * 0.72)))),
    ink: colours.map(Palette.inkOn),
  };
}
