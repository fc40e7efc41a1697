from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

from tests.measured import Measured
from tests.reference import Reference
from tests.strategies import MEANINGS, build, examples, gpu_traces
from traceanalyzer.analyses.synchronisations import synchronisations

if TYPE_CHECKING:
    from traceanalyzer.trace import Trace

BLOCKING = {
    "cudaDeviceSynchronize": "device",
    "cudaDeviceSynchronize_v3020": "device",
    "cuCtxSynchronize": "device",
    "hipDeviceSynchronize": "device",
    "cudaStreamSynchronize": "stream",
    "cudaStreamSynchronize_ptsz": "stream",
    "cuStreamSynchronize": "stream",
    "cudaEventSynchronize_v3020": "event",
    "hipEventSynchronize": "event",
    "cudaMemcpy_v3020": "copy",
    "cuMemcpyDtoH_v2": "copy",
    "hipMemcpy": "copy",
}
NOT_BLOCKING = [
    "cudaMemcpyAsync_v3020",
    "cuMemcpyHtoDAsync_v2",
    "cudaLaunchKernel",
    "cudaEventRecord",
]


def found_in(ranges: list[dict[str, Any]], calls: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    phased = Measured(build(ranges=ranges, launches=calls)).phased
    return [
        (phased.labels[label], scope, number, host_ns)
        for label, scope, number, host_ns in synchronisations(
            phased.trace, phased.spans
        ).iter_rows()
    ]


def verify_with(name: str) -> list[tuple[Any, ...]]:
    return found_in(
        [{"name": "verify", "start_ns": 0, "end_ns": 100}],
        [{"start_ns": 10, "end_ns": 35, "correlation_id": 1, "name": name}],
    )


@pytest.mark.parametrize(("name", "scope"), BLOCKING.items())
def test_a_blocking_call_is_known_by_its_name(name: str, scope: str) -> None:
    assert verify_with(name) == [("verify", scope, 1, 25)]


@pytest.mark.parametrize("name", NOT_BLOCKING)
def test_other_calls_do_not_wait(name: str) -> None:
    assert verify_with(name) == []


def test_in_a_cycle_outside_its_phases_is_other_and_outside_of_it_nothing() -> None:
    ranges = [
        {"name": "cycle", "start_ns": 0, "end_ns": 100},
        {"name": "verify", "start_ns": 10, "end_ns": 50},
    ]
    sync = "cudaDeviceSynchronize"
    calls = [
        {"start_ns": at, "end_ns": at + 5, "correlation_id": at, "name": sync}
        for at in (2, 20, 30, 60, 200)
    ]
    assert found_in(ranges, calls) == [("verify", "device", 2, 10), ("other", "device", 2, 10)]


@examples(0.1)
@given(gpu_traces())
def test_synchronising_calls_are_counted_as_one_by_one(trace: Trace) -> None:
    reference = Reference(trace, MEANINGS)
    phased = Measured(trace).phased
    table = synchronisations(phased.trace, phased.spans)
    wanted = 0
    for launch in reference.launches:
        name = launch["text"]
        waits = "Synchronize" in name or (name.startswith("cudaMemcpy") and "Async" not in name)
        holders = [
            place
            for place, row in enumerate(reference.ranges)
            if row["thread"] == launch["thread"]
            and row["start_ns"] <= launch["start_ns"]
            and launch["end_ns"] <= row["end_ns"]
            and (reference.phase[place] or reference.is_cycle[place])
            and row["end_thread"] is None
        ]
        wanted += bool(waits and holders)
    assert int(table["calls"].sum()) == wanted
