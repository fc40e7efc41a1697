"""Why verify costs more, on steps made by hand: pairs of kernels, sums, doubt, and causes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.verdict.made import MS, decode_bucket, phase, verify_bucket
from traceanalyzer.report import OTHER_KERNELS, ClassTime, KernelSlot
from traceanalyzer.verdict.growth import explained_growth
from traceanalyzer.verdict.growth_kernels import LEAST_MATCHED
from traceanalyzer.verdict.growth_words import algorithm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.report import BucketPhase, BucketReport, Growth
    from traceanalyzer.verdict.growth import Explained

LAYERS = 10
Kernel = tuple[str, str, float]
"""Name, class, and ms in all layers."""

PLAIN: tuple[Kernel, ...] = (
    ("norm_a", "norm", 0.5),
    ("decode_attention", "attention", 1.0),
    ("gemm_a", "dense GEMM", 4.0),
    ("one_shot_reduce", "all-reduce", 1.0),
    ("gemm_b", "MoE GEMM", 2.0),
)


def forward(name: str, kernels: Sequence[Kernel], *, doubt: float | None = 0.0) -> BucketPhase:
    """A phase of layers of these kernels, with 1 ms of idle time; all its kernels replayed."""
    sums: dict[str, float] = {}
    for _, kernel_class, ms in kernels:
        sums[kernel_class] = sums.get(kernel_class, 0.0) + ms
    busy_ms = sum(sums.values())
    step = phase(name, busy_ms + 1.0, busy_ms + 1.0, classes=sums)
    classes = [
        ClassTime(
            each,
            LAYERS * sum(1 for kernel in kernels if kernel[1] == each),
            ms * MS,
            max((kernel for kernel in kernels if kernel[1] == each), key=lambda one: one[2])[0],
            LAYERS * sum(1.0 for kernel in kernels if kernel[1] == each),
            None if doubt is None else doubt * ms * MS,
        )
        for each, ms in sums.items()
    ]
    slots = [
        KernelSlot(kernel, each, 0, LAYERS, ms * MS, None if doubt is None else doubt * ms * MS)
        for kernel, each, ms in kernels
    ]
    return replace(
        step,
        classes=classes,
        class_cycles=1 if doubt is None else 5,
        class_idle_half_width_ns=None if doubt is None else 0.0,
        kernel_blocks=[LAYERS],
        kernel_slots=slots,
        graph_launches_per_cycle=1.0,
    )


def step_of(kernels: Sequence[Kernel], *, doubt: float | None = 0.0) -> BucketReport:
    return replace(decode_bucket(10.0), phases=[forward("decode", kernels, doubt=doubt)])


def verify_of(kernels: Sequence[Kernel], *, doubt: float | None = 0.0) -> BucketReport:
    return verify_bucket([forward("verify", kernels, doubt=doubt)], None)


def grown(**changes: tuple[str, float]) -> list[Kernel]:
    """The plain step's kernels, some with another name and another time."""
    return [
        (changes[name][0], kernel_class, changes[name][1])
        if name in changes
        else (name, kernel_class, ms)
        for name, kernel_class, ms in PLAIN
    ]


def causes(found: Explained) -> dict[str, float]:
    return {each.cause: each.ns / MS for each in found.causes}


def row(found: Explained, name: str) -> Growth:
    (one,) = (each for each in found.rows if each.name == name)
    return one


def test_a_changed_kernel_stands_beside_the_one_it_replaces() -> None:
    changed = grown(decode_attention=("prefill_attention", 8.0))
    found = explained_growth(step_of(PLAIN), verify_of(changed))
    (pair,) = row(found, "attention").kernels
    assert (pair.decode_kernel, pair.verify_kernel) == ("decode_attention", "prefill_attention")
    assert (pair.decode_ops, pair.verify_ops) == (LAYERS, LAYERS)
    assert found.evidence is not None
    assert found.evidence.matched_share == 1.0
    assert causes(found) == {"attention kernel": 7.0}
    assert "the prefill kernel: decode_attention → prefill_attention" in found.causes[0].text
    assert found.causes[0].growth_share == pytest.approx(1.0)


KERNELS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c", "d", "e", "f", "g", "h"]),
        st.sampled_from(["attention", "dense GEMM", "norm"]),
        st.floats(0.0, 5.0),
    ),
    min_size=1,
    max_size=12,
    unique_by=lambda kernel: kernel[:1],
)


@given(KERNELS, KERNELS)
def test_kernels_add_up_to_their_class_and_classes_to_the_windows(
    before: list[Kernel], after: list[Kernel]
) -> None:
    decode, verify = step_of(before), verify_of(after)
    found = explained_growth(decode, verify)
    for bucket, side in ((decode, "decode_ns"), (verify, "verify_ns")):
        together = math.fsum(getattr(each, side) for each in found.rows)
        assert together == pytest.approx(bucket.phases[0].class_window_ns)
        for each in found.rows:
            if each.kernels:
                kernels = math.fsum(getattr(kernel, side) for kernel in each.kernels)
                assert kernels == pytest.approx(getattr(each, side), abs=1e-3)


def test_sequences_that_do_not_match_are_compared_by_class() -> None:
    others = [(f"{name}x", "copy", ms) for name, _, ms in PLAIN[:3]]
    found = explained_growth(step_of(PLAIN), verify_of([*others, *PLAIN[3:]]))
    assert found.evidence is not None
    assert found.evidence.matched_share is not None
    assert found.evidence.matched_share < LEAST_MATCHED
    assert not found.evidence.matched
    assert not any(each.kernels for each in found.rows)


def test_without_an_order_nothing_is_matched() -> None:
    bare = replace(forward("verify", PLAIN), kernel_blocks=[], kernel_slots=[])
    found = explained_growth(step_of(PLAIN), verify_bucket([bare], None))
    assert found.evidence is not None
    assert found.evidence.matched_share is None
    assert found.rows


def test_many_kernels_of_a_class_share_a_last_row() -> None:
    before = [(f"gemm_{place}", "dense GEMM", 1.0) for place in range(9)]
    after = [
        (name, kernel_class, 1.0 + place) for place, (name, kernel_class, _) in enumerate(before)
    ]
    rows = row(explained_growth(step_of(before), verify_of(after)), "dense GEMM").kernels
    assert [each.verify_kernel for each in rows] == [
        *(f"gemm_{place}" for place in (8, 7, 6, 5, 4)),
        OTHER_KERNELS,
    ]


def test_doubt_of_two_captures_adds_in_squares() -> None:
    found = explained_growth(step_of(PLAIN, doubt=0.03), verify_of(PLAIN, doubt=0.04))
    attention = row(found, "attention")
    assert attention.more_half_width_ns == pytest.approx(0.05 * MS)
    assert attention.kernels[0].more_half_width_ns == pytest.approx(0.05 * MS)


def test_one_cycle_tells_no_interval() -> None:
    found = explained_growth(step_of(PLAIN, doubt=None), verify_of(PLAIN))
    assert all(each.more_half_width_ns is None for each in found.rows)


def test_growth_within_its_doubt_is_no_cause() -> None:
    changed = grown(gemm_b=("gemm_b", 4.0))
    sure = explained_growth(step_of(PLAIN, doubt=0.01), verify_of(changed, doubt=0.01))
    unsure = explained_growth(step_of(PLAIN, doubt=0.01), verify_of(changed, doubt=0.9))
    assert causes(sure) == {"experts": pytest.approx(2.0)}
    assert causes(unsure) == {}


def test_what_grows_everywhere_alike_is_no_cause() -> None:
    """All kernels half as long again: each class takes more than a tenth of the growth."""
    longer = [(name, kernel_class, 1.5 * ms) for name, kernel_class, ms in PLAIN]
    assert causes(explained_growth(step_of(PLAIN), verify_of(longer))) == {}


def test_a_verify_as_cheap_as_a_step_has_no_causes() -> None:
    changed = grown(decode_attention=("prefill_attention", 1.2))
    assert causes(explained_growth(step_of(PLAIN), verify_of(changed))) == {}


def test_waiting_for_a_late_rank_is_told_apart() -> None:
    """The all-reduce takes 6 ms more, 4 of which it only waits."""
    changed = grown(one_shot_reduce=("ring_reduce", 7.0))
    sides = []
    for side, name, kernels, wait_ms in (
        (step_of, "decode", PLAIN, 0.5),
        (verify_of, "verify", changed, 4.5),
    ):
        own = forward(name, kernels)
        classes = [
            replace(each, wait_ns_per_cycle=wait_ms * MS)
            if each.kernel_class == "all-reduce"
            else each
            for each in own.classes
        ]
        sides.append(replace(side(kernels), phases=[replace(own, classes=classes)]))
    found = explained_growth(*sides)
    assert row(found, "all-reduce").more_wait_ns == 4 * MS
    assert causes(found) == {
        "waiting": pytest.approx(4.0),
        "all-reduce algorithm": pytest.approx(2.0),
    }


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)", "ring"),
        ("ncclDevKernel_AllReduce_Sum_bf16_TREE_LL128", "tree"),
        ("ncclDevKernel_AllReduce_Sum_f32_NVLS_TREE_SIMPLE", "NVLink SHARP"),
        ("void vllm::cross_device_reduce_1stage<float, 8>(int)", "one-shot"),
        ("void vllm::cross_device_reduce_2stage<float, 8>(int)", "two-shot"),
        ("some_all_reduce", None),
    ],
)
def test_the_name_tells_an_all_reduces_algorithm(kernel: str, name: str | None) -> None:
    assert algorithm(kernel) == name
