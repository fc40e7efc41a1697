"""Charts of a comparison: each phase in A and in B, and what it adds to the cycle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from traceanalyzer.renderers.charts.chart import (
    Chart,
    bars,
    error_bar,
    height_of,
    hover,
    in_ms,
    named_axis,
    value_axis,
    written_ms,
)
from traceanalyzer.renderers.charts.cycle import CYCLE, OVERLAP
from traceanalyzer.renderers.figures import NS_PER_MS
from traceanalyzer.renderers.palette import BLUE
from traceanalyzer.verdict.comparison_words import percent, phase_name

if TYPE_CHECKING:
    from traceanalyzer.report import Estimated
    from traceanalyzer.report.comparison import BucketComparison, Comparison, Figure

_A: Final = "#999999"
_SLOWER: Final = "#D55E00"
_FASTER: Final = "#009E73"


def comparison_charts(comparison: Comparison, place: int) -> list[Chart]:
    """The charts of one pair of a comparison, given its place."""
    pair = comparison.buckets[place]
    found = (sides(pair, place), changes(pair, place))
    return [chart for chart in found if chart is not None]


def sides(pair: BucketComparison, place: int) -> Chart | None:
    """Each phase's window in A and in B."""
    rows = [(phase_name(phase), phase.ns_per_cycle) for phase in pair.phases]
    rows.append((CYCLE, pair.period_ns))
    longest = max(
        (each.value for _, found in rows for each in (found.a, found.b) if each), default=0
    )
    if not longest:
        return None
    layout = {
        "height": height_of(len(rows)) + 8 * len(rows),
        "xaxis": value_axis("ms a cycle", in_ms(longest)),
        "yaxis": named_axis([name for name, _ in rows]),
        "barmode": "group",
        "bargap": 0.25,
    }
    return Chart(
        f"sides_{place}",
        "Windows in A and in B",
        [_side("A", rows, longest, _A), _side("B", rows, longest, BLUE)],
        layout,
        ("", "A ms", "B ms"),
        [(name, *(_written(each, longest) for each in (found.a, found.b))) for name, found in rows],
    )


def _written(found: Estimated | None, longest: float) -> str:
    return "-" if found is None else written_ms(found.value, longest)


def _side(name: str, rows: list[tuple[str, Figure]], longest: float, colour: str) -> dict[str, Any]:
    known = [
        (row, title, each)
        for row, (title, found) in enumerate(rows)
        for each in [found.a if name == "A" else found.b]
        if each is not None
    ]
    texts = [f"{written_ms(each.value, longest)} ms" for _, _, each in known]
    return bars(
        [row for row, _, _ in known],
        [in_ms(each.value) for _, _, each in known],
        texts,
        name=name,
        hovertext=[
            hover(f"{title}, {name}", text)
            for (_, title, _), text in zip(known, texts, strict=True)
        ],
        textposition="outside",
        marker={"color": colour},
        error_x=error_bar([each for _, _, each in known], 1 / NS_PER_MS),
    )


def changes(pair: BucketComparison, place: int) -> Chart | None:
    """What each phase adds to the period, from A's cycle to B's; shares of A's cycle."""
    ratio = pair.period_ns.ratio
    if ratio is None:
        return None
    steps = [(phase_name(phase), phase.period_change_share) for phase in pair.phases]
    if pair.overlap_change_share:
        steps.append((OVERLAP, pair.overlap_change_share))
    names = ["A's cycle", *(name for name, _ in steps), "B's cycle"]
    lengths = [1.0, *(share for _, share in steps), ratio.value]
    bases = [0.0, *(1.0 + sum(s for _, s in steps[:row]) for row in range(len(steps))), 0.0]
    texts = ["100 %", *(percent(1 + share) for _, share in steps), percent(ratio.value)]
    colours = [_A, *(_SLOWER if share > 0 else _FASTER for _, share in steps), BLUE]
    ends = [base + length for base, length in zip(bases, lengths, strict=True)]
    trace = bars(
        range(len(names)),
        lengths,
        texts,
        base=bases,
        hovertext=[hover(name, text) for name, text in zip(names, texts, strict=True)],
        marker={"color": colours},
    )
    layout = {
        "height": height_of(len(names)),
        "xaxis": value_axis("of A's cycle", max(ends), tickformat=".0%"),
        "yaxis": named_axis(names),
        "showlegend": False,
        "bargap": 0.25,
    }
    return Chart(
        f"changes_{place}",
        "What each phase adds to the cycle",
        [trace],
        layout,
        ("", "of A's cycle"),
        list(zip(names, texts, strict=True)),
    )
