"""Spans: a trace's host ranges with what they mean for speculative decoding.

A range means a phase, an engine's cycle, or nothing by the phase rules; flags such as warm-up
come from the rules too, or from the batch mark of the range's cycle, and hold for everything a
flagged range contains.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from nvtx_hooks import vocabulary
from traceanalyzer.intervals import Containers, Intervals
from traceanalyzer.phases.marks import read_marks
from traceanalyzer.phases.rules import FLAGS, has_target_forward, parse_phase, phase_order
from traceanalyzer.phases.speakers import speakers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.phases.rules import Rules
    from traceanalyzer.trace import Trace

_TOLD_FLAGS: Final = {
    vocabulary.Flags.WARM_UP: "warm-up",
    vocabulary.Flags.CAPTURE: "capture",
    vocabulary.Flags.DUMMY: "dummy",
    vocabulary.Flags.IDLE: "idle",
}
"""What a batch mark's flags are called here."""
_TOLD: Final = {"process": pl.Int32(), "cycle": pl.Int64(), "bits": pl.Int64()}
_INSIDE_A_CYCLE: Final = frozenset({"draft", "verify", "draft_extend"})


@dataclass(frozen=True, slots=True)
class Spans:
    """Meaning of each row of `trace.ranges`, as arrays of that length.

    Attributes:
        phases: The phases that occur, in canonical order.
        phase: Place in `phases`, -1 for none.
        is_cycle: Whether the range is an engine's cycle or step.
        flags: Bit set over `FLAGS`, those of containing ranges included.
        batch: Batch size that the range's name tells, -1 when it tells none.
        number: Cycle number that the hooks gave the range, -1 when it has none.
        intervals: Lane is the thread; cross-thread ranges contain nothing.
        same_thread: Whether the range closed on the thread that opened it.
    """

    phases: tuple[str, ...]
    phase: NDArray[np.int64]
    is_cycle: NDArray[np.bool_]
    flags: NDArray[np.int64]
    batch: NDArray[np.int64]
    number: NDArray[np.int64]
    intervals: Intervals
    same_thread: NDArray[np.bool_]

    def rows(self, chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Row numbers of the chosen ranges that can contain launches."""
        return np.flatnonzero(chosen & self.same_thread)

    def is_target_forward(self) -> NDArray[np.bool_]:
        """Which ranges hold a forward of the target over decoded or drafted tokens."""
        targets = [has_target_forward(phase) for phase in self.phases]
        return np.append(targets, False).astype(bool)[self.phase]

    def flagged(self, *flags: str) -> NDArray[np.bool_]:
        """Which ranges carry any of the flags."""
        bits = sum(1 << FLAGS.index(flag) for flag in flags)
        return (self.flags & bits) != 0


def classify_ranges(trace: Trace, rules: Rules, told: pl.DataFrame | None = None) -> Spans:
    """Apply phase rules to every range of a trace.

    Args:
        trace: The tables.
        rules: What names of ranges mean.
        told: See `told_flags`, where it is of more processes than the trace's; None for its own.
    """
    meaning = _meaning_of_names(trace, rules)
    phases = tuple(sorted(meaning["phase"].drop_nulls().unique(), key=phase_order))
    codes = {phase: code for code, phase in enumerate(phases)}
    ranges = trace.ranges
    rows = ranges.select("domain", "name", "payload").join(
        meaning, on=["domain", "name"], how="left", nulls_equal=True, maintain_order="left"
    )
    read = rows.select(
        phase=pl.col("phase")
        .replace_strict(codes, default=-1, return_dtype=pl.Int64)
        .fill_null(-1),
        is_cycle=(pl.col("role") == "cycle").fill_null(False),
        flags=pl.col("flag_bits").fill_null(0),
        batch=pl.col("batch").fill_null(-1),
        number=_cycle_number(trace).fill_null(-1),
    )
    intervals = Intervals(
        ranges["thread"].to_numpy().astype(np.int64),
        ranges["start_ns"].to_numpy(),
        ranges["end_ns"].to_numpy(),
    )
    spans = Spans(
        phases=phases,
        **{name: read[name].to_numpy() for name in read.columns},
        intervals=intervals,
        same_thread=ranges["end_thread"].is_null().to_numpy(),
    )
    settled = _without_contradicted_inferences(_with_decode_loops_as_cycles(spans))
    flags = told_flags(trace) if told is None else told
    return _with_inherited_flags(_with_told_flags(trace, settled, flags))


def _meaning_of_names(trace: Trace, rules: Rules) -> pl.DataFrame:
    """One row a distinct (domain, name) that a rule takes: phase, role, flag_bits, batch, cycle."""
    domain = pl.col("domain").fill_null(-1).cast(pl.Int64) + 1
    pair = domain * trace.names.height + pl.col("name")  # one number sorts out millions faster
    distinct = trace.ranges.select("domain", "name").filter(pair.is_first_distinct())
    texts = distinct.select(domain_text=trace.text("domain"), name_text=trace.text("name"))
    meaning = rules.classify(texts)
    known = meaning["role"].is_not_null()
    distinct, meaning = distinct.filter(known), meaning.filter(known)
    held = [
        pl.col("flags").list.contains(flag).cast(pl.Int64) * (1 << bit)
        for bit, flag in enumerate(FLAGS)
    ]
    bits = meaning.select(pl.sum_horizontal(held)).to_series()
    return distinct.with_columns(
        meaning["phase"],
        meaning["role"],
        meaning["batch"],
        meaning["cycle"],
        flag_bits=bits,
    )


def _cycle_number(trace: Trace) -> pl.Expr:
    """From the payload in the hooks' domain, else from the name (torch.profiler's annotations)."""
    ours = (trace.text("domain") == vocabulary.DOMAIN).fill_null(False)
    return pl.coalesce(pl.when(ours).then("payload"), "cycle")


def _with_decode_loops_as_cycles(spans: Spans) -> Spans:
    """Read a hand-written "decode" range around drafts and verifies as the cycle that it is."""
    if "decode" not in spans.phases:
        return spans
    decode = spans.phases.index("decode")
    inside = [
        code for code, phase in enumerate(spans.phases) if _INSIDE_A_CYCLE & set(parse_phase(phase))
    ]
    loops = spans.rows(spans.phase == decode)
    parts = spans.rows(np.isin(spans.phase, inside))
    _, found = Containers(spans.intervals.take(loops)).all_of(spans.intervals.take(parts))
    around = loops[np.unique(found)]
    if not around.size:
        return spans
    phase, is_cycle = spans.phase.copy(), spans.is_cycle.copy()
    phase[around], is_cycle[around] = -1, True
    return replace(spans, phase=phase, is_cycle=is_cycle)


def _without_contradicted_inferences(spans: Spans) -> Spans:
    """Drop a phase that was only inferred from a name where the range around it says another.

    SGLang 0.5.12 and 0.5.15 name the draft model's eager steps `step[DECODE ...]` too: inside a
    `draft` range that is no decode. An inferred phase stands inside its equal or a fused whole.
    """
    inferred = spans.rows(spans.flagged("inferred") & (spans.phase >= 0))
    if not inferred.size:
        return spans
    ranges = spans.rows(spans.phase >= 0)
    inner, place = Containers(spans.intervals.take(ranges)).all_of(spans.intervals.take(inferred))
    others = ranges[place] != inferred[inner]
    own, around = inferred[inner[others]], ranges[place[others]]
    own, first = np.unique(own, return_index=True)  # all_of gives innermost containers first
    members = [frozenset(parse_phase(phase)) for phase in spans.phases]
    phase = spans.phase.copy()
    for row, outer in zip(own.tolist(), around[first].tolist(), strict=True):
        if not members[spans.phase[row]] <= members[spans.phase[outer]]:
            phase[row] = -1
    return replace(spans, phase=phase)


def told_flags(trace: Trace) -> pl.DataFrame:
    """Flags that batch marks tell of cycles, on every rank that a mark speaks for.

    A data-parallel rank that runs padding along says so in its mark alone.

    Returns:
        One row a process and cycle that is flagged: process, cycle, bits (over `FLAGS`).
    """
    names = sum(map(int, _TOLD_FLAGS))
    told = read_marks(trace, vocabulary.BATCH).filter(pl.col("flags") & names != 0)
    if not told.height:  # as in most captures
        return pl.DataFrame(schema=_TOLD)
    flags = pl.col("flags")
    bits = pl.sum_horizontal(
        pl.when(flags & int(flag) != 0).then(1 << FLAGS.index(name)).otherwise(0)
        for flag, name in _TOLD_FLAGS.items()
    )
    flagged = told.select("process", "cycle", bits=bits.cast(pl.Int64)).unique(
        ["process", "cycle"], keep="first", maintain_order=True
    )
    heard = speakers(trace, (vocabulary.BATCH,)).join(
        flagged, left_on="speaker", right_on="process", maintain_order="left_right"
    )
    return heard.select("process", "cycle", "bits").unique(
        ["process", "cycle"], keep="first", maintain_order=True
    )


def _with_told_flags(trace: Trace, spans: Spans, told: pl.DataFrame) -> Spans:
    if not told.height:
        return spans
    ranges = pl.DataFrame(
        {
            "process": trace.threads["process"].gather(trace.ranges["thread"]),
            "cycle": spans.number,
        }
    )
    found = ranges.join(told, on=["process", "cycle"], how="left", maintain_order="left")
    return replace(spans, flags=spans.flags | found["bits"].fill_null(0).to_numpy())


def _with_inherited_flags(spans: Spans) -> Spans:
    flags = spans.flags.copy()
    for bit in range(len(FLAGS)):
        flagged = spans.rows((spans.flags >> bit) & 1 == 1)
        if flagged.size:
            within = Containers(spans.intervals.take(flagged)).innermost(spans.intervals) >= 0
            flags[within] |= 1 << bit
    return replace(spans, flags=flags)
