"""Cycle numbers of a scheduler and of its workers brought together by what both sides saw.

A scheduler that counts accepted drafts in a process of its own numbers its steps; workers whose
steps do not carry that number count for themselves. Both emit each step's signature (requests,
scheduled tokens, drafted tokens), in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from nvtx_hooks.vocabulary import ACCEPT, ACCEPT_COUNT, BATCH, SIGNATURE
from traceanalyzer.intervals import Containers, Intervals
from traceanalyzer.phases.marks import marks_by_thread, read_marks
from traceanalyzer.phases.speakers import speakers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.phases.spans import Spans
    from traceanalyzer.trace import Trace

_ENOUGH_SHARE: Final = 0.9
_AHEAD: Final = 2  # steps an asynchronous scheduler may be ahead of its worker
_SCHEMA: Final = {"process": pl.Int32, "number": pl.Int64, "speaker_number": pl.Int64}


@dataclass(frozen=True, slots=True)
class Alignment:
    """How the workers' own cycle numbers translate into the scheduler's.

    Attributes:
        numbers: One row a worker's step: process, number, speaker_number. Empty where the numbers
            agree already, or cannot be brought together.
        steps: Workers' steps that were compared.
        matched: Those whose signature is the scheduler's.
    """

    numbers: pl.DataFrame
    steps: int
    matched: int

    @property
    def failed(self) -> bool:
        """Whether there was something to align and too little of it agrees."""
        return self.matched < _ENOUGH_SHARE * self.steps


def align_steps(trace: Trace, steps: pl.DataFrame) -> Alignment:
    """Compare the steps of a scheduler that counts acceptance with those of its workers.

    Args:
        trace: Holds the marks.
        steps: See `signed_steps`; those of all processes.
    """
    counting = _counting(trace)
    nothing = Alignment(pl.DataFrame(schema=_SCHEMA), 0, 0)
    if len(counting) != 1:
        return nothing
    told = steps.filter(pl.col("process") == counting[0])
    workers = steps.filter(pl.col("process") != counting[0])
    if not told.height or not workers.height:
        return nothing
    found = [_aligned(told, own) for _, own in workers.group_by("process", maintain_order=True)]
    numbers = pl.concat([each.numbers for each in found])
    return Alignment(
        pl.concat([numbers, _of_silent_ranks(trace, numbers, counting[0])]),
        sum(each.steps for each in found),
        sum(each.matched for each in found),
    )


def _of_silent_ranks(trace: Trace, numbers: pl.DataFrame, scheduler: int) -> pl.DataFrame:
    """The same for the ranks that a worker speaks for: they count the steps as it does."""
    heard = speakers(trace, (BATCH,)).filter(
        (pl.col("process") != pl.col("speaker")) & (pl.col("process") != scheduler)
    )
    return heard.join(numbers, left_on="speaker", right_on="process").select(
        pl.col("process").cast(pl.Int32), "number", "speaker_number"
    )


def translated(numbers: pl.DataFrame, alignment: Alignment) -> pl.DataFrame:
    """`numbers` (process, number, ...) with the scheduler's number where a worker has its own.

    A worker's step that the scheduler did not record gets -1: no number.
    """
    known = alignment.numbers
    if not known.height:
        return numbers
    joined = numbers.join(known, on=["process", "number"], how="left", maintain_order="left")
    own = pl.col("process").is_in(known["process"].unique().implode())
    number = pl.when(own).then(pl.col("speaker_number").fill_null(-1)).otherwise("number")
    return joined.with_columns(number=number).drop("speaker_number")


def _counting(trace: Trace) -> list[int]:
    """Processes that count accepted drafts."""
    marks = [read_marks(trace, name).select("process") for name in (ACCEPT, ACCEPT_COUNT)]
    return pl.concat(marks)["process"].unique().sort().to_list()


def signed_steps(trace: Trace, spans: Spans) -> pl.DataFrame:
    """Steps by process and time: process, time_ns, payload, number (of the range around)."""
    marks = marks_by_thread(trace, SIGNATURE)
    numbered = spans.rows(spans.number > 0)
    thread, time = (marks[name].to_numpy() for name in ("thread", "time_ns"))
    around = Containers(spans.intervals.take(numbered)).innermost(
        Intervals(thread.astype(np.int64), time, time)
    )
    number = np.append(spans.number[numbered], -1)[around]
    return (
        marks.with_columns(number=number)
        .filter(pl.col("number") > 0)
        .unique(["process", "number"], keep="first", maintain_order=True)
        .select("process", "time_ns", "payload", "number")
    )


def _aligned(told: pl.DataFrame, own: pl.DataFrame) -> Alignment:
    """One worker's steps against the scheduler's."""
    carried = _carried(told, own)
    if carried >= _ENOUGH_SHARE * own.height:
        return Alignment(pl.DataFrame(schema=_SCHEMA), own.height, carried)
    place = _places(told, own)
    held = (place >= 0) & (place < told.height)  # others ran before the first recorded schedule
    place = np.where(held, place, -1)
    equal = np.append(told["payload"].to_numpy(), -1)[place] == own["payload"].to_numpy()
    enough = equal.sum() >= _ENOUGH_SHARE * held.sum()
    number = np.where(equal & enough, np.append(told["number"].to_numpy(), -1)[place], -1)
    columns = {"process": own["process"], "number": own["number"], "speaker_number": number}
    return Alignment(pl.DataFrame(columns, schema=_SCHEMA), int(held.sum()), int(equal.sum()))


def _carried(told: pl.DataFrame, own: pl.DataFrame) -> int:
    """Worker's steps that carry the scheduler's number: equal signature, scheduled just before.

    Signatures alone would not do: in a steady load every step has the same one.
    """
    scheduled = told.with_row_index("place").select("number", "place", told="payload")
    both = own.join(scheduled, on="number", how="left", maintain_order="left")
    latest = np.searchsorted(told["time_ns"].to_numpy(), own["time_ns"].to_numpy(), "right") - 1
    behind = pl.Series(latest) - both["place"].cast(pl.Int64)
    fits = (both["payload"] == both["told"]) & behind.is_between(0, _AHEAD)
    return int(fits.fill_null(False).sum())


def _places(told: pl.DataFrame, own: pl.DataFrame) -> NDArray[np.int64]:
    """The scheduler's step of each of the worker's: one shift for all, the one that agrees best.

    Both clocks are the file's, and a step is scheduled before it runs: the last step scheduled
    before each forward gives the shift, but for how far the scheduler is ahead.
    """
    scheduled, ran = told["time_ns"].to_numpy(), own["time_ns"].to_numpy()
    latest = np.searchsorted(scheduled, ran, "right") - 1
    index = np.arange(own.height)
    latest_shift = int(np.median(latest - index))
    payloads, wanted = told["payload"].to_numpy(), own["payload"].to_numpy()

    def agreeing(shift: int) -> int:
        place = index + shift
        held = (place >= 0) & (place < payloads.size)
        return int((payloads[np.where(held, place, 0)] == wanted)[held].sum())

    shifts = range(latest_shift, latest_shift - _AHEAD - 1, -1)
    return index + max(shifts, key=agreeing)
