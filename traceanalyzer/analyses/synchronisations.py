"""Calls in which the host waits for the GPU, by the phase they were made in.

A server under measurement makes no whole-device synchronisation of its own: those in its cycles
come from timers that were patched in, and take away what the CPU runs ahead of the GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceanalyzer.intervals import Containers
from traceanalyzer.phases.attribution import launch_intervals

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.phases.spans import Spans
    from traceanalyzer.trace import Trace

SCOPES: Final = ("device", "stream", "event", "copy")

# Runtime and driver names, with HIP's; per-thread-stream variants carry a suffix. A plain copy
# blocks, its Async twin does not.
_PATTERNS: Final = {
    "device": r"^(?:cuda|hip)DeviceSynchronize|^(?:cu|hip)CtxSynchronize",
    "stream": r"^(?:cuda|cu|hip)StreamSynchronize",
    "event": r"^(?:cuda|cu|hip)EventSynchronize",
}
_COPIES: Final = r"^(?:cuda|cu|hip)Memcpy"


def synchronisations(trace: Trace, spans: Spans) -> pl.DataFrame:
    """Blocking calls inside phase and cycle ranges, of processes with and without GPU work.

    Returns:
        One row a label and scope: label (place in `spans.phases`, after them "other": in a cycle,
        outside every phase), scope, calls, host_ns. Calls outside every known range are left out.
    """
    rows, scope = _blocking_calls(trace)
    calls = launch_intervals(trace, rows)
    label = _labels(trace, spans, rows)
    known = label <= len(spans.phases)
    return (
        pl.DataFrame(
            {
                "label": label[known],
                "scope": scope.filter(pl.Series(known)),
                "host_ns": calls.duration_ns[known],
            }
        )
        .group_by("label", "scope")
        .agg(calls=pl.len().cast(pl.Int64), host_ns=pl.col("host_ns").sum())
        .select("label", "scope", "calls", "host_ns")
        .sort("label", pl.col("scope").cast(pl.Enum(SCOPES)))
    )


def _blocking_calls(trace: Trace) -> tuple[NDArray[np.int64], pl.Series]:
    """Rows in `trace.launches` of the blocking calls, and the scope of each."""
    text = pl.col("text").str
    is_copy = text.contains(_COPIES) & ~text.contains("Async", literal=True)
    matches = [(text.contains(pattern), scope) for scope, pattern in _PATTERNS.items()]
    found = [
        pl.when(matched).then(pl.lit(scope)) for matched, scope in [*matches, (is_copy, "copy")]
    ]
    scopes = trace.names.select(scope=pl.coalesce(found))["scope"]
    name = trace.launches["name"].to_numpy()
    rows = np.flatnonzero(scopes.is_not_null().to_numpy()[name])
    return rows, scopes.gather(name[rows])


def _labels(trace: Trace, spans: Spans, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """The phase whose range contains each call, "other" inside a cycle range, else one more."""
    other = len(spans.phases)
    calls = launch_intervals(trace, rows)
    label = np.full(rows.size, other + 1, np.int64)
    for chosen, fallback in ((spans.is_cycle, other), (spans.phase >= 0, None)):
        ranges = spans.rows(chosen)
        if not ranges.size or not rows.size:
            continue
        found = Containers(spans.intervals.take(ranges)).innermost(calls)
        held = found >= 0
        label[held] = fallback if fallback is not None else spans.phase[ranges][found[held]]
    return label
