"""A baseline whose kernels are not those of verify: no cause is made up, and it is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.verdict import made
from traceanalyzer.report import BucketVerdict, Growth, GrowthEvidence
from traceanalyzer.verdict.growth_causes import Grown, growth_causes
from traceanalyzer.verdict.judgement import _other_models

APART = GrowthEvidence(
    decode_cycles=20,
    verify_cycles=20,
    matched_share=0.016,
    matched=False,
    decode_graph_launches=1,
    verify_graph_launches=1,
    decode_eager_ops=0,
    verify_eager_ops=0,
    decode_ops=29,
    verify_ops=1710,
    batch=1,
    decode_padded_batch=1,
    verify_padded_batch=1,
)
ROWS = [
    Growth("all-reduce", 0.2e6, 5.2e6, "ring", "ring", 0.0, 0.0, None, None, []),
    Growth("MoE GEMM", 0.0, 3.0e6, None, "marlin", 0.0, 0.0, None, None, []),
]


def causes(evidence: GrowthEvidence) -> list[str]:
    shape = made.seed_bucket().shape
    return [cause.text for cause in growth_causes(Grown(ROWS, evidence, shape))]


def test_kernels_in_other_places_name_no_cause() -> None:
    assert causes(APART) == []


def test_an_unknown_order_names_classes_without_counts() -> None:
    told = causes(replace(APART, matched_share=None))
    assert told
    assert not any("0 kernels" in text for text in told)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({}, True),
        ({"matched_share": 0.9}, False),
        ({"matched_share": None}, False),
        ({"decode_ops": 1500.0}, False),
        ({"decode_ops": 0.0}, False),
    ],
)
def test_a_baseline_of_another_model_is_told(change: dict[str, float | None], told: bool) -> None:
    evidence = replace(APART, **change)  # type: ignore[arg-type]
    found = _other_models([BucketVerdict(0, "losing", growth_evidence=evidence)])
    assert bool(found) is told
    if told:
        assert "29 kernels and copies and verify 1,710" in found[0].text
        assert found[0].next_step is not None
