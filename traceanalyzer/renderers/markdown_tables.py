"""Tables and texts as GitHub-flavoured Markdown, with names from a trace made harmless."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def markdown_table(
    titles: Sequence[str], rows: Iterable[Sequence[str]], *, literal: bool = False
) -> str:
    """A table; cells are escaped unless they are `literal` Markdown of ours."""
    lines = [titles, ["---"] * len(titles)]
    lines += [row if literal else [escaped(cell) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def escaped(text: str) -> str:
    """A text without meaning in Markdown or HTML."""
    shown = "".join(char if char.isprintable() else "\ufffd" for char in text)
    for char in "\\`*_<>[]|":
        shown = shown.replace(char, "\\" + char)
    return shown
