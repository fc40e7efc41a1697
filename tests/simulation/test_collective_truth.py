from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pytest

from tests.simulation.conftest import SMALL
from traceanalyzer.simulation import Eagle3Settings, eagle3_server, truth_of
from traceanalyzer.simulation.collective_truth import collective_truths

PLAIN = replace(SMALL, model="mla_moe", straddle_every=0)


def totals(settings: Eagle3Settings) -> dict[str, list[int]]:
    """Wait and transfer over all phases, by rank."""
    recording = eagle3_server(settings)
    found = collective_truths(recording, truth_of(recording))
    sums = {"wait": [0] * settings.ranks, "transfer": [0] * settings.ranks}
    place = {process.process_id: row for row, process in enumerate(recording.processes)}
    for (process_id, _), truth in found.items():
        sums["wait"][place[process_id]] += truth.wait_ns
        sums["transfer"][place[process_id]] += truth.transfer_ns
    return sums


def test_a_slow_link_lengthens_transfers_on_all_ranks_alike() -> None:
    plain, slow = totals(PLAIN), totals(replace(PLAIN, slow_link_share=1.0))
    assert len(set(slow["transfer"])) == 1, "all ranks transfer alike"
    assert slow["transfer"][0] / plain["transfer"][0] == pytest.approx(2.0, rel=1e-3)


def test_a_rank_that_launches_late_makes_the_others_wait() -> None:
    host_bound = replace(PLAIN, lag_cycles=0, ranks=3)
    plain, late = totals(host_bound), totals(replace(host_bound, late_launch_ms=0.2))
    kept = sum(
        cycle.status == "kept" for cycle in truth_of(eagle3_server(host_bound)).ranks[0].cycles
    )
    for rank in (0, 1):
        more = late["wait"][rank] - plain["wait"][rank]
        assert more >= 0.9 * kept * 200_000, "by the delay of one launch a cycle at least"
    assert late["wait"][2] < 0.1 * late["wait"][0]


def test_waits_and_transfers_make_up_the_collectives_of_kept_cycles() -> None:
    recording = eagle3_server(replace(PLAIN, slow_rank_share=0.2))
    truth = truth_of(recording)
    want: dict[tuple[int, str], int] = defaultdict(int)
    for rank in truth.ranks:
        kept = {cycle.number for cycle in rank.cycles if cycle.status == "kept"}
        for op in rank.ops:
            if op.wait_ns is not None and op.cycle in kept:
                want[rank.process_id, op.phase] += op.end_ns - op.start_ns
    found = collective_truths(recording, truth)
    assert {key: row.wait_ns + row.transfer_ns for key, row in found.items()} == want
    late = recording.processes[-1].process_id
    assert all(
        row.late == row.collectives
        for (process_id, phase), row in found.items()
        if process_id == late and phase == "verify"
    )
