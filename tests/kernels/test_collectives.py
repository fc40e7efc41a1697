from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.strategies import build
from traceanalyzer.kernels.classification import CLASSES, COLLECTIVES, KernelRules
from traceanalyzer.kernels.collectives import family_of_names, family_of_ops, shipped_families

NAMES = Path(__file__).parent / "names"
TOGETHER = ("allreduce_", "allgather_", "reducescatter_")


def families(names: list[str]) -> list[str]:
    found = family_of_names(pl.Series(names, dtype=pl.String))
    return [shipped_families()[place].name for place in found]


def real_collectives() -> list[str]:
    rows = [
        line.split("\t")
        for file in sorted(NAMES.glob("*.tsv"))
        for line in file.read_text(encoding="utf-8").splitlines()
    ]
    return sorted({name for name, kernel_class, _ in rows if kernel_class in COLLECTIVES})


@pytest.mark.parametrize("family", shipped_families(), ids=lambda family: family.name)
def test_examples_are_taken_by_their_family(family) -> None:
    assert set(families(list(family.examples))) == {family.name}
    classes = KernelRules.shipped().classify(pl.Series(family.examples, dtype=pl.String))
    assert {CLASSES[place] for place in classes} <= COLLECTIVES


def test_of_the_real_names_only_ring_and_tree_nccl_end_together() -> None:
    names = real_collectives()
    assert len(names) > 80
    found = family_of_names(pl.Series(names))
    assert found.min() >= 0, "the last family takes every name"
    together = {
        name
        for name, place in zip(names, found, strict=True)
        if shipped_families()[place].ends_together
    }
    for name in names:
        text = name.lower()
        ring = "nccl" in text and ("_ring_" in text or "_tree_" in text)
        ring &= any(word in text for word in TOGETHER)
        assert (name in together) == (ring and "nvls" not in text and "symk" not in text), name
    assert len(together) >= 8


def test_what_is_no_collective_has_no_family() -> None:
    ring = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
    times = {"start_ns": 1, "end_ns": 2}
    trace = build(
        ops=[
            {"name": "nvjet_gemm", **times},
            {"name": ring, **times},
            {"name": ring, "kind": "memcpy", **times},
        ]
    )
    found = family_of_ops(trace)
    assert np.array_equal(found >= 0, [False, True, False])
    assert shipped_families()[found[1]].name == "ring NCCL"
