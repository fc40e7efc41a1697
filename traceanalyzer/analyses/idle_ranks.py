"""How often each rank runs padding only.

With data-parallel attention a rank without requests still takes part in the collectives of others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.phases.phased import PhasedTrace


def idle_cycles(phased: PhasedTrace) -> NDArray[np.int64]:
    """Cycles of each lane whose forward a range, or the cycle's batch mark, flags as idle.

    Spans hold both.
    """
    cycles = phased.cycles
    idle = phased.spans.flagged("idle")[cycles.forward]
    return np.bincount(cycles.spans.lane[idle], minlength=phased.ranks.size)
