from __future__ import annotations

from pathlib import Path

import pytest

from traceanalyzer.capture.plan import Abilities, Plan, Window, profile_command
from traceanalyzer.errors import InputError
from traceanalyzer.importers.nsys_command import Nsys

NSYS = Nsys(Path("/opt/nsys"), "2022.4.2.1-df9881f")
OLD = Abilities(
    "2022.4.2.1", "\t--cuda-graph-trace=\n\t--trace-fork-before-exec=\n\t-o, --output=\n"
)
NEW = Abilities(
    "2026.4.1",
    "\t--cuda-graph-trace=<graph|node>[:host-only|host-and-device][:nvtx-live|nvtx-precapture]\n"
    "\t--cuda-event-trace=\n\t--cuda-flush-interval=\n\t--trace-fork-before-exec=\n",
)
ANCIENT = Abilities("2019.5", "\t-o, --output=\n")


def line(
    abilities: Abilities, window: str = "all", graphs: str = "node", cuda: bool = True
) -> list[str]:
    plan = Plan(Path("/r/x.nsys-rep"), graphs, Window.parse(window), "s1", cuda)
    return profile_command(NSYS, abilities, plan, ["python", "serve.py", "--output", "y"])


def test_the_program_comes_last_and_untouched() -> None:
    assert line(NEW)[-4:] == ["python", "serve.py", "--output", "y"]


def test_flags_follow_what_the_help_text_offers() -> None:
    assert "--cuda-event-trace=false" in line(NEW)
    assert "--cuda-event-trace=false" not in line(OLD)
    assert "--cuda-flush-interval=10000" in line(NEW)
    assert "--trace-fork-before-exec=true" not in line(ANCIENT, cuda=False)


def test_nothing_that_disturbs_is_sampled() -> None:
    assert {"--sample=none", "--cpuctxsw=none", "--trace=cuda,nvtx"} <= set(line(OLD))


def test_graphs_as_asked() -> None:
    assert "--cuda-graph-trace=node" in line(OLD)
    assert "--cuda-graph-trace=graph" in line(OLD, graphs="graph")
    assert "--cuda-graph-trace=node:host-only:nvtx-precapture" in line(NEW, graphs="precapture")


@pytest.mark.parametrize(("abilities", "graphs"), [(OLD, "precapture"), (ANCIENT, "node")])
def test_an_nsys_too_old_is_refused_by_name(abilities: Abilities, graphs: str) -> None:
    with pytest.raises(InputError, match=f"nsys {abilities.release} is too old") as raised:
        line(abilities, graphs=graphs)
    assert raised.value.next_step


def test_windows_never_let_nsys_kill_the_program() -> None:
    assert "--capture-range=nvtx" in line(OLD, "nvtx:cycle@eagle")
    assert "--nvtx-capture=cycle@eagle" in line(OLD, "nvtx:cycle@eagle")
    assert "--capture-range=cudaProfilerApi" in line(OLD, "profiler")
    for window in ("nvtx:cycle@eagle", "profiler"):
        assert "--kill=none" in line(OLD, window)
    assert "--delay=3.5" in line(OLD, "time:3.5:10")
    assert not any(option.startswith("--duration") for option in line(OLD, "time:3.5:10"))


@pytest.mark.parametrize(
    "text", ["", "time", "time:", "time:x:1", "time:1:0", "time:-1", "nvtx:", "all:1", "until:"]
)
def test_a_window_that_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="no capture window"):
        Window.parse(text)


def test_a_window_by_the_clock_may_be_open_ended() -> None:
    assert Window.parse("time:30") == Window("time", 30.0, None)
    assert Window.parse("time:30:5") == Window("time", 30.0, 5.0)


def test_a_window_until_a_file_is_written_needs_nothing_of_nsys() -> None:
    assert Window.parse("until:/r/done") == Window("until", file=Path("/r/done"))
    assert line(OLD, "until:/r/done") == line(OLD)
