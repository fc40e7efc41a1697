"""The pipeline, unmodified, recorded from outside: the trace must tell what it counted itself."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import traceanalyzer
from nvtx_hooks import reference
from tests.harness import REPOSITORY, needs_nsys, run_cli

if TYPE_CHECKING:
    from traceanalyzer.report import Report
    from traceanalyzer.trace import Trace

TARGETS = Path(reference.__file__).parent / "hooks.toml"
SMALL = ("--training-steps", "45", "--hidden-size", "64", "--layers", "3", "--draft-tokens", "3")
IN_THE_PROFILER = """
import sys
from torch.profiler import ProfilerActivity, profile
from nvtx_hooks.reference.__main__ import main
with profile(activities=[ProfilerActivity.CPU]) as recorded:
    code = main(sys.argv[2:])
recorded.export_chrome_trace(sys.argv[1])
sys.exit(code)
"""


def range_counts(trace: Trace) -> dict[str, int]:
    """Ranges by name, as the pipeline counts its own calls."""
    names = trace.ranges.select(trace.text("name")).to_series().to_list()
    bare = [
        name.removeprefix("eagle:").rsplit(":", 1)[0] if ":" in name else name for name in names
    ]
    return Counter(bare)


def check(trace: Trace, report: Report, counted: dict[str, Any]) -> None:
    calls: Counter[str] = Counter()
    for replica in counted["replicas"]:
        calls.update(replica["calls"])
    found = range_counts(trace)
    assert {name: found[name] for name in calls} == dict(calls)
    totals, acceptance = counted["totals"], report.acceptance
    assert acceptance is not None
    assert acceptance.live_accepted_drafts_histogram == totals["accepted_histogram"]
    assert acceptance.live_request_cycles == totals["request_cycles"]
    assert acceptance.committed_tokens == totals["committed"]
    assert acceptance.accept_len == totals["accept_len"]
    cycles = sum(
        rank.cycles.kept
        + sum(
            getattr(rank.cycles.dropped, name)
            for name in ("warm_up", "edge", "interrupted", "dummy")
        )
        for rank in report.ranks
    )
    assert cycles == totals["cycles"]


@needs_nsys
def test_two_workers_under_nsys(tmp_path: Path) -> None:
    counts = tmp_path / "counts.json"
    program = (sys.executable, "-m", "nvtx_hooks.reference", *SMALL, "--workers", "2")
    done = run_cli(
        *("capture", "--no-cuda", "-o", tmp_path / "run", "--"),
        *(*program, "--requests", "6", "--json", counts),
        env={"NVTX_HOOKS_TARGETS": str(TARGETS)},
    )
    assert done.exit_code == 0, done.stderr
    assert "accept_len" in done.stdout
    (recorded,) = (path for path in tmp_path.glob("run.*"))
    trace = traceanalyzer.load(recorded)
    assert trace.processes.height >= 2
    check(trace, traceanalyzer.analyze(trace), json.loads(counts.read_text()))


def test_one_worker_under_torch_profiler(tmp_path: Path) -> None:
    counts, recorded = tmp_path / "counts.json", tmp_path / "trace.json"
    program = tmp_path / "program.py"
    program.write_text(IN_THE_PROFILER)
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "NVTX_HOOKS": "1",
        "NVTX_HOOKS_BACKEND": "record_function",
        "NVTX_HOOKS_TARGETS": str(TARGETS),
        "PYTHONPATH": f"{REPOSITORY / 'nvtx_hooks/autoload/pythonpath'}:{REPOSITORY}",
    }
    done = subprocess.run(
        [sys.executable, program, recorded, *SMALL, "--requests", "6", "--json", counts],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    trace = traceanalyzer.load(recorded)
    check(trace, traceanalyzer.analyze(trace), json.loads(counts.read_text()))
