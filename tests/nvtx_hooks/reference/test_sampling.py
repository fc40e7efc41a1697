from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nvtx_hooks.reference import sampling
from tests.nvtx_hooks.reference.statistics import misfit


def test_draws_are_uniform_over_seeds_places_and_draws() -> None:
    many = torch.arange(20_000)
    flat = torch.full((50,), 1 / 50)
    for draws in (
        sampling.uniform(many, torch.full_like(many, 7), 0, 1),
        sampling.uniform(torch.full_like(many, 7), many, 0, 1),
        sampling.uniform(torch.tensor([7]), torch.tensor([3]), 0, 20_000),
    ):
        assert 0 <= float(draws.min()) < float(draws.max()) < 1
        assert misfit((draws * 50).long().flatten().bincount(minlength=50), flat) < 4


def test_neighbouring_draws_are_independent() -> None:
    many = torch.arange(20_000)
    here = sampling.uniform(many, torch.zeros_like(many), 0, 2)
    beside = sampling.uniform(many + 1, torch.zeros_like(many), 0, 1)
    later = sampling.uniform(many, torch.ones_like(many), 0, 1)
    for other in (here[:, 1], beside[:, 0], later[:, 0]):
        cells = (here[:, 0] * 10).long() * 10 + (other * 10).long()
        assert misfit(cells.bincount(minlength=100), torch.full((100,), 1 / 100)) < 4


def test_a_draw_does_not_depend_on_the_others_asked_for() -> None:
    seeds, places = torch.tensor([5, -9, 2**62]), torch.tensor([1, 40, 0])
    block = sampling.uniform(seeds, places, 3, 5)
    for row, draw in ((0, 0), (1, 4), (2, 2)):
        single = sampling.uniform(seeds[row : row + 1], places[row : row + 1], 3 + draw, 1)
        assert torch.equal(single[0, 0], block[row, draw])


weights = st.lists(st.one_of(st.just(0.0), st.floats(1e-300, 1e3)), min_size=1, max_size=8).filter(
    lambda found: sum(found) > 0
)


@settings(deadline=None, max_examples=50)
@given(weights, st.one_of(st.floats(0, 1, exclude_max=True), st.just(1 - 2.0**-53)))
def test_a_token_of_weight_zero_is_never_chosen(found: list[float], draw: float) -> None:
    row = torch.tensor(found, dtype=torch.float64)
    chosen = int(sampling.choose(row, torch.tensor(draw, dtype=torch.float64)))
    assert 0 <= chosen < len(found)
    assert found[chosen] > 0


def test_tokens_are_chosen_as_often_as_they_weigh() -> None:
    seeds = torch.arange(40_000)
    draws = sampling.uniform(seeds, torch.zeros_like(seeds), 0, 1)[:, 0]
    weights = torch.tensor([3.0, 0.0, 1.0, 4.0], dtype=torch.float64)
    counts = sampling.choose(weights.expand(len(seeds), -1), draws).bincount(minlength=4)
    assert counts[1] == 0
    kept = torch.tensor([0, 2, 3])
    assert misfit(counts[kept], weights[kept] / 8) < 4
    assert misfit(counts[kept], torch.full((3,), 1 / 3)) > 8
