"""What the recorder's own work on the host may have added to a cycle.

It costs nothing while the host runs ahead; where the GPU waits for the host, it waits longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.analyses.gaps import CAUSES

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    from numpy.typing import NDArray

    from traceanalyzer.assembly.kernel_work import KernelWork
    from traceanalyzer.assembly.timing import Timing

RANGES_NS: Final = 14_000
"""A cycle's ranges and marks under nsys, as measured (benchmarks/results/hook_overhead.md)."""
LAUNCH_NS: Final = 1_000
"""What recording may cost a launch call: assumed, as nobody has published a figure."""
_OF_THE_HOST: Final = ("host late", "launch latency", "synchronisation")


def recorder_ns(timing: Timing, rows: NDArray[np.int64], work: Iterable[KernelWork]) -> float:
    """Upper bound of what recording added to a mean cycle, ns; nothing on the host's own clock.

    Args:
        timing: Cycles with the time in them.
        rows: The cycles.
        work: What was launched in them, by phase.
    """
    launches = sum(each.graph_launches + each.kernel_launches for each in work)
    if not launches or timing.causes != CAUSES:
        return 0.0
    causes = [CAUSES.index(cause) for cause in _OF_THE_HOST]
    waiting_ns = float(timing.time.gap[rows][:, :, causes].sum(axis=(1, 2)).mean())
    return min(waiting_ns, RANGES_NS + LAUNCH_NS * launches / rows.size)
