"""The true figures of a run: what the first screen of a report has to say of it.

Written as plain loops over the run's rows on purpose: it shares no code with the analyses it
judges. The words are those of the definitions; `accept_len` has the bonus token in.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from traceanalyzer.simulation.rank_truth import rank_truth

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from traceanalyzer.simulation.recording import Op, Recording
    from traceanalyzer.simulation.truth_tables import CycleTruth, RankTruth
    from traceanalyzer.simulation.worlds.steps import Shape, Step


@dataclass(frozen=True, slots=True)
class BucketFigures:
    """Kept cycles of one shape, means over all ranks.

    Attributes:
        cycles: Kept cycles, each rank's counted.
        windows_ns: Mean window by phase; with `overlap_ns` they add up to `period_ns`.
        live_request_cycles: Of distinct cycles, stale requests left out.
        committed_tokens: Of the same.
        tokens_per_s: All requests together: committed tokens over the cycles' time.
    """

    shape: Shape
    cycles: int
    period_ns: float
    windows_ns: dict[str, float]
    overlap_ns: float
    live_request_cycles: int
    committed_tokens: int
    tokens_per_s: float

    @property
    def accept_len(self) -> float:
        """Committed tokens per live request-cycle, bonus token included."""
        return self.committed_tokens / self.live_request_cycles

    def window_ns(self, *phases: str) -> float:
        """Mean window of some phases together."""
        return sum(self.windows_ns.get(phase, 0.0) for phase in phases)


@dataclass(frozen=True, slots=True)
class HostLeadFigures:
    """From the start of a launch call to the start of its first op, ns."""

    p5: int
    p50: int


@dataclass(frozen=True, slots=True)
class Figures:
    """What is true of one run.

    Attributes:
        buckets: The bucket with most time first.
        accept_len: Of all steps that drafted, each request's.
        committed_tokens: Of all decoding steps.
        host_lead: By rank and phase, over the whole run.
        collective_wait_ns: By rank and phase, in a kept cycle: time in collectives before the last
            rank came.
    """

    buckets: tuple[BucketFigures, ...]
    accept_len: float | None
    committed_tokens: int
    host_lead: dict[tuple[int, str], HostLeadFigures]
    collective_wait_ns: dict[tuple[int, str], float]
    ranks: tuple[RankTruth, ...] = field(repr=False)

    def bucket(self, kind: str, batch: int | None = None) -> BucketFigures:
        """The bucket of a kind (and batch) that holds most time.

        Raises:
            LookupError: There is none.
        """
        for each in self.buckets:
            if each.shape.kind == kind and batch in (None, each.shape.batch):
                return each
        raise LookupError(f"no bucket of {kind} at batch {batch}")


def figures_of(recording: Recording, steps: Mapping[int, Step]) -> Figures:
    """Sum up a run.

    Args:
        recording: Its rows on the true clock, none of them lost.
        steps: By number.
    """
    ranks = _ranks(recording)
    every = [own for step in steps.values() for own in step.of_rank.values() or (step,)]
    drafted = [each for step in every if step.longest for each in step.outcomes if not each.stale]
    committed = sum(each.committed for step in every for each in step.outcomes)
    accepted = sum(each.committed for each in drafted) / len(drafted) if drafted else None
    return Figures(
        tuple(sorted(_buckets(ranks, steps), key=_time_ns, reverse=True)),
        accepted,
        committed,
        _host_lead(recording, ranks),
        _waits(ranks),
        ranks,
    )


def _ranks(recording: Recording) -> tuple[RankTruth, ...]:
    by_process: dict[int, list[Op]] = defaultdict(list)
    for op in recording.ops:
        by_process[op.process.process_id].append(op)
    return tuple(
        rank_truth(process, by_process[process.process_id], recording.iterations)
        for process in recording.processes
        if process.process_id in by_process
    )


def _time_ns(found: BucketFigures) -> float:
    return found.cycles * found.period_ns


def _buckets(ranks: Sequence[RankTruth], steps: Mapping[int, Step]) -> Iterable[BucketFigures]:
    by_shape: dict[Shape, list[tuple[CycleTruth, Step]]] = defaultdict(list)
    for place, rank in enumerate(ranks):
        for cycle in rank.cycles:
            step = steps[cycle.number].of_rank.get(place, steps[cycle.number])
            if cycle.status == "kept" and not step.idle:
                by_shape[step.shape].append((cycle, step))
    for shape, rows in by_shape.items():
        yield _bucket(shape, rows)


def _bucket(shape: Shape, rows: Sequence[tuple[CycleTruth, Step]]) -> BucketFigures:
    cycles = [cycle for cycle, _step in rows]
    distinct = {id(step): step for _cycle, step in rows}.values()
    live = [each for step in distinct for each in step.outcomes if not each.stale]
    period_ns = _mean([sum(each.windows_ns.values()) + each.overlap_ns for each in cycles])
    committed = sum(each.committed for each in live)
    names = sorted({name for cycle in cycles for name in cycle.windows_ns})
    return BucketFigures(
        shape,
        len(cycles),
        period_ns,
        {name: _mean([each.windows_ns.get(name, 0) for each in cycles]) for name in names},
        _mean([each.overlap_ns for each in cycles]),
        len(live),
        committed,
        1e9 * committed / len(distinct) / period_ns,
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _host_lead(
    recording: Recording, ranks: Sequence[RankTruth]
) -> dict[tuple[int, str], HostLeadFigures]:
    called = {
        (call.thread.process.process_id, call.correlation_id): call.start_ns
        for call in recording.calls
    }
    leads: dict[tuple[int, str], list[int]] = defaultdict(list)
    for place, rank in enumerate(ranks):
        first: dict[tuple[int, str], int] = {}
        for op in rank.ops:
            key = op.correlation_id, op.phase
            first[key] = min(op.start_ns, first.get(key, op.start_ns))
        for (correlation, phase), start_ns in first.items():
            leads[place, phase].append(start_ns - called[rank.process_id, correlation])
    return {
        key: HostLeadFigures(_nearest_rank(values, 5), _nearest_rank(values, 50))
        for key, values in leads.items()
    }


def _nearest_rank(values: Iterable[int], percent: int) -> int:
    ordered = sorted(values)
    return ordered[max(0, -(-percent * len(ordered) // 100) - 1)]


def _waits(ranks: Sequence[RankTruth]) -> dict[tuple[int, str], float]:
    waits: dict[tuple[int, str], float] = defaultdict(float)
    for place, rank in enumerate(ranks):
        kept = {cycle.number for cycle in rank.cycles if cycle.status == "kept"}
        for op in rank.ops:
            if op.wait_ns is not None and op.cycle in kept:
                waits[place, op.phase] += op.wait_ns / len(kept)
    return dict(waits)
