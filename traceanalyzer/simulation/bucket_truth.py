"""The truth about cycles of one shape and about acceptance: means over what can be averaged."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from traceanalyzer.simulation.truth_tables import AcceptanceTruth, BucketTruth

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from traceanalyzer.simulation.recording import Iteration
    from traceanalyzer.simulation.truth_tables import CycleTruth, OpTruth, RankTruth

_Shape = tuple[str, int, int, int]


def bucket_truths(
    ranks: Sequence[RankTruth], iterations: Sequence[Iteration]
) -> Iterator[BucketTruth]:
    """Means over the kept cycles of each shape, in order of appearance."""
    kept: dict[_Shape, list[tuple[CycleTruth, list[OpTruth]]]] = defaultdict(list)
    for rank in ranks:
        ops: dict[int | None, list[OpTruth]] = defaultdict(list)
        for op in rank.ops:
            ops[op.cycle].append(op)
        for cycle in rank.cycles:
            if cycle.status == "kept":
                kept[_shape(cycle)].append((cycle, ops[cycle.number]))
    by_number = {row.number: row for row in iterations}
    for shape, rows in kept.items():
        yield _bucket(shape, rows, by_number)


def _shape(cycle: CycleTruth) -> _Shape:
    return cycle.kind, cycle.batch_size, cycle.draft_tokens, cycle.verified_tokens


def _bucket(
    shape: _Shape,
    rows: Sequence[tuple[CycleTruth, list[OpTruth]]],
    iterations: Mapping[int, Iteration],
) -> BucketTruth:
    cycles = [cycle for cycle, _ops in rows]
    detailed = [ops for _cycle, ops in rows if all(op.kind != "graph" for op in ops)]
    numbers = sorted({cycle.number for cycle in cycles})
    return BucketTruth(
        *shape,
        len(cycles),
        _mean(sum(cycle.windows_ns.values()) + cycle.overlap_ns for cycle in cycles),
        _means([cycle.windows_ns for cycle in cycles]),
        _mean(cycle.overlap_ns for cycle in cycles),
        next(acceptance_truths(iterations[number] for number in numbers), None),
        len(detailed),
        _means([_collective_ns(ops) for ops in detailed]),
    )


def _collective_ns(ops: Iterable[OpTruth]) -> dict[str, int]:
    sums: dict[str, int] = defaultdict(int)
    for op in ops:
        if op.wait_ns is not None:
            sums[op.phase] += op.end_ns - op.start_ns
    return sums


def _means(rows: Sequence[Mapping[str, int]]) -> dict[str, float]:
    names = sorted({name for row in rows for name in row})
    return {name: _mean(row.get(name, 0) for row in rows) for name in names}


def _mean(values: Iterable[int]) -> float:
    rows = list(values)
    return sum(rows) / len(rows)


def acceptance_truths(iterations: Iterable[Iteration]) -> Iterator[AcceptanceTruth]:
    """What was accepted in iterations that drafted, one row a k."""
    rows: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for row in iterations:
        if row.draft_tokens:
            rows[row.draft_tokens] += zip(row.requests, row.accepted_drafts, strict=True)
    for draft_tokens, pairs in sorted(rows.items()):
        counts = Counter(accepted for _request, accepted in pairs)
        yield AcceptanceTruth(
            draft_tokens,
            len(pairs),
            len({request for request, _accepted in pairs}),
            tuple(counts[accepted] for accepted in range(draft_tokens + 1)),
            1 + sum(accepted for _request, accepted in pairs) / len(pairs),
        )
