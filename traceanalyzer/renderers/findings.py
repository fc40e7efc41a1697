"""Findings on a capture, for a person: each with its evidence, what follows, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.padding import Padding
from rich.text import Text

from traceanalyzer.renderers.figures import safe
from traceanalyzer.renderers.markdown_tables import escaped
from traceanalyzer.renderers.screen import Column, bold, capture, fitted, screen_width

if TYPE_CHECKING:
    from rich.console import RenderableType

    from traceanalyzer.report import Finding
    from traceanalyzer.report.diagnosis import Diagnosis

_SOUND: Final = "Nothing is wrong with this capture, as far as can be seen in it."
_COLOURS: Final = {"error": "red", "warning": "yellow", "info": "dim"}
_INDENT: Final = 2


def render_terminal(found: Diagnosis, *, plain: bool) -> str:
    """Render for a person.

    Args:
        found: The findings.
        plain: Whether to leave out colour, for a file.
    """
    first = safe(found.files[0].path)
    more = f" and {len(found.files) - 1} more" if len(found.files) > 1 else ""
    parts: list[RenderableType] = [bold(first + more), ""]
    if not found.findings:
        parts.append(_SOUND)
    for finding in found.findings:
        parts += [_headline(finding), _details(finding), ""]
    return capture(parts, plain=plain)


def _headline(finding: Finding) -> Text:
    line = Text()
    line.append(f"{finding.severity}: ", style=_COLOURS[finding.severity])
    line.append(safe(finding.text), style="bold")
    line.append(f" [{finding.finding}]", style="dim")
    return line


def _details(finding: Finding) -> RenderableType:
    columns = [
        Column("", 9, figures=False),
        Column("", 9, figures=False, wraps=True, least_width=20),
    ]
    rows = [(label, safe(text)) for label, text in _parts(finding) if text]
    return Padding(fitted(columns, rows, width=screen_width() - _INDENT), (0, 0, 0, _INDENT))


def _parts(finding: Finding) -> tuple[tuple[str, str], ...]:
    return (
        ("seen", finding.evidence),
        ("so", finding.consequence),
        ("do", finding.next_step or ""),
    )


def render_markdown(found: Diagnosis) -> str:
    """Render as GitHub-flavoured Markdown."""
    parts = ["# What is wrong with this capture", *(f"- {escaped(f.path)}" for f in found.files)]
    if not found.findings:
        parts.append(f"\n{_SOUND}")
    for finding in found.findings:
        title = f"\n## {finding.severity}: {escaped(finding.text)}"
        lines = [f"- {label}: {escaped(text)}" for label, text in _parts(finding) if text]
        parts += [title, f"\n`{finding.finding}`\n", *lines]
    return "\n".join(parts) + "\n"
