from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import examples
from traceanalyzer.kernels.short_names import short_name, short_pair


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("void f<b>(int)", "f"),
        ("void flash::fwd<cutlass::half_t, Traits<64>>(Params<int>)", "flash::fwd"),
        ("void (anonymous namespace)::k<(bool)0>(T1)", "k"),
        ("at::native::reduce<512, F(int)>(R)", "at::native::reduce"),
        ("Outer<int>::inner<(int)2>(char)", "Outer::inner"),
        ("_ZN2at6native1fEv", "_ZN2at6native1fEv"),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", None),
        ("triton_poi_fused_add_0", "triton_poi_fused_add_0"),
        ("", ""),
        ("(weird)", "(weird)"),
        ("<only>", "<only>"),
    ],
)
def test_a_name_is_cut_to_what_a_person_reads(name: str, short: str | None) -> None:
    wanted = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL" if short is None else short
    assert short_name(name) == wanted


@given(st.text())
@examples(0.3)
def test_any_text_is_taken_and_shortening_twice_changes_nothing_more(text: str) -> None:
    short = short_name(text)
    assert len(short) <= len(text)
    assert bool(short) == bool(text)


def test_kernels_that_differ_in_template_arguments_alone_stay_apart() -> None:
    assert short_pair("void k<1>(int)", "void k<2>(int)") == ("void k<1>(int)", "void k<2>(int)")
    assert short_pair("void k<1>(int)", "void j<2>(int)") == ("k", "j")
