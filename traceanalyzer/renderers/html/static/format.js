"use strict";
// How figures are written, and how elements are made: texts only ever become text nodes.

const UNITS = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]];

// A time in the unit that suits it, with four digits or all of its nanoseconds.
function formatTime(ns) {
  const size = Math.abs(ns);
  const [unit, factor] = UNITS.find(([, each]) => size >= each) || UNITS[3];
  const value = ns / factor;
  const whole = Math.max(1, Math.floor(Math.log10(Math.abs(value) || 1)) + 1);
  return `${factor === 1 ? value.toFixed(0) : value.toFixed(Math.max(0, 4 - whole))} ${unit}`;
}

// A point of time with as many decimals as steps of `step` nanoseconds need.
function formatInstant(ns, step) {
  const [unit, factor] = UNITS.find(([, each]) => step * 1000 >= each && Math.abs(ns) >= each)
    || UNITS.find(([, each]) => step >= each) || UNITS[3];
  const decimals = Math.max(0, Math.ceil(Math.log10(factor / step) - 1e-9));
  return `${(ns / factor).toFixed(Math.min(9, decimals))} ${unit}`;
}

// Nanoseconds whole, thousands apart.
function formatCount(number) {
  return Math.round(number).toLocaleString("en-US");
}

function formatShare(share) {
  return `${(100 * share).toFixed(1)} %`;
}

// An element with properties and children; a string child is text, whatever it holds.
function make(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (key.includes("-") || key === "role") made.setAttribute(key, value);
    else made[key] = value;
  }
  made.append(...children);
  return made;
}

// A paragraph that says less important things.
function muted(text) {
  return make("p", { className: "muted" }, text);
}

// A table whose columns named in `figures` are aligned to the right.
function makeTable(caption, titles, rows, figures = []) {
  const cellClass = (place) => (figures.includes(place) ? "figure" : "");
  const head = titles.map((title, place) =>
    make("th", { className: cellClass(place), scope: "col" }, title));
  const body = rows.map((row) => make("tr", {}, ...row.map((cell, place) =>
    make("td", { className: cellClass(place) }, cell))));
  return make("table", {}, make("caption", {}, caption),
    make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...body));
}
