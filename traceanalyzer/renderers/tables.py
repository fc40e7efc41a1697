"""A polars table for a terminal, as CSV, or as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.renderers.figures import count, milliseconds, safe

if TYPE_CHECKING:
    import polars as pl

_RIGHT = {"instances", "ops", "kernels", "range_instances", "kernel_instances", "cross_thread"}


def render_table(table: pl.DataFrame, format_name: str, *, plain: bool) -> bytes:
    """Render.

    Args:
        table: Columns ending in `_ns` are times.
        format_name: terminal, csv or json.
        plain: Whether to leave out colour, for a file.
    """
    if format_name == "csv":
        return table.write_csv().encode()
    if format_name == "json":
        return table.write_json().encode() + b"\n"
    return _terminal(table, plain=plain).encode(errors="replace")


def _terminal(table: pl.DataFrame, *, plain: bool) -> str:
    from rich.table import Table

    from traceanalyzer.renderers.screen import capture

    shown = Table(box=None, pad_edge=False, header_style="bold")
    for column in table.columns:
        number = column in _RIGHT or column.endswith(("_ns", "_id"))
        title = column.removesuffix("_ns") + " ms" if column.endswith("_ns") else column
        shown.add_column(
            title.replace("_", " "),
            justify="right" if number else "left",
            no_wrap=number,
            overflow="fold",
        )
    for row in table.iter_rows():
        shown.add_row(*(_cell(name, value) for name, value in zip(table.columns, row, strict=True)))
    return capture([shown], plain=plain)


def _cell(column: str, value: object) -> str:
    if value is None:
        return "-"
    if column.endswith("_ns") and isinstance(value, int):
        return milliseconds(value)
    if column in _RIGHT and isinstance(value, int):
        return count(value)
    return safe(str(value))
