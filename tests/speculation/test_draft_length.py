from __future__ import annotations

import math
from itertools import combinations, pairwise, product
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import examples
from traceanalyzer.speculation.acceptance import alpha_of, geometric_survival
from traceanalyzer.speculation.cost import ExpertCost, LinearCost, MeasuredCost
from traceanalyzer.speculation.draft_length import (
    CycleCosts,
    best_draft_tokens,
    best_tree,
    best_tree_size,
    expected_accept_len,
    extended_survival,
    pays,
    pays_above,
    predict,
)
from traceanalyzer.speculation.speedup import implied_accept_len, tokens_per_s

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.speculation.cost import CostCurve

# The seed case: verify(6) = 28.45 ms, a decode step 11.1 ms, 4 draft steps of 0.545 ms.
ALPHA = alpha_of(implied_accept_len(71.0, 31.74), 5)
DRAFT = LinearCost(-0.545, 0.545)
FIXED = LinearCost(23.22, 0.87)
PER_TOKEN = LinearCost(11.1 - (28.45 - 11.1) / 5, (28.45 - 11.1) / 5)
PER_EXPERT = ExpertCost.through(384, 8, 11.1, (6, 28.45))

_survivals = st.lists(st.floats(0, 1), min_size=1, max_size=8).map(
    lambda conditional: tuple(math.prod(conditional[: i + 1]) for i in range(len(conditional)))
)
_costs = st.builds(
    lambda draft, verify, extend, other: CycleCosts(
        LinearCost(0.1, draft), LinearCost(*verify), extend, other, 4
    ),
    st.floats(0, 5),
    st.tuples(st.floats(0.1, 50), st.floats(0, 8)),
    st.floats(0, 5),
    st.floats(0, 5),
)


def case(verify: CostCurve) -> CycleCosts:
    return CycleCosts(DRAFT, verify, draft_extend_ms=1.12)


@pytest.mark.parametrize(
    ("verify", "rates"),
    [
        pytest.param(FIXED, (60.3, 72.1, 71.0, 60.0), id="H-fixed"),
        pytest.param(PER_TOKEN, (100.2, 87.9, 71.0, 45.0), id="H-linear"),
        pytest.param(PER_EXPERT, (99.2, 87.1, 71.0, 46.5), id="H-experts"),
    ],
)
def test_tokens_per_s_of_the_seed_case_by_draft_length(
    verify: CostCurve, rates: tuple[float, ...]
) -> None:
    found = [predict(k, geometric_survival(ALPHA, k), case(verify)) for k in (1, 3, 5, 10)]
    assert [each.tokens_per_s for each in found] == pytest.approx(rates, abs=0.06)


def test_acceptance_and_cycles_of_the_seed_case() -> None:
    survival = geometric_survival(ALPHA, 5)
    assert pytest.approx(0.5718, abs=5e-5) == ALPHA
    assert predict(10, survival, case(FIXED)).accept_len == pytest.approx(2.330, abs=5e-4)
    assert predict(1, survival, case(FIXED)).period_ms == pytest.approx(26, abs=0.1)
    assert predict(1, survival, case(PER_TOKEN)).period_ms == pytest.approx(16, abs=0.4)


@pytest.mark.parametrize(
    ("verify", "best", "rate"), [(FIXED, 4, 72.3), (PER_TOKEN, 1, 100.2), (PER_EXPERT, 1, 99.2)]
)
def test_the_two_explanations_of_the_seed_case_want_opposite_lengths(
    verify: CostCurve, best: int, rate: float
) -> None:
    found = best_draft_tokens(geometric_survival(ALPHA, 10), case(verify), range(1, 11))
    assert found.draft_tokens == best
    assert found.tokens_per_s == pytest.approx(rate, abs=0.06)
    assert pays(4, geometric_survival(ALPHA, 5), case(verify)) == (verify is FIXED)


@pytest.mark.parametrize(
    ("verify_ms", "rate"),
    [(0.9 * 28.45, 78.0), (0.5 * 28.45, 128.6), (11.1 + 5 * 0.87, 120.0)],
)
def test_cheaper_verify_in_the_seed_case(verify_ms: float, rate: float) -> None:
    costs = CycleCosts(DRAFT, MeasuredCost(((6, verify_ms),)), 1.12, -0.01)
    found = predict(5, geometric_survival(ALPHA, 5), costs)
    assert found.tokens_per_s == pytest.approx(rate, abs=0.3)


# Chains.


def simulated_accept_len(survival: Sequence[float], k: int) -> float:
    """The mean of 1 + accepted drafts, each outcome with its probability."""
    ends = (1.0, *survival[:k], 0.0)
    return sum((1 + a) * (ends[a] - ends[a + 1]) for a in range(k + 1))


@examples(0.3)
@given(_survivals, st.data())
def test_expected_accept_len_is_the_mean_over_outcomes(
    survival: tuple[float, ...], data: st.DataObject
) -> None:
    k = data.draw(st.integers(0, len(survival)))
    found = expected_accept_len(survival, k)
    assert found == pytest.approx(simulated_accept_len(survival, k))
    assert 1 <= found <= k + 1
    for beyond in (len(survival) + 1, -1):
        with pytest.raises(ValueError, match="survival is known to"):
            expected_accept_len(survival, beyond)


@examples(0.3)
@given(st.floats(0, 1), st.integers(1, 8), st.integers(0, 16))
def test_a_geometric_survival_goes_on_as_it_is(alpha: float, known: int, to: int) -> None:
    found = extended_survival(geometric_survival(alpha, known), to)
    assert found == pytest.approx(geometric_survival(alpha, to))


def test_nothing_survives_a_dead_position() -> None:
    assert extended_survival((0.5, 0.0), 4) == (0.5, 0, 0, 0)
    assert extended_survival((0.0, 0.0), 3) == (0, 0, 0)
    assert extended_survival((), 2) == (0, 0)


@examples()
@given(_survivals, _costs, st.sets(st.integers(1, 12), min_size=1))
def test_the_best_length_is_the_brute_force_one(
    survival: tuple[float, ...], costs: CycleCosts, candidates: set[int]
) -> None:
    found = best_draft_tokens(survival, costs, candidates)
    known = extended_survival(survival, 12)
    rates = {
        k: 1000 * costs.batch * simulated_accept_len(known, k) / costs.period_ms(k, k + 1)
        for k in candidates
    }
    assert found.tokens_per_s == pytest.approx(max(rates.values()))
    assert found.draft_tokens in candidates
    assert found == predict(found.draft_tokens, survival, costs)


def test_of_equal_lengths_the_shortest_is_best() -> None:
    costs = CycleCosts(LinearCost(0, 0), LinearCost(10, 0))
    assert best_draft_tokens((0.5, 0.0, 0.0), costs, (3, 2, 1)).draft_tokens == 1


@pytest.mark.parametrize("candidates", [(), (0, 1)])
def test_lengths_that_cannot_be_chosen(candidates: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="1 or more"):
        best_draft_tokens((0.5,), case(FIXED), candidates)


@examples()
@given(_survivals, _costs, st.integers(1, 10), st.data())
def test_better_acceptance_or_cheaper_verify_never_lowers_the_rate(
    survival: tuple[float, ...], costs: CycleCosts, k: int, data: st.DataObject
) -> None:
    towards_one = data.draw(st.floats(0, 1))
    better = tuple(s + towards_one * (1 - s) for s in survival)
    less = data.draw(st.floats(0, 1))
    verify = costs.verify
    assert isinstance(verify, LinearCost)
    cheaper = CycleCosts(
        costs.draft,
        LinearCost(verify.fixed_ms * less, verify.per_token_ms * less),
        costs.draft_extend_ms,
        costs.other_ms,
        costs.batch,
    )
    k = min(k, len(survival))  # beyond, better acceptance on average may fall off faster
    now = predict(k, survival, costs).tokens_per_s
    assert predict(k, better, costs).tokens_per_s >= now * (1 - 1e-9)
    assert predict(k, survival, cheaper).tokens_per_s >= now * (1 - 1e-9)
    lengths = range(1, len(survival) + 1)
    best = best_draft_tokens(survival, costs, lengths).tokens_per_s
    assert best_draft_tokens(better, costs, lengths).tokens_per_s >= best * (1 - 1e-9)
    assert best_draft_tokens(survival, cheaper, lengths).tokens_per_s >= best * (1 - 1e-9)


@examples()
@given(_survivals, _costs, st.integers(2, 10))
def test_a_draft_pays_when_one_less_gives_fewer_tokens_a_second(
    survival: tuple[float, ...], costs: CycleCosts, k: int
) -> None:
    longer, shorter = (predict(each, survival, costs).tokens_per_s for each in (k, k - 1))
    if abs(longer / shorter - 1) > 1e-9:
        assert pays(k, survival, costs) == (longer > shorter)
    assert pays_above(k, survival, costs) >= 0


def test_the_first_draft_has_no_shorter_chain_to_beat() -> None:
    with pytest.raises(ValueError, match="plain decoding"):
        pays(1, (0.5,), case(FIXED))


def test_what_lies_beyond_the_measured_is_marked() -> None:
    verify = MeasuredCost(((2, 15.0), (6, 28.0)))
    costs = CycleCosts(DRAFT, verify, 1.12)
    marked = [predict(k, (0.6, 0.4, 0.3), costs).extrapolated for k in range(1, 7)]
    assert marked == [False, False, False, True, True, True]
    long = geometric_survival(0.6, 9)
    assert [predict(k, long, costs).extrapolated for k in (1, 5, 6)] == [False, False, True]


# Trees.

_branches = st.lists(
    st.lists(st.sampled_from((0.0, 0.1, 0.2, 0.3, 0.5)), min_size=1, max_size=2),
    min_size=1,
    max_size=3,
)


def path_probability(branches: Sequence[Sequence[float]], path: tuple[int, ...]) -> float:
    return math.prod(branches[depth][rank] for depth, rank in enumerate(path))


def brute_force_accept_len(branches: Sequence[Sequence[float]], nodes: int) -> float:
    """The largest accept_len of all sets of nodes that contain their parents."""
    paths = [
        path
        for depth in range(1, len(branches) + 1)
        for path in product(*(range(len(each)) for each in branches[:depth]))
    ]
    best = 1.0
    for chosen in combinations(paths, min(nodes, len(paths))):
        if all(len(path) == 1 or path[:-1] in chosen for path in chosen):
            best = max(best, 1 + sum(path_probability(branches, path) for path in chosen))
    return best


@examples(0.3)
@given(_branches, st.integers(0, 6))
def test_the_best_tree_is_the_brute_force_one(branches: list[list[float]], nodes: int) -> None:
    tree = best_tree(branches, nodes)
    assert tree.accept_len == pytest.approx(brute_force_accept_len(branches, nodes))
    assert len(set(tree.nodes)) == len(tree.nodes) <= nodes
    for at, node in enumerate(tree.nodes):
        assert len(node) == 1 or node[:-1] in tree.nodes[:at]
    assert tree.accept_len <= tree.depth + 1 + 1e-9


@examples(0.3)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.integers(0, 10))
def test_a_chain_is_the_tree_with_one_branch(conditional: list[float], nodes: int) -> None:
    tree = best_tree([[p] for p in conditional], nodes)
    k = min(nodes, len(conditional))
    survival = [math.prod(conditional[: i + 1]) for i in range(len(conditional))]
    assert tree.accept_len == pytest.approx(expected_accept_len(survival, k))
    assert tree.nodes == tuple((0,) * depth for depth in range(1, k + 1))


def test_trees_grow_by_one_node() -> None:
    branches = [[0.6, 0.2, 0.1], [0.5, 0.3], [0.4, 0.1]]
    trees = [best_tree(branches, nodes) for nodes in range(10)]
    for smaller, larger in pairwise(trees):
        assert larger.nodes[:-1] == smaller.nodes
        assert larger.accept_len > smaller.accept_len
    assert trees[4].nodes == ((0,), (0, 0), (1,), (0, 1))


@pytest.mark.parametrize(
    ("branches", "nodes"), [([[0.7, 0.4]], 1), ([[-0.1]], 1), ([[1.1]], 1), ([[0.5]], -1)]
)
def test_trees_that_cannot_be(branches: list[list[float]], nodes: int) -> None:
    with pytest.raises(ValueError, match="cannot"):
        best_tree(branches, nodes)


@examples(0.3)
@given(_branches, _costs, st.sets(st.integers(0, 8), min_size=1))
def test_the_best_tree_size_is_the_brute_force_one(
    branches: list[list[float]], costs: CycleCosts, sizes: set[int]
) -> None:
    found = best_tree_size(branches, costs, sizes)
    rates = []
    for size in sizes:
        tree = best_tree(branches, size)
        depth = max(map(len, tree.nodes), default=0)
        period_ms = costs.period_ms(depth, 1 + len(tree.nodes))
        rates.append(tokens_per_s(tree.accept_len, period_ms, costs.batch))
    assert found.tokens_per_s == max(rates)
    with pytest.raises(ValueError, match="size"):
        best_tree_size(branches, costs, ())
