from __future__ import annotations

from pathlib import Path

import pytest

from traceanalyzer.capture.plan import Abilities, Plan, Window, profile_command
from traceanalyzer.errors import InputError
from traceanalyzer.importers.nsys_command import Nsys

NSYS = Nsys(Path("/opt/nsys"), "2022.4.2.1-df9881f")
BASIC = "\t-o, --output=\n\t--session-new=\n"
RANGED = f"{BASIC}\t-c, --capture-range=\n\t--capture-range-end=\n\t--trace-fork-before-exec=\n"
OLD = Abilities("2022.4.2.1", f"{RANGED}\t--cuda-graph-trace=\n")
NEW = Abilities(
    "2026.4.1",
    f"{RANGED}\t--cuda-event-trace=\n\t--cuda-flush-interval=\n"
    "\t--cuda-graph-trace=<graph|node>[:host-only|host-and-device][:nvtx-live|nvtx-precapture]\n",
)
ANCIENT = Abilities("2019.5", BASIC)


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


@pytest.mark.parametrize("window", ["nvtx:cycle@eagle", "profiler", "endpoint:1:2"])
def test_a_window_that_an_nsys_cannot_open_is_refused_by_name(window: str) -> None:
    told = f"nsys 2019.5 is too old for --window {window.partition(':')[0]}"
    with pytest.raises(InputError, match=f"{told}: it has no --capture-range"):
        line(ANCIENT, window, cuda=False)


def test_an_nsys_without_sessions_is_refused() -> None:
    with pytest.raises(InputError, match=r"nsys 2018\.1 is too old for stopping a recording"):
        line(Abilities("2018.1", "\t-o, --output=\n"), cuda=False)


def test_windows_never_let_nsys_kill_the_program() -> None:
    assert "--capture-range=nvtx" in line(OLD, "nvtx:cycle@eagle")
    assert "--nvtx-capture=cycle@eagle" in line(OLD, "nvtx:cycle@eagle")
    assert "--capture-range=cudaProfilerApi" in line(OLD, "profiler")
    assert "--capture-range=cudaProfilerApi" in line(OLD, "endpoint:5:10")
    for window in ("nvtx:cycle@eagle", "profiler", "endpoint:5:10"):
        assert "--capture-range-end=stop" in line(OLD, window)
        assert "--kill=none" in line(OLD, window)
    assert "--delay=3.5" in line(OLD, "time:3.5:10")
    assert not any(option.startswith("--duration") for option in line(OLD, "time:3.5:10"))


@pytest.mark.parametrize(
    "text",
    [
        "", "time", "time:", "time:x:1", "time:1:0", "time:1:0.0", "time:-1", "time:1:nan",
        "time:1:inf", "time:1:5steps", "nvtx:", "all:1", "until:", "endpoint", "endpoint:",
        "endpoint:5", "endpoint:5:0", "endpoint:5:0steps", "endpoint:5:-1steps", "endpoint:x:1",
    ],
)  # fmt: skip
def test_a_window_that_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="no capture window"):
        Window.parse(text)


def test_a_window_by_the_clock_may_be_open_ended() -> None:
    assert Window.parse("time:30") == Window("time", 30.0, None)
    assert Window.parse("time:30:5") == Window("time", 30.0, 5.0)


def test_a_window_by_endpoint_is_so_long_or_so_many_steps() -> None:
    assert Window.parse("endpoint:5:2.5") == Window("endpoint", 5.0, 2.5)
    assert Window.parse("endpoint:0:30steps") == Window("endpoint", 0.0, steps=30)


def test_a_window_until_a_file_is_written_needs_nothing_of_nsys() -> None:
    assert Window.parse("until:/r/done") == Window("until", file=Path("/r/done"))
    assert line(OLD, "until:/r/done") == line(OLD)
