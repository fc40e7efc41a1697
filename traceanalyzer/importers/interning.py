"""Every distinct text of a trace once, by row number."""

from __future__ import annotations

import polars as pl


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
        rows = self._rows
        known = [rows.setdefault(text, len(rows)) for text in distinct.to_list()]
        numbers = pl.Series(known, dtype=pl.Int32)
        return (
            texts.replace_strict(distinct, numbers, default=0, return_dtype=pl.Int32)
            if distinct.len()
            else pl.repeat(0, texts.len(), dtype=pl.Int32, eager=True)
        )

    def table(self) -> pl.DataFrame:
        """The `names` table so far."""
        return pl.DataFrame(
            {"name": range(len(self._rows)), "text": list(self._rows)},
            schema={"name": pl.Int32, "text": pl.String},
        )
