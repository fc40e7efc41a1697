"""Acceptance as anybody may write it down: a record a request and cycle, a request, or a number.

A record is a JSON object on a line, or a row of a CSV file under a line of names. Three shapes:
`{"cycle", "request", "k", "accepted"[, "flags"]}`, `{"request", "histogram", "k"}` and
`{"accept_len", "definition"[, "k"]}`; `accepted` and `histogram` leave the bonus token out.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from traceanalyzer.errors import InputError
from traceanalyzer.importers.acceptance.lines import MOST_DRAFT_TOKENS, Known, plural, shown
from traceanalyzer.importers.acceptance.numbers import reading_of_number
from traceanalyzer.importers.acceptance.values import count_of, counts_of, real_of
from traceanalyzer.speculation.acceptance import AcceptanceCounts, AcceptanceReading

Object = Mapping[str, Any]

LEFT_OUT: Final = frozenset({"warm-up", "capture", "dummy", "idle", "stale"})
"""Flags of cycles, or of requests in them, that commit nothing a request waits for."""
_KEPT: Final = frozenset({"overshoot"})
_SHAPES: Final = ("accepted", "histogram", "accept_len")
_NAMES: Final = frozenset({"cycle", "request", "k", "flags", "definition", *_SHAPES})
_SHAPE_TEXT: Final = (
    'Write {"cycle": 1, "request": "a", "k": 5, "accepted": 2}, {"request": "a", "k": 5, '
    '"histogram": [3, 1, 1]}, or {"accept_len": 2.25, "definition": "bonus included"}.'
)


class CsvRows:
    """Turns the lines of a CSV file into records.

    Args:
        line: The file's first line.
    """

    def __init__(self, line: str) -> None:
        self._separator = max(",;\t", key=line.count)
        self._names = [name.strip().strip('"').lower() for name in line.split(self._separator)]
        self.is_header = any(shape in self._names for shape in _SHAPES) and all(
            name in _NAMES for name in self._names
        )

    def record(self, line: str) -> Object | None:
        """Read one row, or None when it has not as many values as there are names."""
        try:
            values = next(csv.reader([line], delimiter=self._separator, strict=True), [])
        except csv.Error:
            return None
        if len(values) != len(self._names):
            return None
        return dict(zip(self._names, (value.strip() for value in values), strict=True))


class Records:
    """Collects records; see `log` for how it is driven.

    Args:
        known: What the caller knows.
    """

    engine: ClassVar[str] = ""
    kind: ClassVar[str] = "acceptance records"
    looked_for: ClassVar[str] = (
        "records (JSON lines or CSV) with 'accepted', 'histogram' or 'accept_len'"
    )

    def __init__(self, known: Known) -> None:
        self.used: int | None = None
        self.unusable: tuple[int, str] | None = None
        self._known = known
        self._shape: tuple[str, int] | None = None
        self._cells: Counter[tuple[int, int]] = Counter()
        self._flags: Counter[str] = Counter()
        self._number: AcceptanceReading | None = None
        self._records = 0
        self._cycle: object = None
        self._requests: set[object] = set()

    def offer_object(self, number: int, value: Object) -> None:
        """Take one record; an object that is none is passed over.

        Raises:
            InputError: It is a record, and cannot be used.
        """
        found = [shape for shape in _SHAPES if value.get(shape) not in (None, "")]
        if not found:
            if any(name in value for name in _SHAPES):
                raise InputError("it has no figure", next_step=_SHAPE_TEXT)
            return
        self._one_shape(number, found)
        self.used = self.used or number
        self._records += 1
        if found[0] == "accept_len":
            self._take_number(value)
        elif not self._is_left_out(value):
            self._take_counts(value, found[0])

    def _one_shape(self, number: int, found: list[str]) -> None:
        self._shape = self._shape or (found[0], number)
        if len(found) > 1 or found[0] != self._shape[0]:
            raise InputError(
                f"it has '{found[-1]}', line {self._shape[1]} has '{self._shape[0]}': "
                "cycles could be counted twice",
                next_step="Keep one shape of record. " + _SHAPE_TEXT,
            )

    def _take_number(self, value: Object) -> None:
        definition = value.get("definition")
        if not isinstance(definition, str) or not definition:
            raise InputError(
                "it does not say whether accept_len includes the bonus token",
                next_step='Add "definition": "bonus included" or "bonus left out".',
            )
        if self._number is not None:
            raise InputError(
                "there are several accept_len, and nothing says what each stands for",
                next_step="Keep one, or write down the histograms.",
            )
        k = count_of(value, "k")
        self._number = reading_of_number(
            real_of(value, "accept_len") or 0.0,
            definition=definition,
            draft_tokens=self._known.draft_tokens if self._known.draft_tokens is not None else k,
        )

    def _is_left_out(self, value: Object) -> bool:
        flags = _flags_of(value)
        self._flags.update(flags)
        return bool(flags & LEFT_OUT)

    def _take_counts(self, value: Object, shape: str) -> None:
        k = count_of(value, "k")
        k = self._known.draft_tokens if k is None else k
        if k is None:
            raise InputError("it has no k", next_step="Add k, or give the number of draft tokens.")
        if k > MOST_DRAFT_TOKENS:
            raise InputError(f"its k is {k}: nobody drafts so many tokens")
        if shape == "accepted":
            self._once_a_cycle(value)
            histogram = {count_of(value, "accepted") or 0: 1}
        else:
            histogram = dict(enumerate(counts_of(value, "histogram") or ()))
        for accepted, count in histogram.items():
            if count and accepted > k:
                raise InputError(
                    f"{accepted} drafts accepted of {k}",
                    next_step="Count drafts only: the bonus token is left out.",
                )
            self._cells[k, accepted] += count

    def _once_a_cycle(self, value: Object) -> None:
        """Hold that no request is counted twice in a cycle, as several ranks in a file would."""
        cycle, request = value.get("cycle"), value.get("request")
        if cycle in (None, "") or request in (None, ""):
            return
        if cycle != self._cycle:
            self._cycle = cycle
            self._requests.clear()
        if str(request) in self._requests:
            raise InputError(
                f"request {shown(str(request))} comes twice in cycle {shown(str(cycle))}",
                next_step="Keep the records of one rank.",
            )
        self._requests.add(str(request))

    def reading(self) -> AcceptanceReading:
        """The counts, or the one number.

        Raises:
            InputError: Every record was left out.
        """
        if self._number is not None:
            return self._number
        counts = AcceptanceCounts(self._cells)
        accept_len = counts.accept_len
        if accept_len is None:
            raise InputError(
                "no live request-cycle is left", next_step="Record cycles after the warm-up."
            )
        return AcceptanceReading(
            source=f"{plural(self._records, 'record')}",
            read_as="accepted drafts a request-cycle, bonus left out",
            conversion="+ 1: the bonus token was left out",
            accept_len=accept_len,
            draft_tokens=counts.draft_tokens,
            survival=counts.survival(),
            counts=counts,
            request_cycles=counts.request_cycles,
            committed_tokens=counts.accepted_drafts + counts.request_cycles,
            notes=tuple(
                f"{plural(count, 'record')} flagged {flag}: "
                f"{'left out' if flag in LEFT_OUT else 'counted, with what lies past the end'}"
                for flag, count in sorted(self._flags.items())
            ),
        )


def _flags_of(value: Object) -> set[str]:
    """A record's flags: a list, or a text ("warm-up|stale").

    Raises:
        InputError: One of them is not known.
    """
    given = value.get("flags") or []
    texts = re.split(r"[|,;\s]+", given.strip()) if isinstance(given, str) else given
    if not isinstance(texts, list):
        texts = [texts]
    flags = {str(each).strip().lower().replace("_", "-") for each in texts} - {"none", ""}
    if flags - LEFT_OUT - _KEPT:
        raise InputError(
            f"its flags are {shown(str(given))}",
            next_step=f"Known flags: {', '.join(sorted(LEFT_OUT | _KEPT))}.",
        )
    return flags
