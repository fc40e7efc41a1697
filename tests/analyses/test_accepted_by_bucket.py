from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvtx_hooks.vocabulary import (
    Flags,
    pack_accept,
    pack_accept_count,
    pack_overshoot,
    pack_ranks,
)
from tests.strategies import build, examples
from traceanalyzer.analyses.acceptance import accepted_by_bucket, accepted_by_cycle
from traceanalyzer.assembly.accepted import bucket_acceptance

if TYPE_CHECKING:
    from traceanalyzer.analyses.acceptance import AcceptedInBucket
    from traceanalyzer.trace import Trace


def marked(*marks: tuple[str, int], threads: tuple[int, ...] = (0,), by: int = 0) -> Trace:
    """A trace with these marks, told by one thread as torch.profiler's annotations."""
    return told_by([(by, name, payload) for name, payload in marks], threads)


def told_by(marks: list[tuple[int, str, int]], threads: tuple[int, ...]) -> Trace:
    return build(
        ranges=[
            {
                "start_ns": place,
                "end_ns": place,
                "style": "annotation",
                "name": f"eagle:{name}:{payload}",
                "thread": thread,
            }
            for place, (thread, name, payload) in enumerate(marks)
        ],
        threads=threads,
    )


def cycles(*rows: tuple[int, int, int]) -> pl.DataFrame:
    """Kept cycles: process, number, bucket."""
    schema = {"process": pl.Int32, "number": pl.Int64, "bucket": pl.UInt32}
    return pl.DataFrame(rows, schema=schema, orient="row")


def shape_of(batch: int, verified_tokens: int, padded: int | None = None) -> dict[str, Any]:
    return {"batch": batch, "padded_batch": padded, "verified_tokens": verified_tokens}


def accept(cycle: int, request: int, k: int, accepted: int, flags: int = 0) -> tuple[str, int]:
    return "accept", pack_accept(cycle, request, k, accepted, flags)


def test_cycles_of_a_bucket_are_counted_apart_from_others() -> None:
    trace = marked(accept(1, 7, 3, 2), accept(2, 7, 3, 0), accept(3, 7, 3, 3), accept(9, 7, 3, 1))
    found = accepted_by_bucket(trace, cycles((0, 1, 4), (0, 2, 5), (0, 3, 4)))
    assert set(found) == {4, 5}
    assert sorted(found[4].counts) == [(3, 2, 1), (3, 3, 1)]
    assert found[4].by_request == [(7, 2)]
    assert found[4].by_cycle == [(3, 1), (4, 1)]
    assert found[5].counts == [(3, 0, 1)]


def test_one_speaker_speaks_for_all_ranks_and_counts_once() -> None:
    trace = marked(accept(1, 7, 3, 2), threads=(0, 1))
    for speaker in (0, 1):
        trace = marked(accept(1, 7, 3, 2), threads=(0, 1), by=speaker)
        found = accepted_by_bucket(trace, cycles((0, 1, 0), (1, 1, 0)))
        assert found[0].counts == [(3, 2, 1)]


def test_several_speakers_speak_for_themselves() -> None:
    marks = [(0, *accept(1, 7, 3, 2)), (1, *accept(1, 8, 3, 0))]
    found = accepted_by_bucket(told_by(marks, (0, 1)), cycles((0, 1, 0), (1, 1, 6)))
    assert found[0].counts == [(3, 2, 1)]
    assert found[6].counts == [(3, 0, 1)]


def test_what_is_not_live_is_left_out_and_named() -> None:
    trace = marked(
        accept(1, 7, 3, 2),
        accept(1, 8, 3, 3, Flags.STALE),
        accept(1, 9, 3, 0, Flags.IDLE),
        accept(1, 10, 3, 1, Flags.WARM_UP),
    )
    (found,) = accepted_by_bucket(trace, cycles((0, 1, 0))).values()
    assert (found.counts, found.stale, found.idle) == ([(3, 2, 1)], [(3, 1)], [(3, 1)])
    report = bucket_acceptance(found, shape_of(4, 12))
    assert report is not None
    assert report.ledger is not None
    assert (report.ledger.committed, report.ledger.rejected) == (3, 1)
    assert (report.ledger.stale, report.ledger.idle) == (4, 4)


def test_overshoot_is_not_committed() -> None:
    trace = marked(accept(1, 7, 3, 3), ("overshoot", pack_overshoot(1, 7, 2)), accept(2, 8, 3, 3))
    (found,) = accepted_by_bucket(trace, cycles((0, 1, 0), (0, 2, 0))).values()
    assert found.by_request == [(2, 1), (4, 1)]
    report = bucket_acceptance(found, shape_of(1, 4))
    assert report is not None
    assert (report.committed_tokens, report.accept_len.value) == (6, 3.0)
    assert report.survival == [1.0, 1.0, 1.0]  # what the target accepted, cut or not
    assert report.ledger is not None
    assert (report.ledger.overshoot, report.ledger.rejected) == (2, 0)


def test_counts_of_many_requests_have_no_requests() -> None:
    trace = marked(("accept_count", pack_accept_count(1, 70, 3, 2, 0)), accept(2, 7, 3, 1))
    (found,) = accepted_by_bucket(trace, cycles((0, 1, 0), (0, 2, 0))).values()
    assert found.by_request == []
    assert found.by_cycle == [(210, 70), (2, 1)]


def test_without_live_requests_there_is_no_acceptance() -> None:
    trace = marked(accept(1, 7, 3, 2, Flags.DUMMY))
    (found,) = accepted_by_bucket(trace, cycles((0, 1, 0))).values()
    assert bucket_acceptance(found, shape_of(1, 4)) is None
    assert accepted_by_bucket(build(), cycles((0, 1, 0))) == {}


def of(clusters: list[list[int]], k: int) -> AcceptedInBucket:
    """Accepted drafts of each request, one cycle after the other."""
    marks, number = [], 0
    for request, accepted in enumerate(clusters, start=1):
        for each in accepted:
            number += 1
            marks.append(accept(number, request, k, each))
    (found,) = accepted_by_bucket(
        marked(*marks), cycles(*((0, cycle, 0) for cycle in range(1, number + 1)))
    ).values()
    return found


@given(st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=6), min_size=1, max_size=14))
@examples(0.2)
def test_the_acceptance_of_requests_adds_up(clusters: list[list[int]]) -> None:
    found = bucket_acceptance(of(clusters, 4), shape_of(1, 5))
    assert found is not None
    drafts = [each for accepted in clusters for each in accepted]
    assert found.request_cycles == len(drafts)
    assert found.requests == len(clusters)
    assert found.committed_tokens == sum(drafts) + len(drafts)
    assert found.accept_len.value == pytest.approx(1 + sum(drafts) / len(drafts))
    assert found.survival == pytest.approx(
        [sum(each >= i for each in drafts) / len(drafts) for i in range(1, 5)]
    )
    if found.accept_len.low is not None:
        assert found.accept_len.high is not None
        assert 1 <= found.accept_len.low <= found.accept_len.value <= found.accept_len.high <= 5
    assert (found.interval_from == "requests") == (len(clusters) >= 2)
    ledger: dict[str, Any] = defaultdict(int)
    assert found.ledger is not None
    for name in ("committed", "rejected", "overshoot", "stale", "idle"):
        ledger[name] = getattr(found.ledger, name)
    assert sum(ledger.values()) == found.ledger.verified == 5 * len(drafts)


def test_overshoot_of_unknown_or_equal_requests_is_taken_off_once() -> None:
    for one, other in ((0, 0), (7, 7)):
        trace = marked(
            accept(1, one, 3, 3), accept(1, other, 3, 3), ("overshoot", pack_overshoot(1, one, 2))
        )
        (found,) = accepted_by_bucket(trace, cycles((0, 1, 0))).values()
        assert found.by_cycle == [(6, 2)]


def test_overshoot_of_counted_requests_is_taken_off() -> None:
    many = ("accept_count", pack_accept_count(1, 70, 3, 3, 0))
    trace = marked(many, ("overshoot", pack_overshoot(1, 9, 2)))
    (found,) = accepted_by_bucket(trace, cycles((0, 1, 0))).values()
    assert found.by_cycle == [(278, 70)]


def ranked(*told: tuple[int, int]) -> list[tuple[int, str, int]]:
    """`ranks` marks: tensor-parallel rank and data-parallel rank of each process."""
    return [
        (process, "ranks", pack_ranks(tp_rank, 2, dp_rank, 2, 0, 1))
        for process, (tp_rank, dp_rank) in enumerate(told)
    ]


def test_a_silent_rank_hears_the_speaker_of_its_own_group() -> None:
    marks = [
        *ranked((0, 0), (1, 0), (0, 1), (1, 1)),
        (0, *accept(1, 7, 3, 2)),
        (2, *accept(1, 8, 3, 0)),
    ]
    trace = told_by(marks, (0, 1, 2, 3))
    found = accepted_by_bucket(trace, cycles((1, 1, 0), (3, 1, 6)))
    assert found[0].counts == [(3, 2, 1)]
    assert found[6].counts == [(3, 0, 1)]


def test_every_draft_accepted_by_changing_numbers_of_requests() -> None:
    marks = [
        accept(cycle, request, 3, 3)
        for cycle in range(1, 13)
        for request in range(1, 2 + cycle % 7)
    ]
    trace = marked(*marks)
    (found,) = accepted_by_bucket(trace, cycles(*((0, each, 0) for each in range(1, 13)))).values()
    report = bucket_acceptance(found, shape_of(8, 32))
    assert report is not None
    assert report.accept_len.value == 4
    per_cycle = report.committed_per_cycle
    assert per_cycle.low is not None
    assert per_cycle.high is not None
    assert per_cycle.low <= per_cycle.value <= per_cycle.high


def test_slots_of_chains_of_two_lengths_are_each_their_own() -> None:
    trace = marked(accept(1, 7, 3, 2), accept(1, 8, 1, 0, Flags.STALE))
    (found,) = accepted_by_bucket(trace, cycles((0, 1, 0))).values()
    report = bucket_acceptance(found, shape_of(2, 6))
    assert report is not None
    assert report.ledger is not None
    assert (report.ledger.stale, report.ledger.committed, report.ledger.rejected) == (2, 3, 1)
    assert (unknown := bucket_acceptance(found, shape_of(2, 7))) is not None
    assert unknown.ledger is None


def test_padding_is_idle() -> None:
    trace = marked(accept(1, 7, 3, 2))
    (found,) = accepted_by_bucket(trace, cycles((0, 1, 0))).values()
    report = bucket_acceptance(found, shape_of(1, 4, padded=4))
    assert report is not None
    assert report.ledger is not None
    assert (report.ledger.verified, report.ledger.idle) == (16, 12)


def test_accepted_drafts_of_a_cycle_are_those_of_all_its_live_requests() -> None:
    several = ("accept_count", pack_accept_count(2, 4, 3, 1, 0))
    trace = marked(
        accept(1, 7, 3, 2),
        accept(1, 8, 3, 3),
        accept(1, 9, 3, 1, Flags.STALE),
        several,
        accept(3, 7, 3, 0),
        accept(4, 7, 3, 3, Flags.DUMMY),
    )
    asked = cycles((0, 2, 0), (0, 1, 0), (0, 3, 0), (0, 4, 0), (0, 5, 0), (0, -1, 0), (0, 1, 9))
    assert accepted_by_cycle(trace, asked) == [4, 5, 0, None, None, None, 5]
    assert accepted_by_cycle(marked(), asked) == [None] * 7


def test_each_rank_hears_who_speaks_for_it() -> None:
    marks = [
        *((rank, "ranks", pack_ranks(0, 1, rank, 2, 0, 1)) for rank in (0, 1)),
        (0, *accept(1, 7, 3, 2)),
        (1, *accept(1, 8, 3, 1)),
    ]
    apart = told_by(marks, (0, 1))
    assert accepted_by_cycle(apart, cycles((1, 1, 0), (0, 1, 0))) == [1, 2]
    alone = told_by([(1, *accept(1, 8, 3, 1))], (0, 1))
    assert accepted_by_cycle(alone, cycles((1, 1, 0), (0, 1, 0))) == [1, 1]


def test_who_speaks_listens_to_nobody_else() -> None:
    """Two servers read as one run by mistake: each has a first rank of the one group it knows."""
    marks = [*ranked((0, 0), (0, 0)), (0, *accept(1, 7, 1, 1)), (1, *accept(1, 8, 5, 2))]
    found = accepted_by_bucket(told_by(marks, (0, 1)), cycles((0, 1, 0), (1, 1, 6)))
    assert found[0].counts == [(1, 1, 1)]
    assert found[6].counts == [(5, 2, 1)]
