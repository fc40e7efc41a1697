"""From the phases of forwards to those of launches, and from these to ranges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.phases.inferred.recurrence import DECODE, DRAFT, MIXED, SAMPLE, VERIFY
from traceanalyzer.phases.inferred.signs import CHOICE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.phases.inferred.forwards import Forwards
    from traceanalyzer.phases.inferred.recurrence import Roles
    from traceanalyzer.phases.inferred.sequence import LaunchedOps

    Int64s = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class InferredRanges:
    """Stretches of one thread's launches that belong to one phase, as arrays of one length.

    Attributes:
        thread: Row in `trace.threads`.
        start_ns: Start of the first launch's call.
        end_ns: End of the last one's.
        phase: Phase bits of `recurrence`.
    """

    thread: Int64s
    start_ns: Int64s
    end_ns: Int64s
    phase: Int64s


def ranges_of(ops: LaunchedOps, forwards: Forwards, roles: Roles) -> tuple[InferredRanges, float]:
    """The ranges of one lane, and the share of its ops' summed time that they hold.

    A forward opens a range of its own, unless it goes on drafting.
    """
    opens = np.flatnonzero(ops.opens())
    by_op = _phase_of_ops(ops, forwards, roles)
    phase = np.bitwise_or.reduceat(by_op, opens)
    ns = np.add.reduceat(ops.ns, opens)
    begins = np.zeros(ops.launch.size + 1, bool)
    begins[forwards.begin[(roles.phase & DRAFT) == 0]] = True
    anew = np.append(True, phase[1:] != phase[:-1]) | begins[opens]
    starts = np.flatnonzero(anew)
    lasts = np.append(starts[1:], opens.size) - 1
    kept = phase[starts] != 0
    return InferredRanges(
        thread=np.full(int(kept.sum()), ops.thread),
        start_ns=ops.call_start_ns[opens[starts]][kept],
        end_ns=ops.call_end_ns[opens[lasts]][kept],
        phase=phase[starts][kept],
    ), float(ns[phase != 0].sum() / max(1, ops.lane_ns))


def _phase_of_ops(ops: LaunchedOps, forwards: Forwards, roles: Roles) -> Int64s:
    """The phase of each op: its forward's, then what its forward's tail is.

    After a verify or a plain step tokens are chosen; work for the draft tree is drafting.
    """
    of_target = (roles.phase & (VERIFY | DECODE | MIXED)) != 0
    body = np.where(of_target & forwards.chooses, roles.phase | SAMPLE, roles.phase)
    samples = of_target & ((forwards.tail & CHOICE) != 0)
    tail = np.where(samples, SAMPLE, roles.phase)
    tree_begin = np.where(forwards.tree >= 0, forwards.tree, ops.launch.size)
    drafts = np.where((roles.phase & (VERIFY | MIXED)) != 0, tail, DRAFT)
    bounds = np.stack((forwards.begin, forwards.end, tree_begin), axis=1)
    following = np.append(forwards.begin[1:], ops.launch.size)
    bounds = np.minimum(bounds, following[:, None])
    length = np.diff(np.append(bounds, following[:, None], axis=1), axis=1)
    phases = np.stack((body, tail, drafts), axis=1)
    before = np.zeros(int(forwards.begin[0]), np.int64)
    return np.append(before, np.repeat(phases.ravel(), length.ravel()))
