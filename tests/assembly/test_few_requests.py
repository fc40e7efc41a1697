"""The accept length of few requests: how they differ must not be taken for chance of cycles."""

from __future__ import annotations

import random
from statistics import fmean
from typing import TYPE_CHECKING

from traceanalyzer.analyses.acceptance import AcceptedInBucket
from traceanalyzer.assembly.accepted import bucket_acceptance

if TYPE_CHECKING:
    from traceanalyzer.report import BucketAcceptance

K = 4
CHANCES = (0.35, 0.85)
SHAPE = {"batch": 1, "padded_batch": None, "verified_tokens": K + 1}


def accepted(chance: float, rng: random.Random) -> int:
    found = 0
    while found < K and rng.random() < chance:
        found += 1
    return found


def served(requests: int, rng: random.Random) -> BucketAcceptance:
    """Requests one after another, 60 cycles each, of chances drawn alike."""
    by_request, by_cycle, counts = [], [], []
    for _ in range(requests):
        chance = rng.uniform(*CHANCES)
        tokens = [1 + accepted(chance, rng) for _ in range(60)]
        by_request.append((sum(tokens), len(tokens)))
        by_cycle += [(each, 1) for each in tokens]
        counts += [(K, each - 1, 1) for each in tokens]
    found = bucket_acceptance(
        AcceptedInBucket(
            counts=counts,
            by_request=by_request,
            by_cycle=by_cycle,
            overshoot_tokens=0,
            stale=[],
            idle=[],
        ),
        SHAPE,
    )
    assert found is not None
    return found


def expected() -> float:
    steps = [CHANCES[0] + (CHANCES[1] - CHANCES[0]) * (at + 0.5) / 1000 for at in range(1000)]
    return fmean(sum(chance**position for position in range(K + 1)) for chance in steps)


def test_three_requests_hold_the_truth_as_often_as_they_say() -> None:
    rng, truth = random.Random(7), expected()
    held = []
    for _ in range(400):
        found = served(3, rng).accept_len
        assert found.low is not None
        assert found.high is not None
        held.append(found.low <= truth <= found.high)
    assert fmean(held) >= 0.93


def test_what_is_resampled_is_said() -> None:
    rng = random.Random(3)
    assert served(1, rng).interval_from == "blocks of cycles"
    assert served(2, rng).interval_from == "requests"
    assert served(12, rng).interval_from == "requests"
