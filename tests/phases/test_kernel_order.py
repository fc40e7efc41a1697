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
from traceanalyzer import analyze
from traceanalyzer.importers import load
from traceanalyzer.kernels.classification import CLASSES, class_of_ops
from traceanalyzer.phases.attribution import launched_by_graph_call, launches_of_ops
from traceanalyzer.phases.kernel_order import LEAST_SCORE, Match, match_in_order, recurring_blocks

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
    found = match_in_order(known, names)
    assert found.score == longest_common(known, names) / max(len(known), len(names))
    matched = [place for place in found.place.tolist() if place >= 0]
    assert len(matched) == longest_common(known, names)
    assert matched == sorted(set(matched))
    for place, name in zip(found.place.tolist(), names, strict=True):
        assert place < 0 or known[place] == name
    carried = found.carried(places)
    assert carried[found.place >= 0].tolist() == matched


@examples(0.2)
@given(st.integers(2, 6), st.sets(st.integers(0, 56), max_size=3), st.integers(0, 2**16))
def test_layers_survive_a_few_kernels_more_or_less(layers: int, gone: set[int], seed: int) -> None:
    names, layer = forward(layers)
    kept = [place for place in range(len(names)) if place not in gone]
    replay = [names[place] for place in kept]
    expected = [int(layer[place]) for place in kept]
    at = random.Random(seed).randrange(len(replay))
    replay.insert(at, 99)  # a kernel that the known run lacks
    found = match_in_order(names, replay)
    assert found.score >= (len(names) - len(gone)) / max(len(names), len(replay)) - 1e-9
    assert found.same_number_of_blocks or len(gone) > 1
    whole = found.carried(layer).tolist()
    carried = [value for place, value in enumerate(whole) if place != at]
    wrong = sum(a != b for a, b in zip(carried, expected, strict=True))
    assert wrong <= 2 * len(gone)  # where kernels are gone, its equals next to it may match


def test_the_same_sequence_carries_every_layer() -> None:
    names, layer = forward(36)
    found = match_in_order(names, names)
    assert (found.score, found.carried(layer).tolist()) == (1.0, layer.tolist())
    assert found.same_number_of_blocks


def holds(found: Match) -> bool:
    return found.score >= LEAST_SCORE and found.same_number_of_blocks


@pytest.mark.parametrize("more", [-6, -1, 1, 6])
def test_another_number_of_layers_does_not_hold(more: int) -> None:
    """One layer in 61 leaves 98 % of the kernels matched, and the layers' numbers unknown."""
    found = match_in_order(forward(61)[0], forward(61 + more)[0])
    assert not found.same_number_of_blocks
    assert found.score == pytest.approx(1 - abs(more) / 61, abs=0.01)


def test_one_kernel_a_layer_may_be_another() -> None:
    names, layer = forward(36)
    replay = [99 if name == 13 else name for name in names]
    found = match_in_order(names, replay)
    assert found.score == pytest.approx(1 - 36 / len(names))
    assert found.same_number_of_blocks
    assert found.carried(layer).tolist() == layer.tolist()
    fused = [name for name in names if name != 13]  # two kernels made one
    assert match_in_order(names, fused).carried(layer).tolist() == [
        place for place, name in zip(layer.tolist(), names, strict=True) if name != 13
    ]


def test_a_kernel_of_its_own_between_two_layers_is_in_neither() -> None:
    names, layer = forward(3)
    border = 1 + len(LAYER)
    between = [*names[:border], 99, *names[border:]]
    inside = [*names[: border + 1], 99, *names[border + 1 :]]
    assert match_in_order(names, between).carried(layer)[border] == -1
    assert match_in_order(names, inside).carried(layer)[border + 1] == 1


def test_other_kernels_do_not_hold() -> None:
    names, _ = forward(36)
    assert not holds(match_in_order(names, [name + 100 for name in names]))
    assert not holds(match_in_order([], []))
    assert not holds(match_in_order(names, []))


def repeated_share(names: list[int]) -> tuple[float, int]:
    """By trying every length: how much of the kernels the best block in a row fills, and its times.

    Of blocks that fill the same the shortest; a block holds 3 kernels, as `recurring_blocks` asks.
    """
    best, row = (0.0, 0), np.array(names)
    for unit in range(3, row.size // 2 + 1):
        run = 0
        for same in (row[unit:] == row[:-unit]).tolist():
            run = run + 1 if same else 0
            times = run // unit + 1
            if times > 1 and times * unit / row.size > best[0]:
                best = times * unit / row.size, times
    return best


RECORDED_GRAPHS = [
    # Qwen3-8B has 36 layers of 15 kernels each, in a row.
    ("mi300x_sglang_decode_one_graph.json.gz", [(544, 36)], 0.99),
    # gpt-oss-20b has 24, whose attention takes turns between two kinds.
    ("mi300x_vllm_decode_full_graph.json.gz", [(421, 24)], 0.9),
    # Forward and backward of a recommender in training: towers of dense layers of many shapes,
    # beside one another. No block of kernels comes back in a row but in a tenth of them.
    ("v100_graph_429_kernels_per_launch.json.gz", [(429, None), (315, None)], 0.1),
]


@needs_shared
@pytest.mark.parametrize(("file", "graphs", "share"), RECORDED_GRAPHS)
def test_layers_of_recorded_graphs(
    file: str, graphs: list[tuple[int, int | None]], share: float
) -> None:
    folder = shared_folder()
    assert folder is not None
    trace = load(folder / "traces" / "kineto" / file)
    launch = launches_of_ops(trace)
    kernels = launched_by_graph_call(trace, launch) & (trace.ops["kind"] == "kernel").to_numpy()
    ns = (trace.ops["end_ns"] - trace.ops["start_ns"]).to_numpy()
    unclassified = class_of_ops(trace) == CLASSES.index("unclassified")
    assert ns[kernels & ~unclassified].sum() >= 0.97 * ns[kernels].sum()
    found = set()
    for own in np.unique(launch[kernels]):
        rows = np.flatnonzero(kernels & (launch == own))
        order = np.argsort(trace.ops["start_ns"].to_numpy()[rows], kind="stable")
        found.add(tuple(trace.ops["name"].to_numpy()[rows][order].tolist()))
    assert sorted(map(len, found), reverse=True) == [size for size, _ in graphs]
    for names, (_, layers) in zip(sorted(found, key=len, reverse=True), graphs, strict=True):
        blocks = recurring_blocks(names)
        assert (None if blocks is None else blocks.count) == layers
        in_a_row, times = repeated_share(list(names))
        assert (in_a_row > share) == (layers is not None)
        assert blocks is None or times in (layers, layers // 2 - 1)


@needs_shared
@pytest.mark.parametrize(("file", "graphs", "share"), RECORDED_GRAPHS)
def test_the_report_tells_how_many_blocks_a_recorded_graph_has(
    file: str, graphs: list[tuple[int, int | None]], share: float
) -> None:
    folder = shared_folder()
    assert folder is not None
    report = analyze(load(folder / "traces" / "kineto" / file))
    assert [each.blocks for each in report.graphs] == [layers for _, layers in graphs]
