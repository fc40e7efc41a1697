"""Every distinct text or id of a trace once, by row number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST_ROWS_AN_ID: Final = 4
_FEW_ROWS: Final = 1024
_FEW_IDS: Final = 16


class Names:
    """Collects texts while a file is read; row 0 is the empty text, which null reads as."""

    def __init__(self) -> None:
        self._rows: dict[str, int] = {"": 0}

    def id(self, text: str) -> int:
        """Row number of one text."""
        return self._rows.setdefault(text, len(self._rows))

    def ids(self, texts: pl.Series) -> pl.Series:
        """Row numbers (Int32) of a String series; null reads as the empty text."""
        distinct = texts.unique(maintain_order=True).drop_nulls()
        if not distinct.len():
            return pl.repeat(0, texts.len(), dtype=pl.Int32, eager=True)
        numbers = self._numbers(distinct)
        if distinct.len() == texts.len() - texts.null_count():
            # Each but once, as with millions of request ids: none has to be looked up.
            rows = pl.repeat(0, texts.len(), dtype=pl.Int32, eager=True)
            return rows.scatter(texts.is_not_null().arg_true(), numbers)
        return texts.replace_strict(distinct, numbers, default=0, return_dtype=pl.Int32)

    def _numbers(self, distinct: pl.Series) -> pl.Series:
        """Row numbers of texts that are given once each."""
        rows, texts = self._rows, distinct.to_list()
        first = len(rows)
        new = [text for text in texts if text not in rows]
        rows.update(zip(new, range(first, first + len(new)), strict=True))
        if len(new) == len(texts):
            return pl.int_range(first, first + len(new), dtype=pl.Int32, eager=True)
        return pl.Series([rows[text] for text in texts], dtype=pl.Int32)

    def table(self) -> pl.DataFrame:
        """The `names` table so far."""
        texts = pl.Series("text", list(self._rows), dtype=pl.String)
        rows = pl.int_range(len(self._rows), dtype=pl.Int32, eager=True)
        return pl.DataFrame([rows.alias("name"), texts])


class Ids:
    """Collects int64 ids while a file is read; null is no id."""

    def __init__(self) -> None:
        self._rows: dict[int, int] = {}

    def rows(self, ids: pl.Series) -> pl.Series:
        """Row numbers (Int32) of an Int64 series; null stays null."""
        found = None if ids.null_count() else self._known(ids.to_numpy())
        return self._learnt(ids) if found is None else found

    def _known(self, ids: NDArray[np.int64]) -> pl.Series | None:
        """The rows of ids that are all among a few known ones.

        Comparing 65,536 with each of eight takes a fifth of the time of hashing them.
        """
        if len(self._rows) > _FEW_IDS:
            return None
        after = np.zeros(ids.size, np.int32)
        for known, row in self._rows.items():
            after += (ids == known) * np.int32(row + 1)
        return pl.Series(after - np.int32(1)) if after.all() else None

    def _learnt(self, ids: pl.Series) -> pl.Series:
        """The rows of ids of which some may be new."""
        distinct = ids.unique()
        known = distinct.to_list()
        rows = self._rows
        numbers = [None if each is None else rows.setdefault(each, len(rows)) for each in known]
        if len(numbers) <= 1:
            return pl.repeat(next(iter(numbers), None), ids.len(), dtype=pl.Int32, eager=True)
        return ids.replace_strict(
            distinct, pl.Series(numbers, dtype=pl.Int32), return_dtype=pl.Int32
        )

    def table(self) -> pl.Series:
        """The ids so far (Int64), by row number."""
        return pl.Series(list(self._rows), dtype=pl.Int64)


class NamesById:
    """Rows in `names` by the ids that a file gives its texts.

    Args:
        ids: Int64; of equal ones the first counts.
        names: Int32 rows.
    """

    def __init__(self, ids: pl.Series, names: pl.Series) -> None:
        table = pl.DataFrame([ids.alias("id"), names.alias("name")]).drop_nulls("id")
        table = table.unique("id", keep="first", maintain_order=True)
        self._ids, self._names = table["id"], table["name"]
        self._dense = _dense(self._ids, self._names)

    def of(self, ids: pl.Series) -> pl.Series:
        """Name rows (Int32) of an Int64 series; null for an id that the file lacks."""
        if ids.null_count() == ids.len():
            return pl.repeat(None, ids.len(), dtype=pl.Int32, eager=True)
        if self._dense is not None and (ids >= 0).all():  # a negative one would count from the end
            return self._dense.gather(ids, null_on_oob=True)
        return ids.replace_strict(self._ids, self._names, default=None, return_dtype=pl.Int32)


def _dense(ids: pl.Series, names: pl.Series) -> pl.Series | None:
    """Names with their id as row number, where that leaves few rows empty."""
    rows = ids.to_numpy()
    if not len(rows) or rows.min() < 0 or rows.max() > _MOST_ROWS_AN_ID * len(rows) + _FEW_ROWS:
        return None
    table = np.full(rows.max() + 1, -1, dtype=np.int32)
    table[rows] = names.to_numpy()
    return pl.Series(table).replace(-1, None)
