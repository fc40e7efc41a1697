"""A comparison as a page: what changed from A to B, pair by pair and phase by phase."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.renderers import comparison_text as words
from traceanalyzer.renderers.charts.comparison import comparison_charts
from traceanalyzer.renderers.html.escaping import element, joined
from traceanalyzer.renderers.html.sections import Section, folded, lines, sections_page, table
from traceanalyzer.verdict.comparison_words import phase_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from traceanalyzer.renderers.html.escaping import Markup
    from traceanalyzer.renderers.html.sections import Part
    from traceanalyzer.report.comparison import Comparison

_TONES: Final = {"faster": "good", "slower": "bad", "not comparable": "bad"}
_CLASS_WORDS: Final = (0, 8)


def render_comparison_page(comparison: Comparison) -> bytes:
    """One self-contained HTML file."""
    heading = [element("h1", "Comparison"), *_captures(comparison)]
    sections = [
        Section("answer", "What changed", _answer, wide=True),
        Section("obstacles", "Can they be compared?", _obstacles, wide=True),
        Section("shapes", "By shape of cycles", _by_shape, wide=True),
        *(
            Section(f"pair-{place}", words.pair_title(pair), _pair(place), wide=True)
            for place, pair in enumerate(comparison.buckets)
        ),
        Section("unmatched", "On one side only", _unmatched, wide=True),
        Section("provenance", "Provenance", _provenance, wide=True),
    ]
    return sections_page("Comparison - traceanalyzer", heading, sections, comparison)


def _captures(comparison: Comparison) -> list[Markup]:
    return [
        element("p", element("b", f"{side} "), words.capture_line(capture), class_="muted")
        for side, capture in (("A", comparison.a), ("B", comparison.b))
    ]


def _answer(comparison: Comparison) -> Sequence[Part]:
    sign = words.SIGNS.get(comparison.outcome, "·")
    tone = _TONES.get(comparison.outcome, "unsure")
    headline = element("p", f"{sign} {comparison.summary}", class_="headline")
    together = words.overall_line(comparison) or ""
    return [element("div", headline, *lines(together), class_=f"answer {tone}")]


def _obstacles(comparison: Comparison) -> Sequence[Part]:
    rows = [
        (
            element(
                "span",
                "no" if each.blocks else "weak",
                class_=f"mark {'bad' if each.blocks else 'unsure'}",
            ),
            each.obstacle,
            joined(each.text, *([element("br"), each.next_step] if each.next_step else [])),
        )
        for each in comparison.obstacles
    ]
    return [table(("", "what", "finding"), rows, words=(0, 1, 2))] if rows else []


def _by_shape(comparison: Comparison) -> Sequence[Part]:
    if len(comparison.buckets) < 2:
        return []
    rows = [words.pair_row(each) for each in comparison.buckets]
    return [table(words.PAIR_TITLES, rows, words=(0, 6))]


def _pair(place: int) -> Callable[[Comparison], Sequence[Part]]:
    def parts(comparison: Comparison) -> Sequence[Part]:
        pair = comparison.buckets[place]
        found: list[Part] = [*lines(*words.pair_lines(pair, comparison.summary))]
        found.append(table(words.PHASE_TITLES, words.phase_rows(pair)))
        found += comparison_charts(comparison, place)
        for phase in pair.phases:
            if phase.classes:
                rows = words.class_rows(phase)
                classes = table(words.CLASS_TITLES, rows, words=_CLASS_WORDS)
                found.append(folded(f"{phase_name(phase)} by kernel class", classes))
        return found

    return parts


def _unmatched(comparison: Comparison) -> Sequence[Part]:
    rows = words.unmatched_rows(comparison)
    return [table(words.UNMATCHED_TITLES, rows, words=(0, 1))] if rows else []


def _provenance(comparison: Comparison) -> Sequence[Part]:
    return lines(f"Written by {comparison.tool.name} {comparison.tool.version}.")
