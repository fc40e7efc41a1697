"""The timeline page that the tests look at, and how they look at it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from traceanalyzer.renderers.html.timeline_page import timeline_page

if TYPE_CHECKING:
    from pathlib import Path

    from tests.renderers.html.browsers import Opened
    from traceanalyzer.analyses.timeline_lanes.model import TimelineLanes
    from traceanalyzer.trace import Trace

READY = "typeof timelinePage === 'object' && timelinePage.ready"
HOSTILE = (
    "void f<b>(int)",
    "<script>window.hit = 1</script>",
    "</script><script>window.hit = 2</script>",
    "<img src=x onerror=window.hit=3>",
    '"><svg onload=window.hit=4>',
    "javascript:window.hit=5",
    '<a href="https://example.org">click</a>',
    "<!-- comment",
    "]]>",
    "&lt;b&gt; &amp; &#60;",
    "less<a>::operator()(less<b> const&)",
    "{data} {{lanes}} ${window.hit=6}",
    "%{x}<extra></extra>",
    "$\\frac{a}{b}$",
    "line\nfeed\ttab\rreturn",
    "null\x00byte \x1b[31mred",
    "right\u202eto left\u2066",
    "=HYPERLINK(1)",
    "`tick` ' \" \\",
    "  spaces  ",
    "\u0645\u0631\u062d\u0628\u0627 mixed",
    "emoji \U0001f600 \ufffd",
    "x" * 3_000,
)


def hostile(trace: Trace) -> Trace:
    """The trace with other people's texts in place of the first kernels' names."""
    kernels = trace.ops.filter(pl.col("kind") == "kernel")["name"].unique(maintain_order=True)
    new = dict(zip(kernels.to_list(), HOSTILE, strict=False))
    assert len(new) == len(HOSTILE)
    texts = [new.get(row, text) for row, text in trace.names.iter_rows()]
    return replace(trace, names=trace.names.with_columns(text=pl.Series(texts)))


def crowded(trace: Trace) -> Trace:
    """The trace with ops that overlap the next one of their stream, and with ops of 0 ns."""
    row, end = pl.int_range(pl.len()), pl.col("end_ns")
    changed = pl.when(row % 7 == 3).then(end + 3_000).when(row % 11 == 5).then("start_ns")
    return replace(trace, ops=trace.ops.with_columns(end_ns=changed.otherwise(end)))


def written(lanes: TimelineLanes, folder: Path) -> Path:
    file = folder / "timeline.html"
    file.write_bytes(timeline_page(lanes, ["a<b>.sqlite"]).encode())
    return file


def view(page: Opened) -> tuple[float, float]:
    found = page.js("timelinePage.timeline.view")
    return found["from"], found["to"]


def point(page: Opened, time: float, title: str, group: int = 0) -> tuple[float, float]:
    """Where on the screen a time of a lane is."""
    found = page.js(
        """([time, title, group]) => {
          const { timeline } = timelinePage;
          const box = timeline.canvas.getBoundingClientRect();
          const row = timeline.layout.rows.find(
            each => each.lane && each.lane.title === title && each.group === group);
          const y = timeline.yOf(row) + row.height / 2;
          return [box.left + timeline.xOf(time), box.top + y];
        }""",
        [float(time), title, group],
    )
    return found[0], found[1]


def selected(page: Opened) -> tuple[int, int] | None:
    found = page.js(
        "(({ selected }) => selected && [selected.lane.index, selected.row])(timelinePage.timeline)"
    )
    return None if found is None else (found[0], found[1])


PIXELS = """title => {
  const { timeline, store } = timelinePage;
  timeline.draw();
  const row = timeline.layout.rows.find(
    each => each.lane && each.lane.title === title && each.group === 0);
  const ground = timeline.palette.pixel.row;
  const top = Math.round((row.top - timeline.scroll) * timeline.ratio);
  const height = Math.round(row.height * timeline.ratio);
  const { frame } = timeline;
  const phases = timeline.palette.sets.gpu;
  const columns = [];
  for (let x = 0; x < frame.width; x++) {
    const counts = {};
    for (let y = top; y < top + height; y++) {
      const colour = frame.pixels[y * frame.width + x];
      const plain = phases.plain.indexOf(colour);
      const place = plain >= 0 ? plain : phases.dark.indexOf(colour);
      if (colour !== ground) counts[place] = (counts[place] || 0) + 1;
    }
    columns.push(counts);
  }
  return { columns, height, from: timeline.view.from, perPixel: timeline.span / frame.width };
}"""
