"""Which forwards are the target's, what each does, and how regularly that comes back.

Between two verifies the draft model runs over the accepted tokens and then once for each further
draft; a forward of the target that breaks this order runs prompts, or a plain step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.phases.inferred.prompts import TargetForwards, prompts_in
from traceanalyzer.phases.inferred.signs import ACCEPT, CHOICE, PICK, PROMPT
from traceanalyzer.phases.inferred.sizes import Unclear
from traceanalyzer.phases.rules import PHASES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.phases.inferred.forwards import Forwards
    from traceanalyzer.phases.inferred.sequence import LaunchedOps
    from traceanalyzer.phases.inferred.sizes import Sizes

    Int64s = NDArray[np.int64]
    Bools = NDArray[np.bool_]

DRAFT, VERIFY, SAMPLE, EXTEND, DECODE, PREFILL, DRAFT_PREFILL, MIXED = (
    1 << PHASES.index(phase)
    for phase in (
        "draft",
        "verify",
        "sample",
        "draft_extend",
        "decode",
        "prefill",
        "draft_prefill",
        "mixed",
    )
)
"""Phases as bits, in the order of `PHASES`; several bits are a fused phase."""

_FEWEST_CYCLES: Final = 8
_LONGEST_PERIOD_NS: Final = 1_000_000_000
_HALF: Final = 0.5
_MOSTLY: Final = 0.8
_LONGER: Final = 1.5
_AS_LONG: Final = 1.05
_MOST_DOUBTFUL: Final = 0.05
_ORDERS: Final = 2  # cycles that were replayed, and cycles that ran eagerly


@dataclass(frozen=True, slots=True)
class Roles:
    """What each forward does.

    Attributes:
        phase: Phase bits of each forward, 0 for none.
        kind: The recurring target forward: `VERIFY` or `DECODE`.
        draft_tokens: Forwards of the draft model a cycle, which are as many as drafts; 0 where
            there is no draft model, or whole-graph rows hide its forwards.
        cycles: How many recurring target forwards carry no prompt tokens.
        regular_share: Share of neighbouring ones between which the same forwards ran.
        judged: Whether named kernels judge drafts after the target.
    """

    phase: Int64s
    kind: int
    draft_tokens: int
    cycles: int
    regular_share: float
    judged: bool


@dataclass(frozen=True, slots=True)
class _Sequence:
    """The forwards of target and draft model in order.

    Attributes:
        targets: The target's forwards.
        group: Of each forward the place in `targets` of the last one up to it, -1 before.
        ordinal: Place of each of the draft model's forwards among those of its group.
        after: Runs of the draft model after each target forward; a replay is one.
        key: Graph of each forward, or the kernel of its first attention where no graph is known.
    """

    ops: LaunchedOps
    forwards: Forwards
    sizes: Sizes
    targets: Int64s
    group: Int64s
    ordinal: Int64s
    after: Int64s
    key: Int64s

    @property
    def judged(self) -> Bools:
        """After which target forwards drafts are judged."""
        return (self.forwards.tail[self.targets] & ACCEPT) != 0

    @property
    def chosen(self) -> Bools:
        """After which target forwards tokens are chosen."""
        return self._tail(CHOICE) | self.forwards.chooses[self.targets]

    @property
    def picked(self) -> Bools:
        """After which target forwards tokens are picked, not only weighed."""
        return self._tail(PICK) | self.forwards.chooses[self.targets]

    def _tail(self, sign: int) -> Bools:
        return (self.forwards.tail[self.targets] & sign) != 0


def roles_of(ops: LaunchedOps, forwards: Forwards, sizes: Sizes) -> Roles:
    """Give every forward its phase.

    Raises:
        Unclear: It recurs too seldom, or what it is cannot be told.
    """
    sequence = _in_order(ops, forwards, sizes)
    _check_count(sequence.targets.size)
    judged = bool(sequence.judged.any())
    drafts = bool((sequence.after[sequence.judged | (not judged)] > 0).mean() >= _HALF)
    if drafts and not judged and not sizes.layers:
        raise Unclear("whole-graph rows alone do not tell which graph is the target's")
    recurring = _recurring(sequence, judged=judged, drafts=drafts)
    kind = VERIFY if drafts or judged else DECODE
    rows = sequence.targets[recurring]
    _check_count(rows.size)
    _check_period(ops.start_ns[forwards.first[rows]])
    if sequence.picked[recurring].mean() < _MOSTLY:
        raise Unclear("nothing picks tokens after the deepest forwards")
    phase = np.zeros(forwards.size, np.int64)
    prompts = prompts_in(_targets(sequence, recurring))
    usual = recurring & ~prompts.carried & ~prompts.unsure
    _check_count(int(usual.sum()))
    of_target = np.where(recurring, kind, _irregular(sequence, usual, judged=judged))
    of_target[prompts.carried] = MIXED if kind == VERIFY else MIXED | PREFILL
    of_target[prompts.unsure] = 0
    phase[sequence.targets] = of_target
    if drafts:
        phase = np.where(sizes.small, _of_drafts(sequence, phase, judged=judged), phase)
        # Where every forward of the draft model is hidden, nothing told its prompts' apart.
        if not (forwards.layers[sizes.small] > 0).any():
            phase[(phase == PREFILL) & (forwards.layers > 0)] |= DRAFT_PREFILL
    regular = _regular_share(sequence, recurring, drafts=drafts)
    if regular < _MOSTLY:
        raise Unclear(f"no order recurs: at best {regular:.0%} of cycles run the same forwards")
    tokens = _draft_tokens(sequence, recurring) if drafts else 0
    return Roles(phase, kind, tokens, int(usual.sum()), regular, judged)


def _in_order(ops: LaunchedOps, forwards: Forwards, sizes: Sizes) -> _Sequence:
    targets = np.flatnonzero(sizes.target)
    group = np.cumsum(sizes.target) - 1
    small = np.append(0, np.cumsum(sizes.small))
    launch = ops.launch[forwards.first]
    again = np.append(False, launch[1:] == launch[:-1]) & np.append(False, sizes.small[:-1])
    runs = sizes.small & ~(again & ops.replayed[forwards.first])
    after = np.bincount(group[runs & (group >= 0)], minlength=targets.size)
    before_group = np.append(0, small[targets])[group + 1]
    graph = ops.graph[forwards.first]
    replayed = ops.replayed[forwards.first] & (graph >= 0)
    key = np.where(replayed, -1 - graph, ops.name[forwards.first])
    return _Sequence(ops, forwards, sizes, targets, group, small[:-1] - before_group, after, key)


def _recurring(sequence: _Sequence, *, judged: bool, drafts: bool) -> Bools:
    """Which of the target's forwards are those that come back every cycle.

    Raises:
        Unclear: Without a draft model, nothing tells a verify from a plain step.
    """
    if judged:
        return sequence.judged
    if drafts:
        return _drafted_for(sequence)
    key = sequence.key[sequence.targets]
    signs = sequence.forwards.signs[sequence.targets]
    usual = (signs & PROMPT) == 0
    if usual.mean() < _HALF:
        raise Unclear(
            "one forward a cycle, through an attention kernel for prompts: decode or verify"
        )
    median = np.median(sequence.forwards.ns[sequence.targets[usual]])
    length = sequence.forwards.ns[sequence.targets]
    return usual & sequence.chosen & ~(_seldom_repeated(key) & (length > _LONGER * median))


def _seldom_repeated(key: Int64s) -> Bools:
    """Which keys mostly stand between other ones."""
    again = np.append(key[1:] == key[:-1], False) | np.append(False, key[1:] == key[:-1])
    _, place = np.unique(key, return_inverse=True)
    return (np.bincount(place, again) < _MOSTLY * np.bincount(place))[place]


def _drafted_for(sequence: _Sequence) -> Bools:
    """Which of the target's forwards follow as much drafting as most do, where no kernel judges.

    Raises:
        Unclear: Others that choose tokens take too long to be left in doubt.
    """
    before = np.append(0, sequence.after[:-1])
    found, times = np.unique(before[before > 0], return_counts=True)
    usual = before == found[times.argmax()]
    recurring = usual & sequence.chosen
    length = sequence.forwards.ns[sequence.targets]
    doubtful = length[sequence.chosen & ~usual].sum() / max(1, length.sum())
    if doubtful > _MOST_DOUBTFUL:
        raise Unclear(
            f"no kernel judges drafts, and {doubtful:.0%} of the target's time follows another "
            "number of drafts than usual"
        )
    return recurring


def _targets(sequence: _Sequence, recurring: Bools) -> TargetForwards:
    forwards, launch, rows = sequence.forwards, sequence.ops.launch, sequence.targets
    first = forwards.first[rows]
    whole = sequence.ops.replayed[first] & (launch[first] == launch[forwards.end[rows] - 1])
    return TargetForwards(forwards.ns[rows], recurring, whole)


def _irregular(sequence: _Sequence, recurring: Bools, *, judged: bool) -> Int64s:
    """Phase of each target forward if it is none of those that recur.

    Without a choice of tokens it runs prompts. Else the kernel of its attention tells, or that it
    takes longer than a verify; where neither does it is a plain step or a prompt. Where no kernel
    judges drafts, a prompt that tokens are chosen after may be in one forward with other requests.
    """
    forwards, rows = sequence.forwards, sequence.targets
    usual = rows[recurring]
    prompts = (forwards.signs[rows] & PROMPT) != 0
    usually = (forwards.signs[usual] & PROMPT).any()
    known = forwards.layers[rows] > 0
    median = np.median(forwards.ns[usual])
    short = ~known & (forwards.ns[rows] <= _AS_LONG * median)
    phase = np.full(rows.size, DECODE | PREFILL)
    if sequence.sizes.small.any() or sequence.judged.any():
        phase[forwards.ns[rows] > _LONGER * median] = PREFILL
    phase[short | (known & usually & ~prompts)] = DECODE
    phase[known & prompts & ~usually | ~sequence.chosen] = PREFILL
    if not judged:
        phase[sequence.chosen & ((phase & PREFILL) != 0)] |= MIXED
    return phase


def _of_drafts(sequence: _Sequence, phase: Int64s, *, judged: bool) -> Int64s:
    """Phase of each forward of the draft model.

    After a verify the first runs over the accepted tokens, after prompts over those, and the
    others draft. Anywhere else, and in place of prompts, one that drafts is known by its kernel
    or graph.
    """
    before = np.append(phase[sequence.targets], 0)[sequence.group]
    first = sequence.sizes.small & (sequence.ordinal == 0)
    extends = first & ((before == VERIFY) | (before == MIXED))
    drafts = sequence.sizes.small & ~first
    usual = (_most_common(sequence.key[rows]) for rows in (extends, drafts))
    alike = bool(extends.any() and drafts.any() and next(usual) == next(usual))
    found = np.where(first, EXTEND, DRAFT)
    found[first & (before == PREFILL)] = DRAFT_PREFILL
    unknown = first & ~extends & (before != PREFILL)
    found[unknown] = EXTEND | DRAFT
    if not alike:
        found[first & ~extends & np.isin(sequence.key, sequence.key[drafts])] = DRAFT
        found[unknown & np.isin(sequence.key, sequence.key[extends])] = EXTEND
    if alike and not judged:
        found[found != DRAFT_PREFILL] = EXTEND | DRAFT
    found[_alone(sequence) & (found == EXTEND)] = EXTEND | DRAFT
    found[_stray(sequence)] = 0
    return found


def _stray(sequence: _Sequence) -> Bools:
    """Which whole-graph rows are of graphs that no usual cycle replays: anything may be in them."""
    counts, times = np.unique(sequence.after, return_counts=True)
    usual = np.isin(sequence.after, counts[np.argsort(times)[-_ORDERS:]])
    in_usual = np.append(usual, False)[sequence.group]
    opaque = sequence.forwards.layers == 0
    return opaque & ~np.isin(sequence.key, sequence.key[in_usual & opaque])


def _alone(sequence: _Sequence) -> Bools:
    """Which whole-graph rows are all that a cycle has of the draft model: they can hold both."""
    once = np.append(sequence.after == 1, False)[sequence.group]
    usually = _most_common(sequence.after) == 1
    return once & usually & (sequence.forwards.layers == 0)


def _regular_share(sequence: _Sequence, recurring: Bools, *, drafts: bool) -> float:
    """Share of neighbouring recurring forwards alike in what follows, else in themselves."""
    pairs = np.flatnonzero(recurring[1:] & recurring[:-1])
    if not pairs.size:
        return 0.0
    if not drafts:
        key, length = sequence.key[sequence.targets], sequence.forwards.ns[sequence.targets]
        shorter = np.minimum(length[pairs], length[pairs + 1])
        longer = np.maximum(length[pairs], length[pairs + 1])
        known = sequence.sizes.depth[sequence.targets] > 0
        alike = (key[pairs + 1] == key[pairs]) | (known[pairs] & known[pairs + 1])
        return float((alike & (longer <= _LONGER * shorter)).mean())
    _, times = np.unique(sequence.after[pairs], return_counts=True)
    return float(np.sort(times)[-_ORDERS:].sum() / pairs.size)


def _draft_tokens(sequence: _Sequence, recurring: Bools) -> int:
    """Forwards of the draft model a cycle, where kernels show each of them."""
    groups = np.flatnonzero(recurring[:-1] & recurring[1:])
    small = np.flatnonzero(sequence.sizes.small & (sequence.group >= 0))
    size = sequence.targets.size
    count = np.bincount(sequence.group[small], minlength=size)
    hidden = small[sequence.forwards.layers[small] == 0]
    shown = groups[np.bincount(sequence.group[hidden], minlength=size)[groups] == 0]
    return int(_most_common(count[shown])) if shown.size else 0


def _check_count(cycles: int) -> None:
    if cycles < _FEWEST_CYCLES:
        raise Unclear(
            f"too few cycles: {cycles} recurring forwards of the target, "
            f"{_FEWEST_CYCLES} are needed"
        )


def _check_period(start_ns: Int64s) -> None:
    period_ns = float(np.median(np.diff(np.sort(start_ns))))
    if period_ns > _LONGEST_PERIOD_NS:
        raise Unclear(f"what recurs takes {period_ns / 1e9:.1f} s, which is no decode cycle")


def _most_common(values: Int64s) -> int:
    """The value that occurs most often, the lowest of several; 0 of none."""
    found, times = np.unique(values, return_counts=True)
    return int(found[times.argmax()]) if found.size else 0
