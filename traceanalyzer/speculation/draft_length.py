"""How many drafts pay: predicted tokens a second by draft length, and the best tree.

The k-th draft pays as long as its survival exceeds the present tokens per ms times the ms it adds.
Small integers are searched by brute force.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from traceanalyzer.speculation.cost import CostCurve, MeasuredCost
from traceanalyzer.speculation.speedup import tokens_per_s

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


def expected_accept_len(survival: Sequence[float], draft_tokens: int) -> float:
    """A(k) = 1 + s_1 + ... + s_k on a chain, the bonus token included.

    With s_i = alpha^i it is Eq. 1 of Leviathan, Kalman and Matias 2023 (arXiv 2211.17192).

    Args:
        survival: P(accepted >= i), i = 1, 2, ...
        draft_tokens: k.

    Raises:
        ValueError: k is negative or survival does not reach so far; see `extended_survival`.
    """
    if not 0 <= draft_tokens <= len(survival):
        raise ValueError(f"survival is known to {len(survival)} drafts, not to {draft_tokens}")
    return 1 + math.fsum(survival[:draft_tokens])


def extended_survival(survival: Sequence[float], to: int) -> tuple[float, ...]:
    """Survival to position `to`; beyond the last known one its conditional acceptance goes on.

    An extrapolation: nothing was drafted there. `Prediction.extrapolated` says where it was used.
    """
    extended = list(survival[:to])
    before = survival[-2] if len(survival) > 1 else 1.0
    conditional = survival[-1] / before if survival and before > 0 else 0.0
    while len(extended) < to:
        extended.append((extended[-1] if extended else 1.0) * conditional)
    return tuple(extended)


@dataclass(frozen=True, slots=True)
class CycleCosts:
    """What a cycle costs by its draft length.

    Args:
        draft: Cost of the draft phase by draft tokens, ms.
        verify: Cost of verify and sample by the verified tokens of one request, ms.
        draft_extend_ms: Re-running the draft over accepted tokens.
        other_ms: The rest of the period.
        batch: Requests of a cycle; the curves hold for it.
    """

    draft: CostCurve
    verify: CostCurve
    draft_extend_ms: float = 0.0
    other_ms: float = 0.0
    batch: float = 1

    def period_ms(self, draft_tokens: int, verified_tokens: int) -> float:
        """Period of a cycle with so many draft steps and verified tokens, ms."""
        rest_ms = self.draft_extend_ms + self.other_ms
        return self.draft.ms(draft_tokens) + self.verify.ms(verified_tokens) + rest_ms

    def measured(self, draft_tokens: int, verified_tokens: int) -> bool:
        """Whether no measured curve is continued beyond its points."""
        asked = ((self.draft, draft_tokens), (self.verify, verified_tokens))
        return all(
            curve.covers(tokens) for curve, tokens in asked if isinstance(curve, MeasuredCost)
        )


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a draft length would give.

    Args:
        draft_tokens: k.
        accept_len: A(k), bonus included.
        period_ms: T(k).
        tokens_per_s: Of all requests of the cycle.
        extrapolated: Acceptance or a cost lies beyond what was measured.
    """

    draft_tokens: int
    accept_len: float
    period_ms: float
    tokens_per_s: float
    extrapolated: bool


def predict(draft_tokens: int, survival: Sequence[float], costs: CycleCosts) -> Prediction:
    """Tokens a second of a chain of `draft_tokens` drafts: B x A(k) / T(k).

    The goodput that TurboSpec picks a length by (arXiv 2406.14066).
    """
    known = extended_survival(survival, max(draft_tokens, len(survival)))
    accept_len = expected_accept_len(known, draft_tokens)
    period_ms = costs.period_ms(draft_tokens, draft_tokens + 1)
    return Prediction(
        draft_tokens,
        accept_len,
        period_ms,
        tokens_per_s(accept_len, period_ms, costs.batch),
        draft_tokens > len(survival) or not costs.measured(draft_tokens, draft_tokens + 1),
    )


def best_draft_tokens(
    survival: Sequence[float], costs: CycleCosts, candidates: Iterable[int]
) -> Prediction:
    """The candidate of most tokens a second; of equal ones the shortest.

    k = 0 on a speculating server is no baseline: compare the result with plain decoding.

    Raises:
        ValueError: No candidate, or one below 1.
    """
    lengths = sorted(set(candidates))
    if not lengths or lengths[0] < 1:
        raise ValueError(f"draft lengths to choose from must be 1 or more, not {lengths}")
    return max((predict(k, survival, costs) for k in lengths), key=lambda each: each.tokens_per_s)


def pays_above(draft_tokens: int, survival: Sequence[float], costs: CycleCosts) -> float:
    """The survival above which draft number `draft_tokens` pays: A/T x the ms that it adds.

    A and T are those of one draft less. SpecDec++ (arXiv 2405.19715) proves that the best stop is
    a threshold on the probability of rejection.

    Raises:
        ValueError: Below 2: the first draft competes with plain decoding, see `speedup`.
    """
    if draft_tokens < 2:
        raise ValueError("the first draft competes with plain decoding, not with a shorter chain")
    before = predict(draft_tokens - 1, survival, costs)
    added_ms = costs.period_ms(draft_tokens, draft_tokens + 1) - before.period_ms
    return before.accept_len / before.period_ms * added_ms


def pays(draft_tokens: int, survival: Sequence[float], costs: CycleCosts) -> bool:
    """Whether draft number `draft_tokens` raises tokens a second over one draft less.

    Raises:
        ValueError: As `pays_above`.
    """
    known = extended_survival(survival, max(draft_tokens, len(survival)))
    return known[draft_tokens - 1] > pays_above(draft_tokens, survival, costs)


@dataclass(frozen=True, slots=True)
class Tree:
    """Draft nodes, each as the ranks of the branches that lead to it; parents come first."""

    nodes: tuple[tuple[int, ...], ...]
    accept_len: float

    @property
    def depth(self) -> int:
        """Draft steps that the tree needs."""
        return max(map(len, self.nodes), default=0)


def best_tree(branch_probabilities: Sequence[Sequence[float]], nodes: int) -> Tree:
    """The tree of so many nodes with the largest accept_len: those of largest path probability.

    A = 1 + the sum over nodes of the product of the probabilities on their path (EAGLE-2,
    arXiv 2406.16858; OPT-Tree, arXiv 2406.17276). A child is never likelier than its parent, so
    the likeliest nodes always form a tree.

    Args:
        branch_probabilities: For each depth, the conditional probabilities that its 1st, 2nd, ...
            candidate is the target's token, given that the parent is.
        nodes: Draft nodes, the root (the last committed token) not among them.

    Returns:
        Fewer nodes than asked for where the depths hold no more.

    Raises:
        ValueError: Negative nodes, or probabilities of a depth outside 0..1 or above 1 together.
    """
    if nodes < 0:
        raise ValueError(f"a tree of {nodes} nodes cannot be")
    chosen: list[tuple[int, ...]] = []
    likely: list[float] = []
    for path, probability in _likeliest(branch_probabilities):
        if len(chosen) == nodes:
            break
        chosen.append(path)
        likely.append(probability)
    return Tree(tuple(chosen), 1 + math.fsum(likely))


def _likeliest(
    branch_probabilities: Sequence[Sequence[float]],
) -> Iterator[tuple[tuple[int, ...], float]]:
    """Nodes by falling path probability; of equal ones the shallower first."""
    for branches in branch_probabilities:
        if any(not 0 <= p <= 1 for p in branches) or math.fsum(branches) > 1 + 1e-9:
            raise ValueError(f"branches of one depth cannot have probabilities {list(branches)}")
    heap: list[tuple[float, int, tuple[int, ...]]] = [(-1.0, 0, ())]
    while heap:
        negative, depth, path = heappop(heap)
        if path:
            yield path, -negative
        if depth < len(branch_probabilities):
            for rank, p in enumerate(branch_probabilities[depth]):
                heappush(heap, (negative * p, depth + 1, (*path, rank)))


@dataclass(frozen=True, slots=True)
class TreePrediction:
    """What a tree would give."""

    tree: Tree
    period_ms: float
    tokens_per_s: float


def best_tree_size(
    branch_probabilities: Sequence[Sequence[float]], costs: CycleCosts, sizes: Iterable[int]
) -> TreePrediction:
    """The best tree of most tokens a second; of equal ones the smallest.

    A tree costs its depth in draft steps and its nodes + 1 in verified tokens.

    Raises:
        ValueError: No size, or as `best_tree`.
    """
    predictions = []
    for size in sorted(set(sizes)):
        tree = best_tree(branch_probabilities, size)
        period_ms = costs.period_ms(tree.depth, len(tree.nodes) + 1)
        speed = tokens_per_s(tree.accept_len, period_ms, costs.batch)
        predictions.append(TreePrediction(tree, period_ms, speed))
    if not predictions:
        raise ValueError("a tree needs a size to choose from")
    return max(predictions, key=lambda each: each.tokens_per_s)
