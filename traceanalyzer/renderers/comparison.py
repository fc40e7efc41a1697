"""A comparison for a person: on a terminal, and as Markdown for an issue or a chat."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.padding import Padding
from rich.text import Text

from traceanalyzer.renderers import comparison_text as words
from traceanalyzer.renderers.figures import safe
from traceanalyzer.renderers.markdown_tables import escaped, markdown_table
from traceanalyzer.renderers.screen import Column, bold, capture, fitted, indented, screen_width
from traceanalyzer.verdict.comparison_words import phase_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from traceanalyzer.report.comparison import BucketComparison, Comparison, PhaseComparison

_STYLES: Final = {"faster": "green", "slower": "red", "mixed": "yellow", "not comparable": "red"}
_PAIRS_SHOWN: Final = 3
_PHASE_NEEDS: Final = (9, 8, 8, 7, 6, 5, 5, 4, 2, 2)
_CLASS_NEEDS: Final = (9, 8, 8, 7, 4, 4, 3, 3, 6)
_PAIR_NEEDS: Final = (9, 4, 4, 6, 7, 8, 8)
_WORDS_OF: Final = {"cycles of", "phase", "class", "kernel", "only in", ""}
_WRAPPED: Final = {"cycles of": 24, "kernel": 24}


def render_terminal(found: Comparison, *, plain: bool) -> str:
    """Render for a person.

    Args:
        found: The comparison.
        plain: Whether to leave out colour, for a file.
    """
    style = _STYLES.get(found.outcome, "default")
    sign = words.SIGNS.get(found.outcome, "·")
    parts: list[RenderableType] = [
        Text.assemble(("A  ", "bold"), safe(words.capture_line(found.a))),
        Text.assemble(("B  ", "bold"), safe(words.capture_line(found.b))),
        "",
        Text.assemble((f"{sign}  {safe(found.summary)}", f"bold {style}")),
        "",
        *_obstacles(found),
        *_by_shape(found),
    ]
    for pair in found.buckets[:_PAIRS_SHOWN]:
        parts += _pair(pair, found.summary)
    parts += _unmatched(found)
    return capture(parts, plain=plain)


def _table(
    titles: Sequence[str], needs: Sequence[int], rows: Sequence[Sequence[str]]
) -> RenderableType:
    columns = [
        Column(
            title,
            need,
            figures=title not in _WORDS_OF,
            wraps=title in _WRAPPED,
            least_width=_WRAPPED.get(title, 0),
        )
        for title, need in zip(titles, needs, strict=True)
    ]
    cells = [[safe(cell) for cell in row] for row in rows]
    return indented(fitted(columns, cells, width=screen_width() - 2))


def _obstacles(found: Comparison) -> list[RenderableType]:
    if not found.obstacles:
        return []
    columns = [
        Column("", 9, figures=False),
        Column("", 8, figures=False),
        Column("", 9, figures=False, wraps=True, least_width=20),
    ]
    rows: list[list[str | Text]] = [
        [
            Text("no" if each.blocks else "weak", style="red" if each.blocks else "yellow"),
            safe(each.obstacle),
            safe(each.text) + (f"\n{safe(each.next_step)}" if each.next_step else ""),
        ]
        for each in found.obstacles
    ]
    table = indented(fitted(columns, rows, width=screen_width() - 2))
    return [bold("Can they be compared?"), table, ""]


def _by_shape(found: Comparison) -> list[RenderableType]:
    """One row a pair, where there are several; then all together."""
    parts: list[RenderableType] = []
    if len(found.buckets) > 1:
        rows = [words.pair_row(each) for each in found.buckets]
        parts += [bold("By shape of cycles"), _table(words.PAIR_TITLES, _PAIR_NEEDS, rows)]
    together = words.overall_line(found)
    if together:
        parts.append(Padding(safe(together), (0, 0, 0, 2)))
    return [*parts, ""] if parts else []


def _pair(found: BucketComparison, headline: str) -> list[RenderableType]:
    parts: list[RenderableType] = [bold(safe(words.pair_title(found)))]
    parts += [safe(line) for line in words.pair_lines(found, headline)]
    parts += ["", _table(words.PHASE_TITLES, _PHASE_NEEDS, words.phase_rows(found)), ""]
    for phase in found.phases:
        parts += _classes(phase)
    return parts


def _classes(phase: PhaseComparison) -> list[RenderableType]:
    if not phase.classes:
        return []
    title = bold(safe(_class_title(phase)))
    return [title, _table(words.CLASS_TITLES, _CLASS_NEEDS, words.class_rows(phase)), ""]


def _class_title(phase: PhaseComparison) -> str:
    return (
        f"{phase_name(phase)} by kernel class, over {phase.class_cycles_a:,} and "
        f"{phase.class_cycles_b:,} cycles with kernels"
    )


def _unmatched(found: Comparison) -> list[RenderableType]:
    if not found.unmatched:
        return []
    rows = words.unmatched_rows(found)
    return [bold("On one side only"), _table(words.UNMATCHED_TITLES, (9, 9, 5, 7, 6), rows), ""]


def render_markdown(found: Comparison) -> str:
    """Render as GitHub-flavoured Markdown."""
    sides = [("A", words.capture_line(found.a)), ("B", words.capture_line(found.b))]
    sign = words.SIGNS.get(found.outcome, "")
    parts = ["# Comparison", markdown_table(("", "capture"), sides)]
    parts.append(f"{sign} **{escaped(found.summary)}**")
    if found.obstacles:
        rows = [
            ("no" if each.blocks else "weak", each.obstacle, each.text, each.next_step or "")
            for each in found.obstacles
        ]
        table = markdown_table(("", "what", "finding", "next step"), rows)
        parts.append(f"## Can they be compared?\n\n{table}")
    if len(found.buckets) > 1:
        table = markdown_table(words.PAIR_TITLES, map(words.pair_row, found.buckets))
        parts.append(f"## By shape of cycles\n\n{table}")
    together = words.overall_line(found)
    if together:
        parts.append(escaped(together))
    parts += [_markdown_pair(each, found.summary) for each in found.buckets]
    if found.unmatched:
        table = markdown_table(words.UNMATCHED_TITLES, words.unmatched_rows(found))
        parts.append(f"## On one side only\n\n{table}")
    return "\n\n".join(parts) + "\n"


def _markdown_pair(found: BucketComparison, headline: str) -> str:
    parts = [
        f"## {escaped(words.pair_title(found))}",
        *(escaped(line) for line in words.pair_lines(found, headline)),
        markdown_table(words.PHASE_TITLES, words.phase_rows(found)),
    ]
    for phase in found.phases:
        if phase.classes:
            parts.append(f"### {escaped(_class_title(phase))}")
            parts.append(markdown_table(words.CLASS_TITLES, words.class_rows(phase)))
    return "\n\n".join(parts)
