"""`traceanalyzer timeline`: the page it writes, and what it refuses."""

from __future__ import annotations

import base64
import re
import zlib
from typing import TYPE_CHECKING, Any

import pytest

from tests.harness import SAMPLE_TRACES
from traceanalyzer.renderers.html.pack import unpack

if TYPE_CHECKING:
    from pathlib import Path

    from tests.commands.conftest import Cli

NODES = SAMPLE_TRACES / "eagle3_tp2_nodes.sqlite"


def header(page: Path) -> dict[str, Any]:
    """What the page says about its lanes."""
    found = re.search(r'<script type="text/plain" id="lanes">([^<]*)<', page.read_text())
    assert found
    told, _ = unpack(zlib.decompress(base64.b64decode(found[1])))
    return told


def spans(page: Path) -> int:
    found = re.search(r">([\d,]+) spans, ", page.read_text())
    assert found
    return int(found[1].replace(",", ""))


@pytest.mark.parametrize(
    "name",
    [
        "eagle3_tp2_nodes.sqlite",
        "eagle3_tp2_graphs.sqlite",
        "eagle3_torch.json.gz",
        "eagle3_host_only.sqlite",
        "reference_cpu_nsys.sqlite",
    ],
)
def test_every_kind_of_trace_has_a_timeline(cli: Cli, tmp_path: Path, name: str) -> None:
    page = tmp_path / "t.html"
    done = cli("timeline", SAMPLE_TRACES / name, "-o", page)
    assert (done.exit_code, done.stdout) == (0, "")
    told = header(page)
    assert {"ranges", "calls"} & {lane["kind"] for lane in told["lanes"]}
    assert told["shown"] is None
    assert f"<title>{name} - timeline</title>" in page.read_text()


def test_a_window_and_cycles_choose_the_detail(cli: Cli, tmp_path: Path) -> None:
    whole, window, cycles = (tmp_path / name for name in ("a.html", "b.html", "c.html"))
    assert cli("timeline", NODES, "-o", whole).exit_code == 0
    assert cli("timeline", NODES, "-o", window, "--window", "20ms,0.03s").exit_code == 0
    assert cli("timeline", NODES, "-o", cycles, "--cycles", "3-4").exit_code == 0
    assert spans(cycles) < spans(window) < spans(whole)
    assert header(window)["shown"] == [[20_000_000, 30_000_000]]
    assert "in the window asked for" in window.read_text()
    assert "of cycles 3 to 4" in cycles.read_text()


def test_above_the_limit_the_page_says_what_is_left_out(cli: Cli, tmp_path: Path) -> None:
    page = tmp_path / "t.html"
    assert cli("timeline", NODES, "-o", page, "--max-spans", "1500").exit_code == 0
    assert spans(page) <= 1500
    assert re.search(r"drawn of \d+ of 12 cycles", page.read_text())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--window", "5"], "no window"),
        (["--window", "5ms,4ms"], "no window"),
        (["--window", "1e3ms,2s"], "no window"),
        (["--window", "-1ms,2s"], "no window"),
        (["--window", "1000s,2000s"], "nothing in this window"),
        (["--cycles", "x"], "no row of cycles"),
        (["--cycles", "0-3"], "12 cycles, not 0 to 3"),
        (["--cycles", "3-99"], "12 cycles, not 3 to 99"),
        (["--cycles", "3", "--window", "1ms,2ms"], "exclude each other"),
        (["--max-spans", "0"], "--max-spans"),
        (["--max-spans", "9"], "not even one cycle"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_drawn_is_refused(
    cli: Cli, tmp_path: Path, arguments: list[str], message: str
) -> None:
    page = tmp_path / "t.html"
    done = cli("timeline", NODES, "-o", page, *arguments)
    assert done.exit_code == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not page.exists()


def test_a_trace_is_not_overwritten(cli: Cli) -> None:
    done = cli("timeline", NODES, "-o", NODES)
    assert done.exit_code == 2
    assert "a trace that is read" in done.stderr


def test_a_page_needs_a_file(cli: Cli) -> None:
    done = cli("timeline", NODES)
    assert done.exit_code == 2
    assert "--output" in done.stderr
