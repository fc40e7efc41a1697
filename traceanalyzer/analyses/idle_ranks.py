"""How often each rank runs padding only.

With data-parallel attention a rank without requests still takes part in the collectives of others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from nvtx_hooks.vocabulary import BATCH, Flags
from traceanalyzer.phases.marks import read_marks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.phases.phased import PhasedTrace


def idle_cycles(phased: PhasedTrace) -> NDArray[np.int64]:
    """Cycles of each lane whose forward a range, or the cycle's batch mark, flags as idle."""
    cycles = phased.cycles
    flagged = phased.spans.flagged("idle")[cycles.forward]
    process = np.array(phased.ranks.process, np.int64)[cycles.spans.lane]
    told = (
        read_marks(phased.trace, BATCH)
        .filter(pl.col("flags") & int(Flags.IDLE) != 0)
        .select(process=pl.col("process").cast(pl.Int64), number="cycle", idle=pl.lit(True))
        .unique()
    )
    numbered = pl.DataFrame({"process": process, "number": phased.spans.number[cycles.forward]})
    marked = numbered.join(told, on=["process", "number"], how="left", maintain_order="left")
    idle = flagged | marked["idle"].fill_null(False).to_numpy()
    return np.bincount(cycles.spans.lane[idle], minlength=phased.ranks.size)
