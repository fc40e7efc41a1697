"""What stands out in the growth from a plain step to verify: the causes, each in a sentence.

A cause takes a tenth of the growth or more. A class that keeps its kernels is one only by what it
grows beyond the classes that grow least: where all grow alike, none stands out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from traceanalyzer.kernels.classification import COLLECTIVES
from traceanalyzer.report import GrowthCause, KernelGrowth
from traceanalyzer.verdict import growth_words as words
from traceanalyzer.verdict.growth_classes import IDLE
from traceanalyzer.verdict.growth_kernels import added

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.report import BucketShape, Growth, GrowthEvidence

LEAST_SHARE: Final = 0.1
"""Of the growth, for something to be named as a cause of it."""

_LEAST_GROWTH: Final = 0.05
"""Of a plain step: below it verify is not dear, and nothing is to be explained."""

_USUAL_QUANTILE: Final = 0.25
_MORE_OPS: Final = 1.05
_EAGER_SHARE: Final = 0.5

_OF_CLASS: Final = {"attention": "attention kernel", "all-reduce": "all-reduce algorithm"}


@dataclass(frozen=True, slots=True)
class Grown:
    """The growth to be explained.

    Attributes:
        rows: All classes and idle time, with all of their kernels.
        evidence: What the rows rest on.
        shape: Of the verify cycles.
    """

    rows: Sequence[Growth]
    evidence: GrowthEvidence
    shape: BucketShape

    @property
    def whole_ns(self) -> float:
        """What verify takes more."""
        return math.fsum(row.more_ns for row in self.rows)

    @property
    def least_ns(self) -> float:
        """What a cause takes at least."""
        return LEAST_SHARE * self.whole_ns

    def is_cause(self, more: _More, usual_ns: float = 0.0) -> bool:
        """Whether so much more time than usual is a cause: enough, and beyond its doubt."""
        return more.ns - usual_ns >= max(self.least_ns, more.half_width_ns or 0.0)

    def cause(self, cause: str, name: str | None, more: _More, text: str) -> GrowthCause:
        """A cause with its share of the growth."""
        share = more.ns / self.whole_ns
        doubt = "" if more.half_width_ns is None else f" ± {more.half_width_ns / 1e6:.2f}"
        told = f"{text}: {more.ns / 1e6:+.2f}{doubt} ms ({100 * share:.0f} % of the growth)"
        return GrowthCause(cause, name, more.ns, more.half_width_ns, share, told)


@dataclass(frozen=True, slots=True)
class _More:
    """What verify takes more, and to either end of the 95 % interval; None where it is unknown."""

    ns: float
    half_width_ns: float | None

    def without(self, ns: float | None) -> _More:
        """Net of some time."""
        return _More(self.ns - (ns or 0.0), self.half_width_ns)

    @classmethod
    def of(cls, rows: Sequence[KernelGrowth]) -> _More:
        """Some kernels together."""
        before = added(row.decode_half_width_ns for row in rows)
        after = added(row.verify_half_width_ns for row in rows)
        known = before is not None and after is not None
        half = math.hypot(before or 0.0, after or 0.0) if known else None
        return cls(math.fsum(row.more_ns for row in rows), half)


@dataclass(frozen=True, slots=True)
class _Split:
    """A class by what became of its kernels; those of each are in `rows`."""

    changed: list[KernelGrowth]
    same: list[KernelGrowth]


def growth_causes(grown: Grown) -> list[GrowthCause]:
    """The causes, the dearest first."""
    decode_ns = math.fsum(row.decode_ns for row in grown.rows)
    if grown.whole_ns <= _LEAST_GROWTH * decode_ns:
        return []
    usual = _usual_ratio(grown.rows)
    found = [_padding(grown)]
    # Where the two run other kernels in other places, what became of a class is a guess.
    apart = grown.evidence.matched_share is not None and not grown.evidence.matched
    for row in grown.rows:
        if row.name == IDLE:
            found.append(_idle(grown, row))
            continue
        if apart:
            continue
        split = _split(row)
        found += [
            _changed(grown, row, split),
            _longer(grown, row, split, usual),
            _waiting(grown, row),
        ]
    causes = [cause for cause in found if cause is not None]
    return sorted(causes, key=lambda cause: -cause.ns)


def _usual_ratio(rows: Sequence[Growth]) -> float:
    """How much longer the classes take that grow least: a quarter of the step; 1 or more."""
    ratios = sorted(
        (kept.verify_ns / kept.decode_ns, kept.decode_ns)
        for row in rows
        if row.name != IDLE
        for kept in _split(row).same
        if kept.decode_ns > 0
    )
    enough_ns = _USUAL_QUANTILE * math.fsum(weight for _, weight in ratios)
    taken_ns = 0.0
    for ratio, weight in ratios:
        taken_ns += weight
        if taken_ns >= enough_ns:
            return max(1.0, ratio)
    return 1.0


def _split(row: Growth) -> _Split:
    """By kernels where they match, else by the longest kernel of the class."""
    kernels = row.kernels or [_whole(row)]
    same = [each for each in kernels if each.decode_kernel == each.verify_kernel]
    return _Split([each for each in kernels if each not in same], same)


def _more(row: Growth, kernels: Sequence[KernelGrowth]) -> _More:
    """Of some kernels of a class; of all of them the class is surer than they are one by one."""
    return _More.of(kernels if 0 < len(kernels) < len(row.kernels) else [_whole(row)])


def _whole(row: Growth) -> KernelGrowth:
    return KernelGrowth(
        row.decode_kernel,
        row.verify_kernel,
        0.0,
        0.0,
        row.decode_ns,
        row.verify_ns,
        row.decode_half_width_ns,
        row.verify_half_width_ns,
    )


def _changed(grown: Grown, row: Growth, split: _Split) -> GrowthCause | None:
    """A class that verify runs on other kernels than a plain step does."""
    more = _more(row, split.changed).without(row.more_wait_ns)
    if not split.changed or not grown.is_cause(more):
        return None
    swapped = [each for each in split.changed if each.decode_kernel and each.verify_kernel]
    if not swapped:
        text = words.more_kernels(row, split.changed)
        return grown.cause("more kernels", row.name, more, text)
    text = words.other_kernel(row, max(swapped, key=lambda each: each.more_ns))
    cause = _OF_CLASS.get(row.name, "other kernel")
    return grown.cause(cause, row.name, more, text)


def _longer(grown: Grown, row: Growth, split: _Split, usual: float) -> GrowthCause | None:
    """A class that takes longer on the same kernels, beyond what is usual."""
    same = split.same
    if not same:
        return None
    # Waiting is counted where the class changed its kernels, if it did.
    waiting_ns = 0.0 if split.changed else row.more_wait_ns
    more = _more(row, same).without(waiting_ns)
    before_ns = math.fsum(each.decode_ns for each in same)
    if not grown.is_cause(more, (usual - 1) * before_ns):
        return None
    numbers = [sum(each.decode_ops for each in same), sum(each.verify_ops for each in same)]
    if numbers[1] > _MORE_OPS * numbers[0]:
        return grown.cause("more kernels", row.name, more, words.more_kernels(row, same))
    if row.name == "MoE GEMM":
        text = words.experts(same, _tokens_of_request(grown.shape))
        return grown.cause("experts", row.name, more, text)
    if row.name in COLLECTIVES:
        return grown.cause("collective time", row.name, more, words.collective_time(row, same))
    return grown.cause("more time", row.name, more, words.more_time(row.name, same))


def _waiting(grown: Grown, row: Growth) -> GrowthCause | None:
    """Collectives that wait longer for a late rank, where that is told of both."""
    if row.more_wait_ns is None or not grown.is_cause(_More(row.more_wait_ns, None)):
        return None
    more = _More(row.more_wait_ns, None)
    return grown.cause("waiting", row.name, more, words.waiting(row))


def _tokens_of_request(shape: BucketShape) -> int | None:
    return None if shape.verified_tokens is None else shape.verified_tokens // (shape.batch or 1)


def _idle(grown: Grown, row: Growth) -> GrowthCause | None:
    """Idle time: of a launch kernel by kernel, where a plain step replays a graph, or of others."""
    more = _more(row, row.kernels)
    if not grown.is_cause(more):
        return None
    evidence = grown.evidence
    fell_back = (
        evidence.verify_eager_ops > _EAGER_SHARE * evidence.verify_ops
        and evidence.decode_eager_ops < _EAGER_SHARE * evidence.decode_ops
    )
    if fell_back:
        return grown.cause("eager launch", None, more, words.eager_launch(evidence))
    return grown.cause("idle time", None, more, words.IDLE_TIME)


def _padding(grown: Grown) -> GrowthCause | None:
    """Room in verify's graph that no request fills; its part of verify's kernels at most."""
    batch, after = grown.evidence.batch, grown.evidence.verify_padded_batch
    before = grown.evidence.decode_padded_batch or batch
    if not batch or not after or not before or after <= before:
        return None
    busy_ns = math.fsum(row.verify_ns for row in grown.rows if row.name != IDLE)
    most_ns = min(busy_ns * (1 - before / after), grown.whole_ns)
    if most_ns < grown.least_ns:
        return None
    return grown.cause("padding", None, _More(most_ns, None), words.padding(batch, before, after))
