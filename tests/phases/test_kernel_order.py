"""Blocks and layers from the order of kernels alone."""

from __future__ import annotations

import random
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness import needs_shared, shared_folder
from tests.strategies import examples
from traceanalyzer.importers import load
from traceanalyzer.phases.attribution import launches_of_ops
from traceanalyzer.phases.kernel_order import carried_layers, recurring_blocks

if TYPE_CHECKING:
    from collections.abc import Sequence

# Name numbers: one layer of 9 kernels of which two share a name, between a gather and a head.
LAYER = [10, 11, 12, 13, 14, 15, 11, 16, 17]


def forward(layers: int) -> tuple[list[int], np.ndarray]:
    """Kernel names of a forward, and their layers."""
    names = [1, *LAYER * layers, 2, 3]
    layer = [-1, *np.repeat(np.arange(layers), len(LAYER)).tolist(), -1, -1]
    return names, np.array(layer)


@pytest.mark.parametrize("layers", [2, 3, 36, 61])
def test_layers_are_found_by_recurrence(layers: int) -> None:
    names, layer = forward(layers)
    found = recurring_blocks(names)
    assert found is not None
    assert found.count == layers
    assert found.block.tolist() == layer.tolist()


def test_one_layer_may_differ() -> None:
    dense = [10, 11, 12, 13, 50, 51, 16]
    found = recurring_blocks([1, *dense, *LAYER * 60, 2])
    assert found is not None
    assert found.count == 61
    assert found.recurring_share == pytest.approx((60 * len(LAYER) + 5) / (60 * len(LAYER) + 9))


@pytest.mark.parametrize(
    "names",
    [
        [],
        [1],
        [1, 2, 3],
        [1, 2, 2, 1],  # the second block runs backwards
        [1, 2, 3, 4, 5, 1],  # too little recurs
        [1, 2, 3, 7, 8, 9, 1, 2, 3, 4, 5, 6, 1, 2, 3],  # half of it is something else
        random.Random(4).choices(range(40), k=400),
    ],
)
def test_what_does_not_recur_has_no_blocks(names: list[int]) -> None:
    assert recurring_blocks(names) is None


def longest_common(left: Sequence[int], right: Sequence[int]) -> int:
    @cache
    def length(i: int, j: int) -> int:
        if i == len(left) or j == len(right):
            return 0
        if left[i] == right[j]:
            return 1 + length(i + 1, j + 1)
        return max(length(i + 1, j), length(i, j + 1))

    return length(0, 0)


_names = st.lists(st.integers(1, 4), min_size=1, max_size=9)


@examples(0.3)
@given(_names, _names)
def test_the_score_is_that_of_a_longest_common_subsequence(
    known: list[int], names: list[int]
) -> None:
    places = np.arange(len(known))
    found = carried_layers(known, places, names, least_score=0.0)
    assert found is not None
    assert found.score == longest_common(known, names) / max(len(known), len(names))
    # Every kernel with a layer of its own (its place) is of the same name and in order.
    matched = [(layer, name) for layer, name in zip(found.layer, names, strict=True) if layer >= 0]
    ordered = [layer for layer, _ in matched]
    assert ordered == sorted(ordered)


@examples(0.2)
@given(st.integers(2, 6), st.sets(st.integers(0, 56), max_size=3), st.integers(0, 2**16))
def test_layers_survive_a_few_kernels_more_or_less(layers: int, gone: set[int], seed: int) -> None:
    names, layer = forward(layers)
    kept = [place for place in range(len(names)) if place not in gone]
    replay = [names[place] for place in kept]
    expected = [int(layer[place]) for place in kept]
    at = random.Random(seed).randrange(len(replay))
    replay.insert(at, 99)  # a kernel that the known run lacks
    found = carried_layers(names, layer, replay, least_score=0.5)
    assert found is not None
    assert found.score >= (len(names) - len(gone)) / max(len(names), len(replay)) - 1e-9
    carried = [value for place, value in enumerate(found.layer.tolist()) if place != at]
    wrong = sum(a != b for a, b in zip(carried, expected, strict=True))
    assert wrong <= 2 * len(gone)  # where kernels are gone, its equals next to it may match


def test_the_same_sequence_carries_every_layer() -> None:
    names, layer = forward(36)
    found = carried_layers(names, layer, names)
    assert found is not None
    assert (found.score, found.layer.tolist()) == (1.0, layer.tolist())


def test_another_sequence_is_refused() -> None:
    names, layer = forward(36)
    other, _ = forward(30)
    assert carried_layers(names, layer, other) is None
    assert carried_layers(names, layer, [name + 100 for name in names], least_score=0.1) is None
    assert carried_layers([], np.zeros(0, np.int64), []) is None


@needs_shared
@pytest.mark.parametrize(
    ("file", "kernels", "layers"),
    [
        ("mi300x_sglang_decode_one_graph.json.gz", 544, 36),  # Qwen3-8B has 36
        ("mi300x_vllm_decode_full_graph.json.gz", 421, 24),  # gpt-oss-20b has 24
        ("v100_graph_429_kernels_per_launch.json.gz", 502, None),  # training
    ],
)
def test_layers_of_recorded_graphs(file: str, kernels: int, layers: int | None) -> None:
    folder = shared_folder()
    assert folder is not None
    trace = load(folder / "traces" / "kineto" / file)
    launch = launches_of_ops(trace)
    largest = int(np.bincount(launch[launch >= 0]).argmax())
    rows = np.flatnonzero(launch == largest)
    order = np.argsort(trace.ops["start_ns"].to_numpy()[rows], kind="stable")
    names = trace.ops["name"].to_numpy()[rows][order].tolist()
    assert len(names) == kernels
    found = recurring_blocks(names)
    assert (None if found is None else found.count) == layers
