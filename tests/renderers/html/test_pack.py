"""Packed columns come back as they were, or not at all."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.strategies import examples
from traceanalyzer.errors import InputError
from traceanalyzer.renderers.html.lane_pack import short_name, shown_name
from traceanalyzer.renderers.html.pack import EXACT, Column, pack, unpack

_EDGES = [0, 1, -1, 127, 128, 255, 256, 65_535, 65_536, 2**31, 2**32 - 1, 2**32, 2**40]
_numbers = st.one_of(
    st.integers(-300, 300),
    st.sampled_from([*_EDGES, *(-edge for edge in _EDGES)]),
    st.integers(-(2**50), 2**50),
)
_columns = st.dictionaries(
    st.text("abc.", min_size=1, max_size=3),
    st.tuples(st.lists(_numbers, max_size=40), st.booleans()),
    max_size=4,
)


def column(values: list[int], *, differences: bool = False) -> Column:
    return Column(np.array(values, np.int64), differences)


@examples()
@given(_columns)
@example({"a": ([], True), "b": ([2**50, -(2**50)], True)})
def test_columns_come_back(drawn: dict[str, tuple[list[int], bool]]) -> None:
    packed = pack({"says": "x"}, {name: column(v, differences=d) for name, (v, d) in drawn.items()})
    header, columns = unpack(packed)
    assert header == {"says": "x"}
    assert {name: values.tolist() for name, values in columns.items()} == {
        name: values for name, (values, _) in drawn.items()
    }


@pytest.mark.parametrize(
    ("highest", "width"),
    [(0, 1), (255, 1), (256, 2), (65_535, 2), (65_536, 4), (2**32 - 1, 4), (2**32, 8)],
)
def test_the_width_is_the_narrowest_that_holds_all(highest: int, width: int) -> None:
    packed = pack({}, {"a": column([0, highest])})
    length = struct.unpack_from("<I", packed)[0]
    assert len(packed) == 4 + length + 2 * width


def test_bytes_are_shuffled_and_signs_folded() -> None:
    packed = pack({}, {"a": column([0x0102, 0x0304]), "b": column([1, 3, 2], differences=True)})
    # Lowest bytes first; differences 1, 2, -1 fold to 2, 4, 1.
    assert packed.endswith(bytes([0x02, 0x04, 0x01, 0x03, 2, 4, 1]))


@pytest.mark.parametrize("number", [EXACT + 1, -EXACT - 1, 2**62, -(2**63), 2**63 - 1])
@pytest.mark.parametrize("differences", [False, True])
def test_a_number_that_is_not_exact_is_an_error(number: int, differences: bool) -> None:
    with pytest.raises(InputError, match="2\\^53"):
        pack({}, {"a": column([0, number], differences=differences)})


def test_a_difference_that_is_not_exact_is_an_error() -> None:
    with pytest.raises(InputError, match="2\\^53"):
        pack({}, {"a": column([-(2**52) - 1, 2**52], differences=True)})


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("void f<b>(int)", "f"),
        ("void at::native::(anonymous namespace)::softmax<float, 4>(float*, int)", "softmax"),
        ("std::enable_if<!T>::type ns::run<(int)3, A<B<C> > >(Params)", "run"),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgs<4096>)", None),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_tn", "sm90_xmma_gemm_bf16bf16_bf16f32_tn"),
        ("Memcpy DtoD (Device -> Device)", "Memcpy DtoD (Device -> Device)"),
        ("<<<<", "<<<<"),
        ("", ""),
    ],
)
def test_short_names_keep_the_function(name: str, short: str | None) -> None:
    assert short_name(name) == (short or name.split("(")[0])


@given(st.text(max_size=60))
def test_every_name_has_a_short_one(name: str) -> None:
    assert len(short_name(name)) <= 60
    assert bool(short_name(name)) == bool(name)


def test_monsters_lose_their_middle_and_say_so() -> None:
    shown = shown_name("a" * 15_000 + "b" * 15_000)
    assert shown.startswith("a" * 10_000)
    assert shown.endswith("b" * 10_000 + " [30,000 characters]")
    assert shown_name("x" * 20_000) == "x" * 20_000
