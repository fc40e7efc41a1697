"""Rich output as text: coloured and as wide as the terminal, or plain for a file or pipe.

No markup is interpreted, so a name from a trace cannot steer the screen. A table that does not
fit gives up its least needed columns and says so; figures are never cut.
"""

from __future__ import annotations

import io
import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.console import RenderableType

_PIPE_WIDTH: Final = 110
_INDENT: Final = 2
_BETWEEN: Final = 2  # what rich puts between columns without lines


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Attributes:
        title: Its heading.
        need: The higher, the longer it is kept when space is short.
        figures: Whether it holds figures: right-aligned and never broken.
        wraps: Whether its text may be broken over lines.
        least_width: Width below which its text is not broken, when `wraps`.
    """

    title: str
    need: int
    figures: bool = True
    wraps: bool = False
    least_width: int = 0


def screen_width() -> int:
    """Columns of the terminal, or of a page when output goes elsewhere."""
    return shutil.get_terminal_size().columns if _on_terminal() else _PIPE_WIDTH


def _on_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def capture(parts: Iterable[RenderableType], *, plain: bool) -> str:
    """Render parts one below the other.

    Args:
        parts: What rich can render; a text is shown as it is.
        plain: Whether to leave out colour even on a terminal.
    """
    coloured = _on_terminal() and not plain
    console = Console(
        file=io.StringIO(),
        width=screen_width(),
        force_terminal=coloured,
        color_system="auto" if coloured else None,
        highlight=False,
        emoji=False,
        markup=False,
    )
    for part in parts:
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    return "".join(line.rstrip() + "\n" for line in console.file.getvalue().splitlines())


def bold(text: str) -> Text:
    """A text that stands out."""
    return Text(text, style="bold")


def indented(part: RenderableType) -> RenderableType:
    """A part set in by two columns."""
    return Padding(part, (0, 0, 0, _INDENT))


def fitted(
    columns: Sequence[Column], rows: Sequence[Sequence[str | Text]], *, width: int
) -> RenderableType:
    """A table of the columns that fit, and which ones do not.

    Args:
        columns: All columns, as they stand side by side.
        rows: A cell for each column.
        width: Columns of the screen to fit into.
    """
    least = [
        _least_width(column, [row[place] for row in rows]) for place, column in enumerate(columns)
    ]
    kept = list(range(len(columns)))
    while len(kept) > 1 and sum(least[place] + _BETWEEN for place in kept) - _BETWEEN > width:
        kept.remove(min(kept, key=lambda place: (columns[place].need, -place)))
    table = _table(columns, rows, {place: least[place] for place in kept})
    left_out = [
        column.title for place, column in enumerate(columns) if place not in kept and column.title
    ]
    if not left_out:
        return table
    return Group(table, Text(f"(no room for: {', '.join(left_out)})", style="dim"))


def _least_width(column: Column, cells: Sequence[str | Text]) -> int:
    """The width without which a column's text would be cut, or broken too far."""
    longest = max((_cells(line) for cell in cells for line in str(cell).split("\n")), default=0)
    if column.wraps:
        longest = min(longest, column.least_width)
    return max(longest, _cells(column.title))


def _cells(text: str) -> int:
    return Text(text).cell_len


def _table(
    columns: Sequence[Column], rows: Sequence[Sequence[str | Text]], least: Mapping[int, int]
) -> Table:
    titled = any(columns[place].title for place in least)
    table = Table(box=None, pad_edge=False, header_style="bold", show_header=titled)
    for place, width in least.items():
        column = columns[place]
        table.add_column(
            column.title,
            justify="right" if column.figures else "left",
            no_wrap=not column.wraps,
            overflow="fold",
            min_width=width,
        )
    for row in rows:
        table.add_row(*(row[place] for place in least))
    return table
