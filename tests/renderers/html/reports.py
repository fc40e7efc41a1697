"""Reports that pages are made of: the simulated seed case, and one full of hostile names."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from tests.harness import SAMPLE_TRACES
from traceanalyzer import Report, analyze, load
from traceanalyzer.pipeline import AnalysisOptions
from traceanalyzer.verdict.baseline import measured_baseline
from traceanalyzer.verdict.known import Known

if TYPE_CHECKING:
    from collections.abc import Callable

HOSTILE = (
    "<script>window.hit = 1</script>",
    "</script><script>window.hit = 1</script>",
    "</style><img src=x onerror='window.hit = 1'>",
    '"><svg onload=window.hit=1>',
    "' onmouseover='window.hit=1",
    "javascript:window.hit=1",
    '<a href="https://example.invalid/">here</a>',
    "<b>bold</b><br><i>more</i>",
    "void f<b>(int)",
    "std::less<a>",
    "&lt;&amp;&#60;",
    "%{x} %{customdata} %{text}",
    "$x^2$",
    "{data} {figures} ${plotly}",
    "<!-- <script>",
    "]]>",
    "<span style='font-size:99px'>large</span><extra></extra>",
    "\u202ereversed\u2066",
    "a\x00b\x1b[31m",
    "line\nbreak\ttab",
    "=HYPERLINK(1,2)",
    "\ud800",
    "k" * 10_000,
)
"""Names somebody could give a kernel, a range or a file."""

_FOREIGN = frozenset(
    {
        "path",
        "product",
        "product_version",
        "process_name",
        "name",
        "phase",
        "phases",
        "consequence",
        "kernel_class",
        "longest_kernel",
        "kernel",
        "cycle_phases",
        "cause",
        "kind",
        "graph",
        "decode_kernel",
        "verify_kernel",
        "check",
        "text",
        "next_step",
        "finding",
        "method",
        "action",
        "evidence",
        "refuted_by",
        "caveats",
        "missing",
        "next_measurement",
        "accept_len_from",
        "counted_by",
        "scope",
    }
)


@cache
def seed_report() -> Report:
    """The report of the seed case against its baseline."""
    baseline = measured_baseline(analyze(load(SAMPLE_TRACES / "seed_baseline_parquetdir")))
    options = AnalysisOptions(known=Known(baseline=baseline))
    return analyze(load(SAMPLE_TRACES / "seed_case.sqlite"), options)


def renamed(report: Report, rename: Callable[[str], str]) -> Report:
    """The report with every text that comes from a trace, or may quote it, put differently."""
    return msgspec.convert(_renamed(msgspec.to_builtins(report), rename), Report)


def _renamed(value: Any, rename: Callable[[str], str], field: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _renamed(each, rename, key) for key, each in value.items()}
    if isinstance(value, list):
        return [_renamed(each, rename, field) for each in value]
    return rename(value) if isinstance(value, str) and field in _FOREIGN else value
