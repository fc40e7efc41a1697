"""Rich output as text: coloured and as wide as the terminal, or plain for a file or pipe."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType

_PIPE_WIDTH = 110


def capture(parts: Iterable[RenderableType], *, plain: bool) -> str:
    """Render parts one below the other.

    Args:
        parts: What rich can render.
        plain: Whether to leave out colour even on a terminal.
    """
    on_terminal = sys.stdout.isatty() and not plain
    console = Console(
        width=None if on_terminal else _PIPE_WIDTH,
        force_terminal=on_terminal,
        color_system="auto" if on_terminal else None,
        highlight=False,
        emoji=False,
    )
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    return "".join(line.rstrip() + "\n" for line in captured.get().splitlines())
