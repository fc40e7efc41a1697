"""Sums over a recording that every analysis of its trace has to meet.

Written as plain loops on purpose: it shares no code with the analyses it judges. The words are
those of the definitions; a rank is (process, device).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from traceanalyzer.simulation.bucket_truth import acceptance_truths, bucket_truths
from traceanalyzer.simulation.rank_truth import rank_truth
from traceanalyzer.simulation.recording import SYNC_CONTEXT
from traceanalyzer.simulation.truth_tables import SynchronisationTruth, UndisturbedTruth

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.simulation.recording import Op, Process, Recording
    from traceanalyzer.simulation.truth_tables import AcceptanceTruth, BucketTruth, RankTruth


@dataclass(frozen=True, slots=True)
class Truth:
    """What a right analysis of a simulated trace finds.

    `acceptance` holds every request-cycle that has an accept mark, by k; `undisturbed` is empty
    where recording nodes costs nothing.
    """

    description: str
    ranks: tuple[RankTruth, ...]
    buckets: tuple[BucketTruth, ...]
    acceptance: tuple[AcceptanceTruth, ...]
    synchronisation: SynchronisationTruth | None
    undisturbed: tuple[UndisturbedTruth, ...] = ()

    def as_json(self, *, ops: bool = False, cycles: bool = True) -> dict[str, Any]:
        """Totals as JSON values, with each cycle and, when asked, the truth of every op."""
        ranks = self.ranks if ops else tuple(replace(rank, ops=()) for rank in self.ranks)
        content = asdict(replace(self, ranks=ranks))
        for rank in content["ranks"]:
            if not ops:
                del rank["ops"]
            if not cycles:
                rank["cycles"] = dict(Counter(row["status"] for row in rank["cycles"]))
        if not self.undisturbed:
            del content["undisturbed"]
        return {"simulated": True, **content}


def truth_of(recording: Recording) -> Truth:
    """Sum up a recording.

    Returns:
        One RankTruth a pair of process and device with ops, in the order of the processes.
    """
    by_process: dict[Process, list[Op]] = defaultdict(list)
    for op in recording.ops:
        by_process[op.process].append(op)
    ranks = tuple(
        rank_truth(process, by_process[process], recording.iterations)
        for process in recording.processes
        if process in by_process
    )
    buckets = tuple(bucket_truths(ranks, recording.iterations))
    return Truth(
        recording.description,
        ranks,
        buckets,
        tuple(acceptance_truths(recording.iterations)) if recording.marks else (),
        _synchronisation(recording, buckets),
        _undisturbed(recording.undisturbed, buckets),
    )


def _undisturbed(
    twin: Recording | None, buckets: Sequence[BucketTruth]
) -> tuple[UndisturbedTruth, ...]:
    if twin is None:
        return ()
    known = {(row.kind, row.batch_size): row.windows_ns for row in truth_of(twin).buckets}
    return tuple(
        UndisturbedTruth(
            row.kind,
            row.batch_size,
            windows,
            {name: row.windows_ns[name] / ns - 1 for name, ns in windows.items() if ns},
        )
        for row in buckets
        if (windows := known.get((row.kind, row.batch_size))) is not None
    )


def _synchronisation(
    recording: Recording, buckets: Sequence[BucketTruth]
) -> SynchronisationTruth | None:
    undisturbed_ns = recording.undisturbed_period_ns
    if undisturbed_ns is None:
        return None
    calls = sum(
        row.sync_type == SYNC_CONTEXT and row.process is recording.processes[0]
        for row in recording.syncs
    )
    largest = max(buckets, key=lambda bucket: bucket.cycles)
    return SynchronisationTruth(
        calls / len(recording.iterations),
        undisturbed_ns,
        largest.period_ns / undisturbed_ns - 1,
    )
