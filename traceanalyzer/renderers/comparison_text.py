"""Two captures beside each other as table cells, the same in every form that a person reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.kernels.short_names import short_name, short_pair
from traceanalyzer.renderers.figures import count, decimals_for, milliseconds, percent
from traceanalyzer.verdict.comparison_words import change, phase_name, shape_text
from traceanalyzer.verdict.comparison_words import percent as change_in_percent

if TYPE_CHECKING:
    from traceanalyzer.report import Estimated
    from traceanalyzer.report.comparison import (
        BucketComparison,
        ClassComparison,
        ComparedCapture,
        Comparison,
        Figure,
        PhaseComparison,
    )

SIGNS: Final = {
    "faster": "✓",
    "slower": "✗",
    "no sure change": "=",
    "mixed": "±",
    "not comparable": "!",
    "unknown": "?",
}
RELATIONS: Final = {
    "same shape": "",
    "speculation": "speculation off against on, at the same batch",
    "same tokens": "plain decode against verify, as many tokens in a forward",
}
PHASE_TITLES: Final = (
    "phase",
    "A ms",
    "B ms",
    "change",
    "of A's cycle",
    "A ms/token",
    "B ms/token",
    "change/token",
    "A idle ms",
    "B idle ms",
)
CLASS_TITLES: Final = (
    "class",
    "A ms",
    "B ms",
    "more ms",
    "A us/token",
    "B us/token",
    "A ops",
    "B ops",
    "kernel",
)
PAIR_TITLES: Final = ("cycles of", "A", "B", "cycle", "accept length", "net", "")
UNMATCHED_TITLES: Final = ("only in", "cycles of", "cycles", "of its cycle time", "ms/cycle")


def capture_line(found: ComparedCapture) -> str:
    """What one capture is."""
    names = found.files[0] if found.files else "nothing"
    if len(found.files) > 1:
        names += f" and {len(found.files) - 1} more"
    ranks = f"{count(found.ranks)} rank{'' if found.ranks == 1 else 's'}"
    return " · ".join([names, found.product, ranks, *found.gpus])


def pair_title(found: BucketComparison) -> str:
    """Which cycles are compared."""
    one, other = shape_text(found.a.shape), shape_text(found.b.shape)
    shapes = one if one == other else f"{one} against {other}"
    return f"{shapes} · {_cycles(found)}"


def pair_lines(found: BucketComparison, headline: str) -> list[str]:
    """What is said of a pair beside its tables; `headline` need not be said again."""
    summary = found.summary if found.summary != headline else None
    lines = [RELATIONS.get(found.relation), summary, *found.assumed, token_line(found)]
    return [line for line in lines if line]


def _cycles(found: BucketComparison) -> str:
    return f"{count(found.a.cycles)} and {count(found.b.cycles)} cycles"


def phase_rows(found: BucketComparison) -> list[tuple[str, ...]]:
    """Phases, overlap, and the whole cycle."""
    decimals = _decimals(found.period_ns)
    rows = [_phase_row(each, decimals) for each in found.phases]
    overlap = found.overlap_ns_per_cycle
    if any(each and each.value for each in (overlap.a, overlap.b)):
        share = _share(found.overlap_change_share)
        rows.append(
            ("two or more phases", *_values(overlap, decimals), _change(overlap), share, *[""] * 5)
        )
    whole = _whole_share(found.period_ns)
    per_token = found.period_ns_per_token
    rows.append(
        (
            "cycle",
            *_values(found.period_ns, decimals),
            _change(found.period_ns),
            whole,
            *_values(per_token, decimals),
            _change(per_token),
            "",
            "",
        )
    )
    return rows


def _phase_row(found: PhaseComparison, decimals: int) -> tuple[str, ...]:
    return (
        phase_name(found),
        *_values(found.ns_per_cycle, decimals),
        _change(found.ns_per_cycle),
        _share(found.period_change_share),
        *_values(found.ns_per_token, decimals),
        _change(found.ns_per_token),
        *_values(found.idle_ns_per_cycle, decimals),
    )


def class_rows(found: PhaseComparison) -> list[tuple[str, ...]]:
    """Kernel classes of one phase, the largest change first."""
    values = [each.value for row in found.classes for each in _both(row.ns_per_cycle)]
    decimals = decimals_for(max(values, default=0.0))
    return [_class_row(each, decimals) for each in found.classes]


def _class_row(found: ClassComparison, decimals: int) -> tuple[str, ...]:
    more = milliseconds(_more(found.ns_per_cycle), decimals=decimals)
    return (
        found.kernel_class,
        *_values(found.ns_per_cycle, decimals),
        more if more.startswith("-") else f"+{more}",
        *_microseconds(found.ns_per_token),
        *_numbers(found.ops_per_cycle, 0),
        _kernels(found.longest_kernel_a, found.longest_kernel_b),
    )


def _kernels(before: str | None, after: str | None) -> str:
    if before == after:
        return ""
    if before is None or after is None:
        return " → ".join("none" if each is None else short_name(each) for each in (before, after))
    return " → ".join(short_pair(before, after))


def token_line(found: BucketComparison) -> str | None:
    """Accept length and tokens per second, with what they changed by."""
    if found.accept_len is None or found.tokens_per_s is None:
        return None
    return (
        f"accept_len {_from_to(found.accept_len, 2)} (bonus token included) · "
        f"tokens/s while decoding {_from_to(found.tokens_per_s, 1)}"
    )


def _from_to(found: Figure, decimals: int) -> str:
    one, other = _numbers(found, decimals)
    told = f"{one} → {other}"
    return f"{told}: {change(found.ratio)}" if found.ratio else told


def pair_row(found: BucketComparison) -> tuple[str, ...]:
    """One pair among several."""
    one, other = shape_text(found.a.shape), shape_text(found.b.shape)
    return (
        one if one == other else f"{one} against {other}",
        count(found.a.cycles),
        count(found.b.cycles),
        _change(found.period_ns),
        _change(found.accept_len),
        _change(found.tokens_per_s),
        found.outcome,
    )


def unmatched_rows(found: Comparison) -> list[tuple[str, ...]]:
    """Buckets that stand in one capture only."""
    return [
        (
            each.capture,
            shape_text(each.side.shape),
            count(each.side.cycles),
            percent(each.side.time_share),
            milliseconds(each.period_ns.value, decimals=decimals_for(each.period_ns.value)),
        )
        for each in found.unmatched
    ]


def overall_line(found: Comparison) -> str | None:
    """All matched cycles together."""
    together = found.overall
    if together is None:
        return None
    matched = (
        f"{percent(together.matched_share_a)} of A's and {percent(together.matched_share_b)} of "
        "B's cycle time was matched"
    )
    if together.net is None:
        return f"all together: withheld, because {together.withheld_because} ({matched})"
    return f"all together, at A's mix of tokens: net {change(together.net)} ({matched})"


def _values(found: Figure | None, decimals: int) -> tuple[str, str]:
    one, other = (found.a, found.b) if found else (None, None)
    return _milliseconds(one, decimals), _milliseconds(other, decimals)


def _milliseconds(found: Estimated | None, decimals: int) -> str:
    return "-" if found is None else milliseconds(found.value, decimals=decimals)


def _microseconds(found: Figure | None) -> tuple[str, str]:
    one, other = (found.a, found.b) if found else (None, None)
    return _microsecond(one), _microsecond(other)


def _microsecond(found: Estimated | None) -> str:
    return "-" if found is None else f"{found.value / 1e3:,.1f}"


def _numbers(found: Figure | None, decimals: int) -> tuple[str, str]:
    one, other = (found.a, found.b) if found else (None, None)
    return _number(one, decimals), _number(other, decimals)


def _number(found: Estimated | None, decimals: int) -> str:
    return "-" if found is None else f"{found.value:,.{decimals}f}"


def _change(found: Figure | None) -> str:
    if found is None or found.ratio is None:
        return "-"
    return change(found.ratio)


def _both(found: Figure) -> list[Estimated]:
    return [each for each in (found.a, found.b) if each is not None]


def _more(found: Figure) -> float:
    return (found.b.value if found.b else 0.0) - (found.a.value if found.a else 0.0)


def _share(share: float) -> str:
    return change_in_percent(1 + share)


def _whole_share(period: Figure) -> str:
    return _share(period.ratio.value - 1) if period.ratio else "-"


def _decimals(period: Figure) -> int:
    return decimals_for(max((each.value for each in _both(period)), default=0.0))
