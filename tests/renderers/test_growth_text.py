"""The growth table as a person reads it: rows under their class, waiting, and what it rests on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.verdict.made import MS
from traceanalyzer.renderers.growth_text import (
    cause_lines,
    class_rows,
    evidence_lines,
    growth_rows,
    kernel_rows,
)
from traceanalyzer.report import (
    BucketVerdict,
    Growth,
    GrowthCause,
    GrowthEvidence,
    KernelGrowth,
)


def kernel(before: str | None, after: str | None, times: tuple[float, float]) -> KernelGrowth:
    return KernelGrowth(before, after, 61, 61, times[0] * MS, times[1] * MS, 0.0, 0.1 * MS)


def grown(name: str, times: tuple[float, float], *kernels: KernelGrowth, **more: float) -> Growth:
    waits = {key: value * MS for key, value in more.items()}
    return Growth(
        name,
        times[0] * MS,
        times[1] * MS,
        "a",
        "b",
        0.03 * MS,
        0.04 * MS,
        kernels=[*kernels],
        **waits,
    )


EVIDENCE = GrowthEvidence(3, 5, 0.99, True, 1, 0, 5, 1_710, 1_708, 1_710, 3, 4, 8)


def test_a_class_of_one_kernel_is_one_row() -> None:
    row = grown(
        "attention", (1, 10), kernel("void decode<1>(int)", "void prefill<1>(int)", (1, 10))
    )
    assert class_rows(row, 2, 0.0) == [
        ("attention", "1.00 ± 0.03", "10.00 ± 0.04", "10.0", "+9.00 ± 0.05", "decode → prefill")
    ]


def test_kernels_stand_below_their_class_and_add_up_to_it() -> None:
    row = grown(
        "dense GEMM",
        (3, 8),
        kernel("one", "other", (1, 5)),
        kernel("same", "same", (1, 2)),
        kernel("small", "small", (1, 1)),
    )
    cells = class_rows(row, 1, 0.5 * MS)
    assert [each[0] for each in cells] == ["dense GEMM", "· 61 ×", "· 61 ×", "· the rest"]
    assert [each[-1] for each in cells] == ["", "one → other", "same", ""]
    verify = [float(each[2].split()[0]) for each in cells]
    assert verify[0] == sum(verify[1:])


def test_transfer_and_waiting_stand_apart_or_are_said_to_be_one() -> None:
    pair = kernel("ring", "ring", (2, 5))
    told = grown("all-reduce", (2, 5), pair, decode_wait_ns=0.5, verify_wait_ns=2.0)
    cells = class_rows(told, 1, 0.0)
    assert [each[:3] for each in cells[1:]] == [
        ("· transfer", "1.5", "3.0"),
        ("· waiting", "0.5", "2.0"),
    ]
    one = replace(told, decode_wait_ns=None)
    (row,) = class_rows(one, 1, 0.0)
    assert row[-1] == "ring, waiting included in plain"
    (row,) = class_rows(replace(one, verify_wait_ns=None), 1, 0.0)
    assert row[-1] == "ring, waiting included"


def test_one_cycle_has_no_interval_and_says_so() -> None:
    bare = replace(grown("norm", (1, 2)), decode_half_width_ns=None)
    assert class_rows(bare, 1, 0.0)[0][1:5] == ("1.0", "2.0 ± 0.0", "2.0", "+1.0")
    single = BucketVerdict(0, "losing", growth_evidence=replace(EVIDENCE, decode_cycles=1))
    assert evidence_lines(single)[-1].endswith("one cycle tells no interval")


def test_launches_padding_and_matching_are_told() -> None:
    found = evidence_lines(BucketVerdict(0, "losing", growth_evidence=EVIDENCE))
    assert found == [
        "launched: a plain step 1 graph and 5 of 1,708 ops outside; "
        "verify 0 graphs and 1,710 of 1,710 ops outside",
        "batch 3: a plain step in a graph for 4, verify in a graph for 8",
        "kernel by kernel: 99.0 % of the kernels stand in the same place of both",
        "kernels recorded in 3 plain and 5 verify cycles; ± to either end of the 95 % interval",
    ]


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.4, "by class only: 40.0 % of the kernels stand in the same place of both, too few"),
        (None, "by class only: the order of the kernels is not known of both"),
    ],
)
def test_what_does_not_match_says_so(share: float | None, text: str) -> None:
    evidence = replace(EVIDENCE, matched_share=share, matched=False)
    assert text in evidence_lines(BucketVerdict(0, "losing", growth_evidence=evidence))


def test_causes_are_sentences_and_their_absence_is_one() -> None:
    rows = [grown("norm", (1, 2))]
    cause = GrowthCause("experts", "MoE GEMM", 1.0, None, 0.5, "the experts grow")
    named = BucketVerdict(0, "losing", growth=rows, growth_causes=[cause])
    assert cause_lines(named) == ["The experts grow."]
    assert cause_lines(replace(named, growth_causes=[])) == [
        "Nothing stands out: no class grows much beyond the others."
    ]
    assert cause_lines(BucketVerdict(0, "losing")) == []


def test_small_classes_share_a_row() -> None:
    rows = [grown("attention", (1, 90)), grown("norm", (5, 5.01)), grown("rotary", (5, 5.01))]
    cells = growth_rows(BucketVerdict(0, "losing", growth=rows))
    assert [each[0] for each in cells] == ["attention", "2 classes that grew little"]
    assert cells[1][1:3] == ("10.00", "10.02")


def test_the_page_lists_every_kernel() -> None:
    rows = [grown("norm", (1, 2), kernel("a", None, (1, 0)), kernel(None, "b", (0, 2)))]
    cells = kernel_rows(BucketVerdict(0, "losing", growth=rows))
    assert [each[-1] for each in cells] == ["gone: a", "new: b"]
