"""The verdict as Markdown: what the terminal's first screen says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.renderers import verdict_text as words
from traceanalyzer.renderers.bucket_table import bucket_table
from traceanalyzer.renderers.growth_text import (
    GROWTH_TITLES,
    cause_lines,
    evidence_lines,
    growth_rows,
)
from traceanalyzer.renderers.markdown_tables import escaped, markdown_table

if TYPE_CHECKING:
    from traceanalyzer.report import Report


def headline(report: Report) -> list[str]:
    """The answer, on top."""
    verdict = report.verdict
    if verdict is None:
        return []
    sign = words.SIGNS.get(verdict.outcome, "")
    first, *more = (escaped(line) for line in words.headline(verdict))
    return [f"**{f'{sign} {first}'.strip()}**", *more]


def why_and_what(report: Report) -> list[str]:
    """Acceptance, break-even, why verify is dear, what to do."""
    verdict = report.verdict
    main = words.main_bucket(verdict) if verdict else None
    if verdict is None or main is None:
        return []
    parts = []
    buckets = bucket_table(report)
    if buckets is not None:
        parts.append("## By batch\n\n" + markdown_table(buckets.titles, buckets.rows))
    lines = words.detail_lines(report, main)
    if lines:
        parts.append("\n".join(f"- {escaped(line)}" for line in lines))
    growth = growth_rows(main)
    if growth:
        parts.append("## Why verify costs more than a plain step")
        parts.append("\n".join(f"- {escaped(line)}" for line in cause_lines(main)))
        parts.append(markdown_table(GROWTH_TITLES, growth))
        parts.append("\n".join(f"- {escaped(line)}" for line in evidence_lines(main)))
    if verdict.actions:
        table = markdown_table(words.ACTION_TITLES, words.action_rows(verdict))
        parts.append(f"## What to do\n\n{table}")
    if verdict.next_measurement:
        parts.append(f"**Next measurement:** {escaped(verdict.next_measurement)}")
    parts += [f"Note: {escaped(line)}" for line in verdict.caveats]
    return parts
