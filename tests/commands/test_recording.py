"""What a recording's trace says of its own time and of the tokens made in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvtx_hooks.vocabulary import ACCEPT, ACCEPT_COUNT, Flags, pack_accept, pack_accept_count
from tests.exports import MARK, NVTX, Export, global_tid
from tests.strategies import examples
from traceanalyzer.commands.recording import marked_tokens_per_s, recorded_window_ns
from traceanalyzer.importers import load

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.trace import Trace

THREAD = global_tid(10)
MS = 1_000_000


def marked(folder: Path, cycles: list[list[int]], *, counted: bool = False) -> Trace:
    """A trace with a cycle each 10 ms, and the accepted drafts of each request in it."""
    export = Export()
    export.domain("eagle", 1, THREAD)
    for number, accepted in enumerate(cycles, 1):
        for request, drafts in enumerate(accepted):
            if counted:
                payload = pack_accept_count(number, 1, 4, drafts, Flags.NONE)
            else:
                payload = pack_accept(number, request + 1, 4, drafts, Flags.NONE)
            export.add(
                NVTX,
                start=number * 10 * MS + request,
                eventType=MARK,
                globalTid=THREAD,
                domainId=1,
                textId=export.string(ACCEPT_COUNT if counted else ACCEPT),
                int64Value=payload,
            )
    return load(export.write_sqlite(folder / "x.sqlite"))


@pytest.mark.parametrize("counted", [False, True])
def test_tokens_per_second_are_those_of_a_steady_server(counted: bool, tmp_path: Path) -> None:
    trace = marked(tmp_path, [[1, 3], [3, 1], [2, 2]], counted=counted)
    assert marked_tokens_per_s(trace) == pytest.approx(6 / 0.010)


@examples(0.1)
@given(st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=4), min_size=2, max_size=8))
def test_the_first_cycles_tokens_are_nobodys_time(
    tmp_path_factory: pytest.TempPathFactory, cycles: list[list[int]]
) -> None:
    trace = marked(tmp_path_factory.mktemp("marked"), cycles)
    committed = sum(drafts + 1 for accepted in cycles for drafts in accepted)
    seconds = (len(cycles) - 1) * 0.010
    steady = committed * (len(cycles) - 1) / len(cycles) / seconds
    assert marked_tokens_per_s(trace) == pytest.approx(steady)


@pytest.mark.parametrize("cycles", [[], [[2]]])
def test_one_cycle_tells_no_speed(cycles: list[list[int]], tmp_path: Path) -> None:
    assert marked_tokens_per_s(marked(tmp_path, cycles)) is None


def test_a_trace_tells_when_it_was_recorded(tmp_path: Path) -> None:
    export = Export()
    export.add("TARGET_INFO_SESSION_START_TIME", utcEpochNs=1_000_000)
    export.range("built before", -500, -400, THREAD)
    export.range("verify", 70, 90, THREAD)
    export.call(60, 65, THREAD, 1)
    export.kernel(80, 120, 10 << 24 | 1 << 56, 1)
    trace = load(export.write_sqlite(tmp_path / "x.sqlite"))
    assert recorded_window_ns(trace) == (1_000_060, 1_000_120)


def test_a_trace_without_a_clock_or_rows_does_not(tmp_path: Path) -> None:
    export = Export()
    export.range("verify", 70, 90, THREAD)
    assert recorded_window_ns(load(export.write_sqlite(tmp_path / "x.sqlite"))) is None
    empty = Export()
    empty.add("TARGET_INFO_SESSION_START_TIME", utcEpochNs=1_000_000)
    empty.range("built before", -500, -400, THREAD)
    assert recorded_window_ns(load(empty.write_sqlite(tmp_path / "y.sqlite"))) is None
