"""Ranks: the lanes of the analysis, one a pair of process and GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.intervals import Packing

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.trace import Trace


@dataclass(frozen=True, slots=True)
class Ranks:
    """Lane i of every GPU interval is row i of `trace.devices`.

    Attributes:
        number: Rank number of each lane: the files' own where all tell different ones, else the
            order of the lanes.
        process: Row in `trace.processes` of each lane.
        lane_of_op: Lane of each op.
    """

    number: tuple[int, ...]
    process: tuple[int, ...]
    lane_of_op: NDArray[np.int64]

    @property
    def size(self) -> int:
        """How many lanes there are."""
        return len(self.number)


def find_ranks(trace: Trace) -> Ranks:
    """Assign every op to its lane and number the lanes."""
    devices = trace.devices
    process = devices["process"].to_list()
    stated = trace.processes["rank"].gather(devices["process"]).to_list()
    distinct = None not in stated and len(set(stated)) == len(stated)
    return Ranks(
        number=tuple(stated if distinct else range(devices.height)),
        process=tuple(process),
        lane_of_op=_lane_of_op(trace),
    )


def _lane_of_op(trace: Trace) -> NDArray[np.int64]:
    ops, devices = trace.ops, trace.devices
    if devices.height == 1:  # its number once
        return np.broadcast_to(np.int64(0), ops.height)
    own = ops["process"].to_numpy().astype(np.int64), ops["device_id"].to_numpy()
    known = devices["process"].to_numpy().astype(np.int64), devices["device_id"].to_numpy()
    packing = Packing.covering(trace.processes.height, (own[1], known[1]))
    keys = packing.key(*known)
    order = np.argsort(keys)
    return order[np.searchsorted(keys[order], packing.key(*own))]
