"""Blocks of kernels that repeat: written out they are the sequence, and layers are found."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.phases.kernel_blocks import MOST_KERNELS, Block, folded, unfolded

SEQUENCES = st.lists(st.integers(0, 3), max_size=40)


def written_out(names: list[int]) -> list[int]:
    blocks = folded(names)
    members = [(names[block.start : block.start + block.length], block.repeats) for block in blocks]
    return unfolded(members)


@given(SEQUENCES)
def test_blocks_written_out_are_the_sequence(names: list[int]) -> None:
    assert written_out(names) == names


@given(st.lists(st.integers(0, 30), min_size=2, max_size=20, unique=True), st.integers(3, 9))
def test_one_part_in_turn_is_one_block(part: list[int], times: int) -> None:
    assert folded(part * times) == [Block(0, len(part), times)]


def test_layers_between_a_head_and_a_tail() -> None:
    """A first layer that is another (dense among experts) shares its last kernel with the rest."""
    first, layer = [1, 2, 3, 4], [1, 2, 5, 6, 4]
    names = [0, *first, *layer * 60, 7]
    blocks = folded(names)
    assert [block.repeats for block in blocks] == [1, 60, 1]
    assert blocks[1] == Block(1 + len(first) - 1, len(layer), 60)


def test_what_repeats_nowhere_is_one_block() -> None:
    assert folded([3, 1, 2]) == [Block(0, 3, 1)]
    assert folded([]) == []


def test_a_sequence_too_long_to_search_is_one_block() -> None:
    names = [0] * (MOST_KERNELS + 1)
    assert folded(names) == [Block(0, len(names), 1)]


def test_many_small_repetitions_are_no_endless_search() -> None:
    """Between any two is a name of its own, so that they are no greater repetition."""
    names = [each for place in range(1, 2_500) for each in (0, 0, 0, 0, 0, place)]
    assert written_out(names) == names
