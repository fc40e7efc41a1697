"""The verdict on a terminal: the first screen's headline, and why, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.padding import Padding
from rich.text import Text

from traceanalyzer.renderers import verdict_text as words
from traceanalyzer.renderers.bucket_table import OUTCOME, bucket_table
from traceanalyzer.renderers.figures import safe
from traceanalyzer.renderers.growth_text import (
    GROWTH_TITLES,
    cause_lines,
    evidence_lines,
    growth_rows,
)
from traceanalyzer.renderers.screen import Column, bold, fitted, indented, screen_width

if TYPE_CHECKING:
    from rich.console import RenderableType

    from traceanalyzer.report import BucketVerdict, Report, Verdict

# Which columns by batch stay longest where there is no room for all.
_TELLING: Final = 9
_NEEDS: Final = {
    "of cycle time": 5,
    "accept_len": 8,
    "break-even": 7,
    "tok/s": 4,
    "plain tok/s": 4,
    "speed-up": 9,
    OUTCOME: 9,
}
_STYLES: Final = {"winning": "green", "losing": "red", "undecided": "yellow", "mixed": "yellow"}


def headline(verdict: Verdict) -> list[RenderableType]:
    """The answer."""
    style = _STYLES.get(verdict.outcome, "dim")
    sign = words.SIGNS.get(verdict.outcome, "·")
    first, *more = words.headline(verdict)
    parts: list[RenderableType] = [Text.assemble((f"{sign}  {safe(first)}", f"bold {style}"))]
    parts += [Padding(safe(line), (0, 0, 0, 3)) for line in more]
    return [*parts, ""]


def by_batch(report: Report) -> list[RenderableType]:
    """One row a bucket, where there are several; then all together."""
    verdict, table = report.verdict, bucket_table(report)
    if verdict is None or table is None:
        return []
    columns = [
        Column(title, _TELLING if title in table.telling else _NEEDS[title])
        for title in table.titles
    ]
    parts: list[RenderableType] = [
        bold("By batch"),
        indented(fitted(columns, table.rows, width=screen_width() - 2)),
    ]
    together = words.mixed_line(verdict)
    return [*parts, *([Padding(together, (0, 0, 0, 2))] if together else []), ""]


def why_and_what(report: Report) -> list[RenderableType]:
    """Acceptance, distance to break-even, why verify is dear, what to do, what to measure."""
    verdict = report.verdict
    main = words.main_bucket(verdict) if verdict else None
    if verdict is None or main is None:
        return []
    parts: list[RenderableType] = [safe(line) for line in words.detail_lines(report, main)]
    parts += [""] if parts else []
    return [*parts, *_growth(main), *_actions(verdict)]


def _growth(main: BucketVerdict) -> list[RenderableType]:
    rows, factor = growth_rows(main), main.target_to_decode
    if not rows:
        return []
    needs = (9, 7, 8, 4, 6, 5)
    columns = [
        Column(title, need, figures=0 < place < 5, wraps=place == 5, least_width=24)
        for place, (title, need) in enumerate(zip(GROWTH_TITLES, needs, strict=True))
    ]
    cells = [[safe(cell) for cell in row] for row in rows]
    title = "Why verify costs more than a plain step"
    if factor is not None:
        title = f"Why verify costs {factor:.2f}× a plain step"
    table = indented(fitted(columns, cells, width=screen_width() - 2))
    causes = [Padding(safe(line), (0, 0, 0, 2)) for line in cause_lines(main)]
    rests = [Text(f"  {safe(line)}", style="dim") for line in evidence_lines(main)]
    return [bold(title), *causes, table, *rests, ""]


def _actions(verdict: Verdict) -> list[RenderableType]:
    parts: list[RenderableType] = []
    if verdict.actions:
        columns = [
            Column("", 9),
            Column("what to do", 9, figures=False, wraps=True, least_width=26),
            Column("at most", 8),
            Column("evidence", 7, figures=False, wraps=True, least_width=24),
            Column("refuted by", 6, figures=False, wraps=True, least_width=16),
        ]
        rows = [[safe(cell) for cell in row] for row in words.action_rows(verdict)]
        parts += [bold("What to do"), indented(fitted(columns, rows, width=screen_width() - 2))]
    if verdict.next_measurement:
        parts.append(Text.assemble(("Next measurement: ", "bold"), safe(verdict.next_measurement)))
    parts += [Text(f"Note: {safe(line)}", style="dim") for line in verdict.caveats]
    return [*parts, ""] if parts else []
