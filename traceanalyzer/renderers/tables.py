"""A polars table for a terminal, as Markdown, CSV, or JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.renderers.figures import count, milliseconds, safe

if TYPE_CHECKING:
    import polars as pl

_COUNTS: Final = {
    "instances",
    "ops",
    "kernels",
    "range_instances",
    "kernel_instances",
    "cross_thread",
}
_LONG: Final = {"range": 56, "kernel": 40}
"""Columns whose text may be broken, and the width below which it is not."""
_NEED: Final = {
    "range": 9,
    "kernel": 9,
    "phase": 8,
    "gpu_ns": 7,
    "total_ns": 7,
    "host_ns": 6,
    "instances": 5,
    "kernel_instances": 5,
    "kernels": 4,
    "range_instances": 4,
    "ops": 3,
    "thread_id": 3,
    "process_id": 2,
    "style": 2,
    "cross_thread": 1,
}
_ROWS_SHOWN: Final = 200


def render_table(table: pl.DataFrame, format_name: str, *, plain: bool) -> bytes:
    """Render.

    Args:
        table: Columns ending in `_ns` are times.
        format_name: terminal, markdown, csv or json; a person is shown the first 200 rows.
        plain: Whether to leave out colour, for a file.
    """
    if format_name == "csv":
        return table.write_csv().encode()
    if format_name == "json":
        return table.write_json().encode() + b"\n"
    shown = table.head(_ROWS_SHOWN)
    more = table.height - shown.height
    note = f"... and {more:,} more rows: --format csv has them all" if more else ""
    if format_name == "markdown":
        return _markdown(shown, note).encode(errors="replace")
    return _terminal(shown, note, plain=plain).encode(errors="replace")


def _markdown(table: pl.DataFrame, note: str) -> str:
    from traceanalyzer.renderers.markdown_tables import markdown_table

    rows = [
        [_figure(name, value) for name, value in zip(table.columns, row, strict=True)]
        for row in table.iter_rows()
    ]
    text = markdown_table([_title(column) for column in table.columns], rows) + "\n"
    return f"{text}\n{note}\n" if note else text


def _terminal(table: pl.DataFrame, note: str, *, plain: bool) -> str:
    from traceanalyzer.renderers.screen import Column, capture, fitted, screen_width

    rows = [
        [safe(_figure(name, value)) for name, value in zip(table.columns, row, strict=True)]
        for row in table.iter_rows()
    ]
    columns = [
        Column(
            _title(name),
            _NEED.get(name, 1),
            figures=_is_number(name),
            wraps=name in _LONG,
            least_width=min(_LONG.get(name, 0), max((len(row[place]) for row in rows), default=0)),
        )
        for place, name in enumerate(table.columns)
    ]
    shown = fitted(columns, rows, width=screen_width())
    return capture([shown, note] if note else [shown], plain=plain)


def _title(column: str) -> str:
    return (column.removesuffix("_ns") + " ms" if column.endswith("_ns") else column).replace(
        "_", " "
    )


def _is_number(column: str) -> bool:
    return column in _COUNTS or column.endswith(("_ns", "_id"))


def _figure(column: str, value: object) -> str:
    if value is None:
        return "-"
    if column.endswith("_ns") and isinstance(value, int):
        return milliseconds(value)
    if column in _COUNTS and isinstance(value, int):
        return count(value)
    return str(value)
