"""Why verify is dearer than a plain step: kernel classes of both beside each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.kernels.short_names import short_name, short_pair
from traceanalyzer.renderers.charts.chart import (
    Chart,
    bars,
    height_of,
    hover,
    in_ms,
    named_axis,
    value_axis,
    written_ms,
)
from traceanalyzer.renderers.palette import phase_colour

if TYPE_CHECKING:
    from traceanalyzer.report import BucketVerdict, Growth


def verify_growth(verdict: BucketVerdict | None) -> Chart | None:
    """A plain step against verify, class by class, the largest growth first."""
    if verdict is None or not verdict.growth:
        return None
    rows = verdict.growth
    longest = max(max(row.decode_ns, row.verify_ns) for row in rows)
    layout = {
        "height": height_of(len(rows)) + 4 * len(rows),
        "xaxis": value_axis("ms", in_ms(longest)),
        "yaxis": named_axis([row.name for row in rows]),
        "barmode": "group",
        "bargap": 0.25,
    }
    plain = _side("plain step", "decode", [row.decode_ns for row in rows], rows, longest)
    verify = _side("verify", "verify", [row.verify_ns for row in rows], rows, longest)
    factor = verdict.target_to_decode
    return Chart(
        "verify_growth",
        "Why verify costs more than a plain step"
        if factor is None
        else f"Why verify costs {factor:.2f}× a plain step",
        [plain, verify],
        layout,
        ("class", "plain ms", "verify ms", "more ms", "kernel"),
        [_row(row, longest) for row in rows],
        words=(0, 4),
        table_beside=True,
    )


def _row(row: Growth, longest: float) -> tuple[str, ...]:
    halves = row.decode_half_width_ns, row.verify_half_width_ns, row.more_half_width_ns
    times = [
        f"{written_ms(ns, longest)}{_doubt(half, longest)}"
        for ns, half in zip((row.decode_ns, row.verify_ns, row.more_ns), halves, strict=True)
    ]
    return (row.name, *times, _kernels(row.decode_kernel, row.verify_kernel))


def _doubt(half_width_ns: float | None, longest: float) -> str:
    return "" if half_width_ns is None else f" ± {written_ms(half_width_ns, longest)}"


def _kernels(plain: str | None, verify: str | None) -> str:
    """The longest kernels of a class; their whole names are in the hover box."""
    if plain is None or verify is None or plain == verify:
        return short_name(verify or plain or "")
    return " → ".join(short_pair(plain, verify))


def _side(
    name: str, phase: str, values: list[float], rows: list[Growth], longest: float
) -> dict[str, object]:
    kernels = [row.decode_kernel if phase == "decode" else row.verify_kernel for row in rows]
    texts = [f"{written_ms(ns, longest)} ms" for ns in values]
    return bars(
        range(len(rows)),
        [in_ms(ns) for ns in values],
        texts,
        name=name,
        textposition="outside",
        hovertext=[
            hover(f"{row.name}, {name}: {text}", *([kernel] if kernel else ()))
            for row, text, kernel in zip(rows, texts, kernels, strict=True)
        ],
        marker={"color": phase_colour(phase)},
    )
