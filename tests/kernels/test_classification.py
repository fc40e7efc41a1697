from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import traceanalyzer
from tests.harness import needs_shared, shared_folder
from tests.strategies import build, examples
from traceanalyzer.errors import InputError
from traceanalyzer.kernels.classification import (
    CLASSES,
    COLLECTIVES,
    UNCLASSIFIED,
    KernelRules,
    class_of_ops,
)
from traceanalyzer.simulation import kernel_names

SHIPPED = KernelRules.shipped()
NAMES = Path(__file__).parent / "names"
NEVER_BY_NAME = {"whole graph", "unclassified"}


@dataclass(frozen=True)
class Labelled:
    """A kernel's name, its class as read from what the kernel does, and where the name is from."""

    name: str
    kernel_class: str
    source: str

    @property
    def is_held_out(self) -> bool:
        """Whether it is in the third of the names that no rule is to be written for."""
        return int(hashlib.sha256(self.name.encode()).hexdigest(), 16) % 3 == 0


@cache
def labelled() -> tuple[Labelled, ...]:
    return tuple(
        Labelled(*line.split("\t"))
        for file in sorted(NAMES.glob("*.tsv"))
        for line in file.read_text(encoding="utf-8").splitlines()
    )


def class_names(names: list[str]) -> list[str]:
    return [CLASSES[place] for place in SHIPPED.classify(pl.Series(names, dtype=pl.String))]


def wrong(rows: list[Labelled]) -> list[str]:
    found = class_names([row.name for row in rows])
    return [
        f"{row.name[:120]}: {row.kernel_class}, found {kernel_class}"
        for row, kernel_class in zip(rows, found, strict=True)
        if kernel_class != row.kernel_class
    ]


@pytest.mark.parametrize("held_out", [True, False])
def test_95_of_100_real_names_have_the_right_class(held_out: bool) -> None:
    rows = [row for row in labelled() if row.is_held_out == held_out]
    misses = wrong(rows)
    assert len(rows) > 500
    assert len(misses) <= 0.05 * len(rows), "\n".join(misses)


def test_no_class_hides_its_errors_behind_the_others() -> None:
    rows = defaultdict(list)
    for row in labelled():
        rows[row.kernel_class].append(row)
    assert set(rows) == set(CLASSES) - {"whole graph"}
    for kernel_class, own in rows.items():
        assert len(wrong(own)) <= 0.1 * len(own), kernel_class


def test_hardly_a_name_is_taken_for_a_collective_wrongly_or_missed_as_one() -> None:
    rows = list(labelled())
    found = class_names([row.name for row in rows])
    errors = [
        row.name
        for row, kernel_class in zip(rows, found, strict=True)
        if (kernel_class in COLLECTIVES) != (row.kernel_class in COLLECTIVES)
    ]
    assert not errors


def test_the_labelled_names_are_names_and_nothing_else() -> None:
    rows = labelled()
    assert all(0 < len(row.name) <= 300 and row.name.isprintable() for row in rows)
    assert {row.kernel_class for row in rows} <= set(CLASSES)
    assert Counter(row.name for row in rows).most_common(1)[0][1] == 1
    assert all(row.source for row in rows)


def test_every_rule_takes_its_examples_before_any_other_does() -> None:
    for place, rule in enumerate(SHIPPED.rules):
        assert rule.examples, rule.name
        first = SHIPPED.first_rule(pl.Series(rule.examples))
        taken = [SHIPPED.rules[each].name for each in first]
        assert taken == [rule.name] * len(rule.examples)
        assert SHIPPED.rules.index(rule) == place
    assert len({rule.name for rule in SHIPPED.rules}) == len(SHIPPED.rules)


def test_no_rule_is_without_work() -> None:
    found = SHIPPED.first_rule(pl.Series([row.name for row in labelled()]))
    by_kind_or_inductor = {
        rule.name
        for rule in SHIPPED.rules
        if rule.name == "memory copies and sets" or rule.name.startswith("PyTorch inductor")
    }
    idle = {rule.name for rule in SHIPPED.rules} - {
        SHIPPED.rules[place].name for place in set(found.tolist()) if place >= 0
    }
    assert idle <= by_kind_or_inductor


def test_rules_name_every_class_that_a_name_can_tell() -> None:
    named = {CLASSES[rule.kernel_class] for rule in SHIPPED.rules}
    assert named == set(CLASSES) - NEVER_BY_NAME


SIMULATED = {
    "ADD_NORM": "norm",
    "QKV_GEMM": "dense GEMM",
    "ROPE": "rotary",
    "STORE_CACHE": "KV cache write",
    "VERIFY_ATTENTION": "attention",
    "DECODE_ATTENTION": "attention",
    "OUT_GEMM": "dense GEMM",
    "ALL_REDUCE": "all-reduce",
    "UP_GEMM": "dense GEMM",
    "ACTIVATION": "activation",
    "DOWN_GEMM": "dense GEMM",
    "NCCL_ALL_REDUCE": "all-reduce",
    "LM_HEAD_GEMM": "dense GEMM",
    "GATHER": "elementwise/other",
    "SOFTMAX": "sampling/top-k",
    "TOP_K": "sampling/top-k",
    "ARG_MAX": "sampling/top-k",
    "BUILD_TREE": "tree build",
    "VERIFY_TREE": "sampling/top-k",
    "DRAFT_INDICES": "elementwise/other",
    "EXTEND_INDICES": "elementwise/other",
    "CACHE_INDICES": "elementwise/other",
    "ASSIGN_CACHE": "elementwise/other",
    "INDEX": "elementwise/other",
    "FILL": "copy",
    "KV_OFFLOAD": "copy",
}


def test_the_simulated_kernels_have_their_class() -> None:
    kernels = {
        name: kernel.demangled
        for name, kernel in vars(kernel_names).items()
        if isinstance(kernel, kernel_names.KernelName)
    }
    found = class_names(list(kernels.values()))
    assert dict(zip(kernels, found, strict=True)) == SIMULATED


def test_the_return_type_in_front_of_a_template_changes_nothing() -> None:
    names = [row.name for row in labelled() if row.name.startswith("void ")]
    assert class_names(names) == class_names([name.removeprefix("void ") for name in names])


@examples(0.1)
@given(st.lists(st.sampled_from(labelled()), max_size=8), st.booleans())
def test_a_name_has_its_class_in_any_company_and_case(rows: list[Labelled], upper: bool) -> None:
    names = [row.name.upper() if upper else row.name for row in rows]
    alone = [CLASSES[SHIPPED.classify(pl.Series([row.name]))[0]] for row in rows]
    assert class_names(names) == alone


def test_an_unknown_name_is_unclassified_and_not_guessed() -> None:
    names = ["frobnicate", "", "kernel", "void my_kernel<int>(int*)", "device_kernel", "Kernel"]
    assert class_names(names) == ["unclassified"] * len(names)
    nothing = pl.Series([], dtype=pl.String)
    assert SHIPPED.classify(nothing).tolist() == []
    assert SHIPPED.classify(pl.Series([None], dtype=pl.String)).tolist() == [UNCLASSIFIED]


def test_kernels_are_classed_by_name_and_other_ops_by_kind() -> None:
    gemm = "nvjet_tst_64x8_64x16_2x4_h_bz_TNT"
    ops = [
        {"start_ns": 1, "end_ns": 2, "name": name, "kind": kind}
        for name, kind in (
            (gemm, "kernel"),
            (gemm, "graph"),
            (gemm, "memcpy"),
            (gemm, "memset"),
            ("frobnicate", "kernel"),
        )
    ]
    found = [CLASSES[place] for place in class_of_ops(build(ops=ops))]
    assert found == ["dense GEMM", "whole graph", "copy", "copy", "unclassified"]
    assert class_of_ops(build()).tolist() == []


def test_rules_of_ones_own_replace_the_shipped_ones() -> None:
    text = """
        [[rule]]
        name = "mine"
        class = "norm"
        pattern = '''
            frob|
            nicate'''
        examples = []
    """
    trace = build(ops=[{"start_ns": 1, "end_ns": 2, "name": "xNICATEx"}])
    found = class_of_ops(trace, KernelRules.from_text(text, "own.toml"))
    assert [CLASSES[place] for place in found] == ["norm"]


RULE = "[[rule]]\nname = 'a'\nclass = 'norm'\npattern = 'b'\nexamples = []\n"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[[rule", "no TOML"),
        ("", "no list of rules"),
        ("rule = 'a'", "no list of rules"),
        ("rule = ['a']", "no table"),
        (RULE.replace("class = 'norm'\n", ""), "class is missing"),
        (RULE.replace("'b'", "3"), "pattern is missing or of the wrong type"),
        (RULE.replace("norm", "gemm"), "no class 'gemm'"),
        (RULE + "note = 'c'\n", "unknown key 'note'"),
        (RULE.replace("'b'", "'b('"), "no regular expression"),
        (RULE.replace("'b'", "'(?=b)'"), "no regular expression"),
    ],
)
def test_a_rule_file_that_cannot_be_used_says_why_and_where(text: str, what: str) -> None:
    with pytest.raises(InputError, match=r"own\.toml") as raised:
        KernelRules.from_text(text, "own.toml")
    assert what in raised.value.what
    assert raised.value.next_step


@needs_shared
@pytest.mark.parametrize(
    "file",
    [
        "kineto/b200_eager.json.gz",
        "kineto/mi300x_sglang_decode_one_graph.json.gz",
        "kineto/mi300x_vllm_decode_full_graph.json.gz",
        "kineto/mi300x_vllm_piecewise_graphs.json.gz",
        "nsys/h100_two_ranks_mfu_2026.2.sqlite",
    ],
)
def test_no_kernel_of_a_real_language_model_is_unclassified(file: str) -> None:
    folder = shared_folder()
    assert folder is not None
    trace = traceanalyzer.load(folder / "traces" / file)
    kernels = trace.ops.filter(pl.col("kind") == "kernel").select(trace.text("name").unique())
    names = kernels.to_series().to_list()
    unknown = [
        name
        for name, kernel_class in zip(names, class_names(names), strict=True)
        if kernel_class == "unclassified"
    ]
    assert len(names) > 20
    assert not unknown
