"""A table that grows while a file is read, each column in one piece."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Mapping


class Stack:
    """Rows put end to end as they come; columns without values take no memory until joined.

    Args:
        dtypes: Type of each column.
        copying: Copy each block behind the rows so far, and so let go of it: for blocks whose
            memory is given up only as a whole. Else blocks are kept until they are joined, a
            column after another: what is held then is the table and one column more.
    """

    def __init__(self, dtypes: Mapping[str, pl.DataType], *, copying: bool) -> None:
        self._columns = {name: pl.Series(name, dtype=dtype) for name, dtype in dtypes.items()}
        self._height = 0
        self._copying = copying

    def add(self, block: pl.DataFrame) -> None:
        """Append a block that has some of these columns; the others are null in it."""
        for values in block.iter_columns():
            if values.null_count() < values.len():
                self._pad(values.name)
                self._grow(values.name, values)
        self._height += block.height

    def _pad(self, name: str) -> None:
        column = self._columns[name]
        missing = self._height - column.len()
        if missing:
            nulls = pl.repeat(None, missing, dtype=column.dtype, eager=True).alias(name)
            if column.len():
                self._grow(name, nulls)
            else:
                self._columns[name] = nulls  # its pages stay untouched, so they take no memory

    def _grow(self, name: str, values: pl.Series) -> None:
        column = self._columns[name]
        if self._copying:
            column.extend(values)
        else:
            column.append(values)

    def joined(self) -> pl.DataFrame:
        """All rows, each column in one piece; the stack is empty afterwards."""
        joined = []
        for name in list(self._columns):
            self._pad(name)
            joined.append(self._columns.pop(name).rechunk())
        return pl.DataFrame(joined)
