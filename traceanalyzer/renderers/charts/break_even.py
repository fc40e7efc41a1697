"""How far break-even is: the speed-up by accept length, with this run on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from traceanalyzer.renderers.charts.chart import Chart, error_bar, hover, written_ms
from traceanalyzer.renderers.palette import BLUE, phase_colour
from traceanalyzer.renderers.verdict_text import with_interval
from traceanalyzer.verdict.buckets import longest_run

if TYPE_CHECKING:
    from traceanalyzer.report import BucketReport, BucketVerdict, Estimated

_GREY: Final = "#8a919c"
_WIN: Final = "#009E73"
_LOSS: Final = "#D55E00"
_EVEN: Final = "break-even"
_HERE: Final = "this run"
_PERFECT: Final = "if every draft were accepted"
_FREE: Final = "this run if drafting were free"


@dataclass(frozen=True, slots=True)
class _Mark:
    """A point that the report holds."""

    name: str
    accept_len: float
    speedup: float
    label: str
    label_at: str
    looks: dict[str, Any]


def break_even(bucket: BucketReport, verdict: BucketVerdict | None) -> Chart | None:
    """Speed-up over accept length at the measured cycle: a line through 0 and break-even.

    S(A) = A x T_base / T, so break-even, this run and perfect acceptance lie on one line.
    """
    if verdict is None or verdict.speedup is None:
        return None
    here, even = verdict.accept_len, verdict.break_even_accept_len
    if here is None or even is None:
        return None
    marks = [_even(even), _here(here, verdict.speedup), *_bounds(bucket, verdict, here)]
    told = {_HERE: (with_interval(here), with_interval(verdict.speedup, unit="×"))}
    rows = [
        (mark.name, *told.get(mark.name, (f"{mark.accept_len:.2f}", f"{mark.speedup:.2f}×")))
        for mark in marks
    ]
    points = [_point(mark, row) for mark, row in zip(marks, rows, strict=True)]
    points[1] |= {"error_x": error_bar([here]), "error_y": error_bar([verdict.speedup])}
    return Chart(
        "break_even",
        "Speed-up by accept length, at the measured cycle",
        [_curve(marks), *points],
        _layout(marks),
        ("", "accept_len", "speed-up"),
        rows,
        note=_note(bucket, verdict),
    )


def _even(even: Estimated) -> _Mark:
    looks = {"symbol": "x", "size": 10, "color": _GREY}
    return _Mark(_EVEN, even.value, 1.0, f"{_EVEN} {even.value:.2f}", "bottom right", looks)


def _here(accept_len: Estimated, speedup: Estimated) -> _Mark:
    colour = _WIN if speedup.value > 1 else _LOSS
    looks = {"symbol": "circle", "size": 12, "color": colour}
    label = f"{_HERE} {speedup.value:.2f}×"
    return _Mark(_HERE, accept_len.value, speedup.value, label, "bottom right", looks)


def _bounds(bucket: BucketReport, verdict: BucketVerdict, here: Estimated) -> list[_Mark]:
    """What cannot be exceeded by work on acceptance alone, and by work on drafting alone."""
    marks = []
    longest, perfect = longest_run(bucket), verdict.perfect_acceptance_speedup
    if perfect is not None and longest is not None:
        looks = {"symbol": "star", "size": 11, "color": phase_colour("verify")}
        label = f"every draft accepted {perfect:.2f}×"
        marks.append(_Mark(_PERFECT, longest + 1.0, perfect, label, "top left", looks))
    free = verdict.free_drafting_speedup
    if free is not None:
        looks = {"symbol": "triangle-up-open", "size": 11, "color": phase_colour("draft")}
        label = f"free draft {free:.2f}×"
        marks.append(_Mark(_FREE, here.value, free, label, "middle left", looks))
    return marks


def _layout(marks: list[_Mark]) -> dict[str, Any]:
    plain = {"color": _GREY, "width": 1.5, "dash": "dash"}
    whole_width = {"xref": "paper", "x0": 0, "x1": 1}
    return {
        "height": 340,
        "xaxis": {
            "title": {"text": "accept_len: committed tokens per request and cycle, bonus included"},
            "range": [0, 1.12 * max(mark.accept_len for mark in marks)],
            "zeroline": False,
        },
        "yaxis": {
            "title": {"text": "speed-up of decoding"},
            "range": [0, 1.12 * max(mark.speedup for mark in marks)],
            "ticksuffix": "×",
            "zeroline": False,
        },
        "showlegend": False,
        "shapes": [{"type": "line", **whole_width, "y0": 1, "y1": 1, "line": plain}],
    }


def _curve(marks: list[_Mark]) -> dict[str, Any]:
    on_line = sorted((mark.accept_len, mark.speedup) for mark in marks if mark.name != _FREE)
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [0.0, *(x for x, _ in on_line)],
        "y": [0.0, *(y for _, y in on_line)],
        "hoverinfo": "skip",
        "line": {"color": BLUE, "width": 2},
    }


def _point(mark: _Mark, row: tuple[str, ...]) -> dict[str, Any]:
    name, accept_len, speedup = row
    return {
        "type": "scatter",
        "mode": "markers+text",
        "name": name,
        "text": [f" {mark.label} "],
        "textposition": mark.label_at,
        "cliponaxis": False,
        "x": [mark.accept_len],
        "y": [mark.speedup],
        "marker": mark.looks,
        "hoverinfo": "text",
        "hovertext": [hover(name, f"accept_len {accept_len}", f"speed-up {speedup}")],
    }


def _note(bucket: BucketReport, verdict: BucketVerdict) -> str:
    period = bucket.period_ns.mean
    cycle = f"The line holds for the measured cycle of {written_ms(period, period)} ms."
    plain, here = verdict.baseline_tokens_per_s, verdict.tokens_per_s
    if plain is None or here is None:
        return cycle
    return (
        f"{cycle} 1× is plain decoding: {with_interval(plain, 1)} tok/s. "
        f"This run decodes {with_interval(here, 1)} tok/s."
    )
