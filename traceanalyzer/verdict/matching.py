"""Which bucket of one capture may be compared with which of another?

Cycles are comparable when their shapes are equal. What a capture does not tell may be anything,
but only where that leaves a single partner. Swapping the captures swaps the pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from traceanalyzer.verdict.baseline import speculates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from traceanalyzer.report import BucketReport, BucketShape

    _Fits = Callable[[BucketShape, BucketShape], bool]

SAME_SHAPE: Final = "same shape"
SPECULATION: Final = "speculation"
SAME_TOKENS: Final = "same tokens"

_NUMBERS: Final = {
    "batch": "batch",
    "padded_batch": "padded batch",
    "verified_tokens": "verified tokens",
    "draft_tokens": "draft tokens",
    "prompt_tokens": "prompt tokens",
}


@dataclass(frozen=True, slots=True)
class Match:
    """Places of two buckets that are compared, and as what."""

    relation: str
    a: int
    b: int


def matched(a: Sequence[BucketReport], b: Sequence[BucketReport]) -> list[Match]:
    """Pairs of buckets, those on which a verdict rests first, then in A's order.

    Args:
        a: Buckets of A.
        b: Buckets of B.

    Returns:
        Buckets of the same shape, one to one. Where one capture speculates and the other does
        not, also plain decode against verify at the same batch, and plain decode of n requests
        against verify of n tokens; a bucket may then be in several pairs.
    """
    found = [Match(SAME_SHAPE, *pair) for pair in _same_shape(a, b)]
    found += _crossed(SPECULATION, _same_batch, a, b) or _crossed_alone(a, b)
    found += _crossed(SAME_TOKENS, _same_count, a, b)
    first = primary(found)
    return sorted(found, key=lambda match: (match.relation != first, match.a, match.b))


def primary(matches: Iterable[Match]) -> str | None:
    """The relation on which a verdict rests, None when no pair bears one.

    Between a capture that speculates and one that does not it is speculation: a step without
    drafts on a server that can speculate says little.
    """
    relations = {match.relation for match in matches}
    return next((each for each in (SPECULATION, SAME_SHAPE) if each in relations), None)


def assumptions(a: BucketShape, b: BucketShape) -> list[str]:
    """What has to hold for two shapes of the same kind to be comparable."""
    told = [(name, getattr(a, key), getattr(b, key)) for key, name in _NUMBERS.items()]
    unknown = [name for name, one, other in told if (one is None) != (other is None)]
    texts = [f"one capture does not tell the {name}: taken to be equal" for name in unknown]
    if a.batch is None and b.batch is None:
        texts.append("neither capture tells the batch: taken to be equal")
    if a.kind != b.kind:
        texts.append(f"{a.kind} in A stands against {b.kind} in B")
    if a.graph is not None and b.graph is not None and a.graph != b.graph:
        texts.append(f"{a.graph} in A stands against {b.graph} in B")
    return texts


def differences(a: BucketShape, b: BucketShape) -> list[str]:
    """In what two shapes differ for sure."""
    found = [f"kind {a.kind} against {b.kind}"] if a.kind != b.kind else []
    for key, name in _NUMBERS.items():
        one, other = getattr(a, key), getattr(b, key)
        if not _may_equal(one, other):
            found.append(f"{name} {one} against {other}")
    return found


def _same_shape(a: Sequence[BucketReport], b: Sequence[BucketReport]) -> list[tuple[int, int]]:
    """The surest pairs first; a doubtful one needs to be the only one for both."""
    left_a = dict(enumerate(each.shape for each in a))
    left_b = dict(enumerate(each.shape for each in b))
    found = []
    for fits in (_equal, _equal_but_graph, _of_one_kind, _both_speculate):
        pairs = _only_partners(left_a, left_b, fits)
        found += pairs
        for place_a, place_b in pairs:
            del left_a[place_a], left_b[place_b]
    return found


def _only_partners(
    a: dict[int, BucketShape], b: dict[int, BucketShape], fits: _Fits
) -> list[tuple[int, int]]:
    pairs = [(x, y) for x in a for y in b if fits(a[x], b[y])]
    of_a, of_b = [x for x, _ in pairs], [y for _, y in pairs]
    return [(x, y) for x, y in pairs if of_a.count(x) == 1 == of_b.count(y)]


def _equal(a: BucketShape, b: BucketShape) -> bool:
    return a == b


def _equal_but_graph(a: BucketShape, b: BucketShape) -> bool:
    known = all(
        getattr(a, key) == getattr(b, key) for key in _NUMBERS if key != "padded_batch"
    ) and _may_equal(a.padded_batch, b.padded_batch)
    return known and a.kind == b.kind


def _of_one_kind(a: BucketShape, b: BucketShape) -> bool:
    return a.kind == b.kind and _numbers_may_equal(a, b)


def _both_speculate(a: BucketShape, b: BucketShape) -> bool:
    """Engines launch verify with other phases or without: the cycle is still the same."""
    return "verify" in a.kind and "verify" in b.kind and _numbers_may_equal(a, b)


def _numbers_may_equal(a: BucketShape, b: BucketShape) -> bool:
    return all(_may_equal(getattr(a, key), getattr(b, key)) for key in _NUMBERS)


def _may_equal(one: int | None, other: int | None) -> bool:
    return one is None or other is None or one == other


def _crossed(
    relation: str, fits: _Fits, a: Sequence[BucketReport], b: Sequence[BucketReport]
) -> list[Match]:
    """Plain decode of one capture against verify of the other."""
    ours, theirs = any(map(speculates, a)), any(map(speculates, b))
    if ours == theirs:
        return []
    plain, drafting = (b, a) if ours else (a, b)
    found = [
        (x, y)
        for x, step in enumerate(plain)
        for y, verify in enumerate(drafting)
        if step.shape.kind == "decode" and speculates(verify) and fits(step.shape, verify.shape)
    ]
    return [Match(relation, *((y, x) if ours else (x, y))) for x, y in found]


def _crossed_alone(a: Sequence[BucketReport], b: Sequence[BucketReport]) -> list[Match]:
    """Where a batch is not told but each capture has one bucket, they can only mean each other."""
    found = _crossed(SPECULATION, _batch_may_equal, a, b)
    return found if len(found) == len(a) == len(b) == 1 else []


def _batch_may_equal(step: BucketShape, verify: BucketShape) -> bool:
    return _may_equal(step.batch, verify.batch)


def _same_batch(step: BucketShape, verify: BucketShape) -> bool:
    return step.batch is not None and step.batch == verify.batch


def _same_count(step: BucketShape, verify: BucketShape) -> bool:
    """As many tokens in a forward, by other requests."""
    return step.batch is not None and step.batch == verify.verified_tokens
