"""Which kernels of a class advice compares: those of one place, where places are known."""

from __future__ import annotations

import pytest

from tests.verdict.made import report, seed_bucket
from traceanalyzer.report import OTHER_KERNELS, BucketVerdict, Estimated, Growth, KernelGrowth
from traceanalyzer.verdict.situations import situation_of


def place(decode: str | None, verify: str | None, more_ns: float) -> KernelGrowth:
    return KernelGrowth(decode, verify, 1.0, 1.0, 1e6, 1e6 + more_ns, None, None)


@pytest.mark.parametrize(
    ("kernels", "changed"),
    [
        ([], True),
        ([place("up", "up", 2e6), place("head", "head", 0)], False),
        ([place(OTHER_KERNELS, OTHER_KERNELS, 3e6), place("up", "up", 2e6)], False),
        ([place("up", "other up", 2e6), place("head", "head", 0)], True),
    ],
)
def test_longest_kernels_of_different_places_are_no_change(
    kernels: list[KernelGrowth], changed: bool
) -> None:
    bucket = report(seed_bucket()).buckets[0]
    growth = Growth("dense GEMM", 8e6, 12e6, "head", "up", kernels=kernels)
    verdict = BucketVerdict(0, "no baseline", accept_len=Estimated(2.25), growth=[growth])
    (found,) = situation_of(bucket, verdict, ()).class_growth
    assert found.kernel_changed is changed
