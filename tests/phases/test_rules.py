from __future__ import annotations

import gzip
import json
import re
import sqlite3
from importlib import resources
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nvtx_hooks import vocabulary
from tests.harness import needs_shared, shared_folder
from traceanalyzer.errors import InputError
from traceanalyzer.phases.rules import (
    FLAGS,
    LEFTOVERS,
    NUMBERS,
    PHASES,
    ROLLUPS,
    Rule,
    Rules,
    has_prefill,
    has_target_forward,
    parse_phase,
    phase_order,
    phase_text,
)

if TYPE_CHECKING:
    from pathlib import Path

SHIPPED = Rules.shipped()

Case = tuple[str | None, str, str, dict[str, int]]

# Domain, name, phase or role (with "+flag"), numbers: what the field really writes.
OUR_RANGES: list[Case] = [
    ("eagle", "cycle", "cycle", {}),
    ("eagle", "draft", "draft", {}),
    ("eagle", "draft.step", "draft", {}),
    ("eagle", "verify", "verify", {}),
    ("eagle", "verify.attention", "verify", {}),
    ("eagle", "sample", "sample", {}),
    ("eagle", "sample.reject", "sample", {}),
    ("eagle", "draft_extend", "draft_extend", {}),
    ("eagle", "decode", "decode", {}),
    ("eagle", "prefill", "prefill", {}),
    ("eagle", "draft_prefill", "draft_prefill", {}),
    ("eagle", "mixed", "mixed", {}),
    ("eagle", "fused(draft_extend, draft)", "fused(draft, draft_extend)", {}),
    ("eagle", "fused(verify, draft_extend)", "fused(verify, draft_extend)", {}),
    (
        "eagle",
        "fused(draft, verify, sample, draft_extend)",
        "fused(draft, verify, sample, draft_extend)",
        {},
    ),
    ("eagle", "fused(sample, verify)", "fused(verify, sample)", {}),
    ("eagle", "fused(verify, decode)", "fused(verify, decode)", {}),
    ("eagle", "fused(prefill, draft_prefill)", "fused(prefill, draft_prefill)", {}),
    ("eagle", "fused(draft, sample, draft_extend)", "fused(draft, sample, draft_extend)", {}),
    ("eagle", "fused(draft, prefill, draft_prefill)", "fused(draft, prefill, draft_prefill)", {}),
    ("eagle", "fused(draft, draft_prefill)", "fused(draft, draft_prefill)", {}),
    ("eagle", "warm_up", "none+warm-up", {}),
    ("eagle", "schedule", "none", {}),
    ("eagle", "capture", "none+capture", {}),
    ("eagle", "dummy", "none+dummy", {}),
    ("eagle", "idle", "none+idle", {}),
]
# The same ranges where the backend has neither domain nor payload.
OUR_RANGES_AS_TEXT: list[Case] = [
    (None, "eagle:cycle:12", "cycle", {"cycle": 12}),
    (None, "eagle:draft.step:12", "draft", {"cycle": 12}),
    (None, "eagle:verify", "verify", {}),
    (None, "eagle:verify:12", "verify", {"cycle": 12}),
    (None, "eagle:sample.reject:12", "sample", {"cycle": 12}),
    (None, "eagle:draft_extend:12", "draft_extend", {"cycle": 12}),
    (None, "eagle:decode:12", "decode", {"cycle": 12}),
    (None, "eagle:prefill:12", "prefill", {"cycle": 12}),
    (None, "eagle:draft_prefill:12", "draft_prefill", {"cycle": 12}),
    (None, "eagle:mixed:12", "mixed", {"cycle": 12}),
    (None, "eagle:fused(verify, draft_extend):12", "fused(verify, draft_extend)", {"cycle": 12}),
    (None, "eagle:warm_up:0", "none+warm-up", {}),
    (None, "eagle:capture:0", "none+capture", {}),
    (None, "eagle:dummy:0", "none+dummy", {}),
    (None, "eagle:idle:0", "none+idle", {}),
    (None, "eagle:accept:3298534883841", "none", {}),
]
# SGLang 0.5.12 to 0.5.23: step spans, stage spans, scheduler stages, and methods by name.
SGLANG: list[Case] = [
    (None, "step[VERIFY bs=7]", "verify", {"batch": 7}),
    (None, "step[VERIFY bs=7 seq_lens=12 forward_id=90]", "verify", {"batch": 7}),
    (None, "step[TARGET_VERIFY bs=7]", "verify+inferred", {"batch": 7}),
    (None, "step[DRAFT bs=7 toks=512]", "draft_prefill", {"batch": 7}),
    (None, "step[DRAFT bs=7]", "fused(draft, draft_extend)+inferred", {"batch": 7}),
    (None, "step[DRAFT_LOOP raw_bs=7 bs=8 topk=1]", "draft", {"batch": 7}),
    (None, "step[DRAFT_EXTEND bs=7]", "draft_extend", {"batch": 7}),
    (None, "step[DRAFT_EXTEND_V2 bs=7]", "draft_extend", {"batch": 7}),
    (None, "step[DECODE bs=7]", "decode+inferred", {"batch": 7}),
    (None, "step[EXTEND bs=2 toks=512]", "prefill+inferred", {"batch": 2}),
    (None, "step[MIXED bs=9]", "mixed+inferred", {"batch": 9}),
    (None, "step[IDLE bs=0]", "none+idle", {"batch": 0}),
    (None, "draft", "draft", {}),
    (None, "draft_extend", "draft_extend", {}),
    (None, "scheduler.run_batch", "cycle", {}),
    (None, "run_batch", "cycle", {}),
    (None, "scheduler.get_next_batch_to_run", "none", {}),
    (None, "scheduler.idle", "none", {}),
    (None, "EAGLEWorker.forward_batch_speculative_generation", "cycle", {}),
    (None, "MultiLayerEagleWorkerV2.forward_batch_generation", "cycle", {}),
    (None, "NGRAMWorker._prepare_draft_tokens", "draft", {}),
    (None, "EagleDraftWorker.draft_forward", "draft", {}),
    (None, "EAGLEDraftCudaGraphRunner.replay", "draft", {}),
    (None, "EagleVerifyInput.verify", "sample", {}),
    (None, "sglang.srt.speculative.eagle_utils.eagle_sample", "sample", {}),
    (None, "sglang.srt.speculative.eagle_worker_v2.EAGLEWorkerV2.verify", "verify", {}),
    (None, "EAGLEWorker.forward_draft_extend_after_decode", "draft_extend", {}),
    (None, "EagleDraftWorker._draft_extend_for_decode", "draft_extend", {}),
    (None, "EAGLEDraftExtendCudaGraphRunner.execute", "draft_extend", {}),
    (None, "EAGLEWorker.forward_target_extend", "prefill", {}),
    (None, "EAGLEWorker.forward_draft_extend", "draft_prefill", {}),
    (None, "EagleDraftWorker._draft_extend_for_prefill", "draft_prefill", {}),
]
# vLLM: V1 scopes and profiler annotations, functions-trace, the V0 engine.
VLLM: list[Case] = [
    (
        None,
        "execute_context_0(0)_generation_6(24)",
        "fused(verify, decode)",
        {"context_requests": 0, "generation_requests": 6},
    ),
    (
        None,
        "execute_700_context_2(sq700sk9sqsq8sqsk7)_generation_0(sq0sk0sqsq0sqsk0)",
        "prefill",
        {"context_requests": 2, "generation_requests": 0},
    ),
    (
        None,
        "execute_context_2(700)_generation_6(24)",
        "mixed",
        {"context_requests": 2, "generation_requests": 6},
    ),
    (None, "capture_64_FULL", "none+capture", {}),
    (None, "gpu_model_runner: forward", "fused(verify, decode, prefill)+inferred", {}),
    (None, "gpu_model_runner: sample", "sample", {}),
    (None, "gpu_model_runner: postprocess", "sample", {}),
    (None, "gpu_model_runner: draft", "fused(draft, draft_extend)", {}),
    (None, "gpu_model_runner: bookkeep", "none", {}),
    (None, "schedule: allocate_slots", "none", {}),
    (None, "llm_engine step: get_output", "none", {}),
    (None, "ngram_proposer_gpu: kernel", "draft", {}),
    (None, "vllm.v1.worker.gpu_model_runner.GPUModelRunner._sample", "sample", {}),
    (None, "EagleProposer.propose", "fused(draft, draft_extend)", {}),
    (None, "AutoRegressiveSpeculator._prefill", "draft_extend", {}),
    (None, "TargetDependentARSpeculator._fused_multi_step_decode", "draft", {}),
    ("vLLM", "Worker.execute_model", "fused(verify, decode, prefill)+inferred", {}),
    ("vLLM", "Worker.sample_tokens", "fused(draft, sample, draft_extend)+inferred", {}),
    ("vLLM", "AsyncLLM.generate cmpl-12", "none", {}),
    (None, "spec_decode_worker._run_speculative_decoding_step", "cycle", {}),
    (None, "spec_decode_worker._verify_tokens", "sample", {}),
    (
        None,
        "spec_decode_worker._run_no_spec",
        "fused(draft_extend, decode, prefill, draft_prefill)",
        {},
    ),
    (None, "BatchExpansionTop1Scorer.score_proposals", "verify", {}),
]
TENSORRT_LLM: list[Case] = [
    (
        "TensorRT-LLM",
        "[Executor] _forward_step 17: 0 ctx reqs, 5 gen reqs",
        "fused(verify, decode)",
        {"cycle": 17, "context_requests": 0, "generation_requests": 5},
    ),
    (
        "TensorRT-LLM",
        "[Executor] _forward_step 17: 0 ctx reqs, 0 ctx tokens, 5 gen reqs",
        "fused(verify, decode)",
        {"cycle": 17, "context_requests": 0, "generation_requests": 5},
    ),
    (
        "TensorRT-LLM",
        "[Executor] _forward_step 18: 3 ctx reqs, 900 ctx tokens, 0 gen reqs",
        "prefill",
        {"cycle": 18, "context_requests": 3, "generation_requests": 0},
    ),
    (
        "TensorRT-LLM",
        "_forward_step: 3 ctx reqs, 5 gen reqs",
        "mixed",
        {"context_requests": 3, "generation_requests": 5},
    ),
    (
        "TensorRT-LLM",
        "[Executor] _forward_step 19: 0 ctx reqs, 0 ctx tokens, 0 gen reqs",
        "none+idle",
        {"cycle": 19, "context_requests": 0, "generation_requests": 0},
    ),
    ("TensorRT-LLM", "_execute_draft_iteration", "draft", {}),
    ("TensorRT-LLM", "forward_draft_model", "fused(draft, draft_extend)+inferred", {}),
    ("TensorRT-LLM", "prepare_draft_tokens", "fused(draft, draft_extend)", {}),
    ("TensorRT-LLM", "_prepare_draft_tokens", "fused(draft, draft_extend)", {}),
    ("TensorRT-LLM", "generate_draft_tokens_with_overlap", "fused(draft, draft_extend)", {}),
    ("TensorRT-LLM", "_sample_async", "sample", {}),
    ("TensorRT-LLM", "sample_async", "none", {}),
    ("TensorRT-LLM", "_update_requests", "none", {}),
    (None, "Eagle3OneModelWorker.forward", "fused(draft, sample, draft_extend)", {}),
]
EAGLE_AND_TRANSFORMERS: list[Case] = [
    (None, "eagle.model.utils.tree_decoding", "verify", {}),
    (None, "evaluate_posterior", "sample", {}),
    (None, "Model.topK_genrate", "fused(draft, draft_extend)", {}),
    (None, "initialize_tree", "fused(draft, prefill, draft_prefill)", {}),
    (None, "update_inference_inputs", "fused(draft, sample, draft_extend)", {}),
    (None, "AssistedCandidateGenerator.get_candidates", "draft", {}),
    (None, "_speculative_sampling", "sample", {}),
]
# Names that people give their ranges.
HAND_WRITTEN: list[Case] = [
    *((None, name, "draft", {}) for name in ("draft", "Draft", "drafting", "draft model")),
    *((None, name, "draft", {}) for name in ("draft_forward", "draft llm forward", "draft_loop")),
    *((None, name, "draft", {}) for name in ("draft 3", "draft_iter_2", "Draft_Step_3")),
    *((None, name, "draft", {}) for name in ("spec.draft", "eagle/draft", "spec_decode/draft")),
    (None, "speculate", "draft", {}),
    *((None, name, "verify", {}) for name in ("verify", "verification", "target_verify")),
    *((None, name, "verify", {}) for name in ("target verify", "verify_tokens", "spec_verify 4")),
    *((None, name, "verify", {}) for name in ("Draft Verification", "verify_target_batch")),
    *((None, name, "verify+inferred", {}) for name in ("target", "target_forward")),
    *((None, name, "draft_extend", {}) for name in ("draft extend", "re-extend", "reextend")),
    (None, "extend", "draft_extend+inferred", {}),
    *((None, name, "sample", {}) for name in ("sample", "sampling", "accept", "rejection")),
    *((None, name, "sample", {}) for name in ("rejection_sampling", "verify.accept")),
    *((None, name, "decode", {}) for name in ("decode", "decoding", "decode 17")),
    *((None, name, "prefill", {}) for name in ("prefill", "Prefill", "target_prefill")),
    *((None, name, "draft_prefill", {}) for name in ("draft_prefill", "spec.draft_extend_prefill")),
    (None, "DRAFT_PROPOSE", "fused(draft, draft_extend)", {}),
    (None, "mixed batch", "mixed", {}),
    *((None, name, "cycle", {}) for name in ("step", "iteration", "cycle", "decode_step")),
    *((None, name, "cycle", {}) for name in ("SpecDecode_Iter", "spec_decode")),
    (None, "step 17", "cycle", {"cycle": 17}),
    (None, "spec.step 17 batch=8 drafted=24", "cycle", {"cycle": 17, "batch": 8, "drafted": 24}),
    (None, "step:3", "cycle", {"cycle": 3}),
    (None, "DECODE_STEP_003", "cycle", {"cycle": 3}),
    (None, "Speculative_Round_2", "cycle", {"cycle": 2}),
    (None, "ProfilerStep#551", "cycle", {"cycle": 551}),
    *((None, name, "none+warm-up", {}) for name in ("warmup", "warm-up", "Warm-up Step 1")),
    *((None, name, "none+capture", {}) for name in ("cuda graph capture", "capture_graph")),
    (None, "GPUModelRunner._dummy_run", "none+dummy", {}),
    (None, "idle batch", "none+idle", {}),
]
CASES: list[Case] = [
    *OUR_RANGES,
    *OUR_RANGES_AS_TEXT,
    *SGLANG,
    *VLLM,
    *TENSORRT_LLM,
    *EAGLE_AND_TRANSFORMERS,
    *HAND_WRITTEN,
]
NEUTRAL = [
    "cuda_graph_replay",
    "graph_replay",
    "layer_3",
    "layers.3.mlp",
    "attn",
    "mlp",
    "request",
    "request_17",
    "decoder",
    "DecoderLayer.forward",
    "decode_loop",
    "prefill_attn",
    "verify_checksum",
    "verify_env/init",
    "draft_email",
    "draftsman",
    "target_mask",
    "target_encoder",
    "sample_timestep",
    "resample_audio",
    "extend_cache",
    "backward",
    "forward",
    "Forward",
    "Backward",
    "optimizer",
    "optimizer.step",
    "Optimizer.step#SGD.step",
    "zero_grad",
    "loss",
    "Iterations",
    "training_loop",
    "benchmark_loop",
    "stepper",
    "step_size",
    "Step_Forward",
    "nccl:all_reduce",
    "ncclSend",
    "aten::add",
    "DistributedDataParallel.forward",
    "token",
    "round",
    "Round_12",
    "generate",
    "capture",
    "CAPTURE",
    "screen_capture_3",
    "cublasCreate_v2",
    "acceptor",
    "rejected_requests",
    "TpModelWorker.forward",
    "TpModelWorker.forward_batch_generation",
    "execute_model",
    "model_inference",
]


def classify(rules: Rules, pairs: list[tuple[str | None, str | None]]) -> list[dict[str, Any]]:
    types = {"domain_text": pl.String, "name_text": pl.String}
    return rules.classify(pl.DataFrame(pairs, schema=types, orient="row")).to_dicts()


def one(rules: Rules, name: str, domain: str | None = None) -> dict[str, Any]:
    (row,) = classify(rules, [(domain, name)])
    return row


def meaning(row: dict[str, Any]) -> str:
    return "+".join([row["phase"] or str(row["role"]), *row["flags"]])


def rule_file(folder: Path, text: str) -> Path:
    path = folder / "rules.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def answers() -> dict[tuple[str | None, str], dict[str, Any]]:
    pairs: list[tuple[str | None, str | None]] = [(case[0], case[1]) for case in CASES]
    rows = classify(SHIPPED, pairs)
    return {(row["domain_text"], row["name_text"]): row for row in rows}


@pytest.mark.parametrize(("domain", "name", "expected", "numbers"), CASES)
def test_shipped_rules_say_what_a_name_means(
    answers: dict[tuple[str | None, str], dict[str, Any]],
    domain: str | None,
    name: str,
    expected: str,
    numbers: dict[str, int],
) -> None:
    row = answers[domain, name]
    assert meaning(row) == expected
    assert row["role"] == (expected.split("+")[0] if row["phase"] is None else "phase")
    assert {number: row[number] for number in NUMBERS if row[number] is not None} == numbers


def test_every_shipped_rule_is_exercised(
    answers: dict[tuple[str | None, str], dict[str, Any]],
) -> None:
    assert {row["rule"] for row in answers.values()} == set(range(len(SHIPPED.rules)))


@pytest.mark.parametrize("domain", [vocabulary.DOMAIN, None])
def test_every_range_of_the_hooks_means_what_it_says(domain: str | None) -> None:
    texts = [name if domain else vocabulary.annotation(name, 12) for name in vocabulary.RANGES]
    rows = classify(SHIPPED, [(domain, text) for text in texts])
    for name, row in zip(vocabulary.RANGES, rows, strict=True):
        assert row["phase"] == vocabulary.RANGE_PHASES.get(name)
        assert row["flags"] == ([name.replace("_", "-")] if name in vocabulary.CONDITIONS else [])
        assert (row["role"] == "cycle") == (name == vocabulary.CYCLE)


def test_marks_of_the_hooks_that_travel_as_text_are_no_phase() -> None:
    rows = classify(SHIPPED, [(None, vocabulary.annotation(mark, 7)) for mark in vocabulary.MARKS])
    assert {row["role"] for row in rows} == {"none"}


def test_a_name_without_meaning_stays_neutral() -> None:
    rows = classify(SHIPPED, [(None, name) for name in NEUTRAL])
    neutral: dict[str, Any] = {
        "rule": None,
        "phase": None,
        "role": None,
        "flags": [],
        **dict.fromkeys(NUMBERS),
    }
    assert rows == [{"domain_text": None, "name_text": name, **neutral} for name in NEUTRAL]


def test_training_steps_are_cycles_without_a_phase() -> None:
    names = ["step_3", "forward", "backward", "optimizer", "Optimizer.step#Adam.step"]
    rows = classify(SHIPPED, [(None, name) for name in names])
    assert [row["role"] for row in rows] == ["cycle", None, None, None, None]
    assert not any(row["phase"] for row in rows)


@needs_shared
@pytest.mark.parametrize("file", ["a100_training_nvtx_2024.6", "training_nvtx_2025.1"])
def test_a_real_training_trace_gets_no_phase(file: str) -> None:
    shared = shared_folder()
    assert shared is not None
    with sqlite3.connect(f"file:{shared}/traces/nsys/{file}.sqlite?immutable=1", uri=True) as base:
        found = base.execute("SELECT DISTINCT text FROM NVTX_EVENTS WHERE eventType IN (59, 60)")
        names = [text for (text,) in found]
    assert names
    rows = classify(SHIPPED, [(None, name) for name in names])
    assert [row["name_text"] for row in rows if row["phase"]] == []


@needs_shared
def test_a_real_decode_trace_gets_its_phase_and_batch() -> None:
    shared = shared_folder()
    assert shared is not None
    path = shared / "traces/kineto/mi300x_sglang_decode_one_graph.json.gz"
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    names = [event["name"] for event in events if event.get("cat") == "user_annotation"]
    rows = classify(SHIPPED, [(None, name) for name in names])
    assert [(row["phase"], row["batch"], row["generation_requests"]) for row in rows] == [
        ("fused(verify, decode)", None, 32),
        ("decode", 32, None),
    ]


def test_the_first_rule_that_matches_holds() -> None:
    rules = Rules(
        (
            Rule("draft 1", "none"),
            Rule("draft .", "phase", phase="draft"),
            Rule(".*", "cycle"),
        )
    )
    rows = classify(rules, [(None, "draft 1"), (None, "draft 2"), (None, "x")])
    assert [(row["rule"], row["role"]) for row in rows] == [
        (0, "none"),
        (1, "phase"),
        (2, "cycle"),
    ]


def test_a_rule_must_match_the_whole_name_in_any_case() -> None:
    rules = Rules((Rule("ab|abc", "cycle"),))
    names = ["ab", "ABC", "abcd", "xab", "ab\n", ""]
    roles = [row["role"] for row in classify(rules, [(None, name) for name in names])]
    assert roles == ["cycle", "cycle", None, None, None, None]


def test_domain_restricts_a_rule() -> None:
    anywhere, default, named = (Rules((Rule("a", "cycle", domain=d),)) for d in (None, "", "x.z"))
    domains = [None, "", "xyz", "XYZ", "xyzz"]
    pairs: list[tuple[str | None, str | None]] = [(domain, "a") for domain in domains]

    def taken(rules: Rules) -> list[bool]:
        return [row["rule"] == 0 for row in classify(rules, pairs)]

    assert taken(anywhere) == [True] * 5
    assert taken(default) == [True, True, False, False, False]
    assert taken(named) == [False, False, True, True, False]


def test_classify_keeps_rows_columns_and_declared_types() -> None:
    names = pl.DataFrame(
        {"id": [5, 6, 7], "domain_text": [None] * 3, "name_text": ["mlp", "step 4", None]},
        schema_overrides={"domain_text": pl.String},
    )
    result = SHIPPED.classify(names)
    assert dict(result.schema) == {
        "id": pl.Int64(),
        "domain_text": pl.String(),
        "name_text": pl.String(),
        "rule": pl.Int32(),
        "phase": pl.String(),
        "role": pl.String(),
        "flags": pl.List(pl.String()),
        **{number: pl.Int64() for number in NUMBERS},
    }
    assert result["id"].to_list() == [5, 6, 7]
    assert result["cycle"].to_list() == [None, 4, None]
    assert SHIPPED.classify(names.clear()).schema == result.schema


def test_what_only_looks_like_a_named_group_carries_no_number() -> None:
    rules = Rules((Rule("[(?<batch>]+", "none"), Rule("b(?P<batch>[0-9])", "none")))
    rows = classify(rules, [(None, "(batch)"[:2]), (None, "b7")])
    assert [(row["rule"], row["batch"]) for row in rows] == [(0, None), (1, 7)]


def test_more_rules_than_can_be_tried_are_refused(tmp_path: Path) -> None:
    path = rule_file(tmp_path, "[[rule]]\nrole = 'none'\nname = 'a'\n" * 5001)
    with pytest.raises(InputError, match=r"5,001 rules, more than 5,000") as caught:
        Rules.from_file(path)
    assert "Join names" in str(caught.value)


def test_a_number_too_large_for_a_column_is_null() -> None:
    row = one(SHIPPED, f"step {10**30}")
    assert (row["role"], row["cycle"]) == ("cycle", None)


def by_loop(rules: Rules, domain: str | None, name: str) -> dict[str, Any]:
    """The same answer from Python's own regular expressions, one rule after the other."""
    empty: dict[str, Any] = {
        "rule": None,
        "phase": None,
        "role": None,
        "flags": [],
        **dict.fromkeys(NUMBERS),
    }
    for place, rule in enumerate(rules.rules):
        found = re.fullmatch(rule.name, name, re.IGNORECASE)
        in_domain = rule.domain is None or re.fullmatch(rule.domain, domain or "", re.IGNORECASE)
        if found and in_domain:
            digits = found.groupdict()
            return empty | {
                "rule": place,
                "phase": rule.phase,
                "role": rule.role,
                "flags": list(rule.flags),
                **{number: int(text) for number, text in digits.items() if text is not None},
            }
    return empty


FRAGMENTS = [
    "draft",
    "verify",
    "sample",
    "extend",
    "decode",
    "prefill",
    "step",
    "target",
    "eagle",
    "spec",
    "accept",
    "warm",
    "up",
    "graph",
    "capture",
    "model",
    "forward",
    "tokens",
    "run",
    "idle",
    "re",
    "iter",
    "cycle",
    "mixed",
    "dummy",
    "batch=3",
    "drafted=2",
    "step[",
    "VERIFY",
    "bs=4",
    "toks=9",
    "DRAFT",
    "]",
    ".",
    "_",
    "-",
    "/",
    ":",
    "#",
    "1",
    "27",
    "gpu_model_runner:",
    "propose",
    "worker",
]
DOMAINS = st.sampled_from([None, "", "eagle", "EAGLE", "vLLM", "TensorRT-LLM", "nccl"])
FRAGMENT_NAMES = st.lists(st.sampled_from([*FRAGMENTS, " "]), max_size=5).map("".join)
PATTERNS = st.sampled_from(
    ["a", "[ab]+", "(?:a|ab)b?", "a(?P<cycle>[0-9]+)", ".*", "b (?P<batch>[01])?", "A.?B", "", "_"]
)
SMALL_RULES = st.lists(
    st.builds(Rule, PATTERNS, st.just("cycle"), domain=st.sampled_from([None, "", "a", "[ab]"])),
    min_size=1,
    max_size=4,
).map(lambda rules: Rules(tuple(rules)))


@settings(deadline=None, max_examples=25)
@given(st.lists(st.tuples(DOMAINS, FRAGMENT_NAMES), min_size=1, max_size=120))
def test_shipped_rules_agree_with_a_plain_loop(pairs: list[tuple[str | None, str]]) -> None:
    for (domain, name), row in zip(pairs, classify(SHIPPED, [*pairs]), strict=True):
        assert row == {"domain_text": domain, "name_text": name, **by_loop(SHIPPED, domain, name)}


@settings(deadline=None)
@given(
    SMALL_RULES,
    st.lists(
        st.tuples(st.sampled_from([None, "a", "B"]), st.text("abAB01_ \n", max_size=4)), min_size=1
    ),
)
def test_any_rules_agree_with_a_plain_loop(
    rules: Rules, pairs: list[tuple[str | None, str]]
) -> None:
    for (domain, name), row in zip(pairs, classify(rules, [*pairs]), strict=True):
        assert row == {"domain_text": domain, "name_text": name, **by_loop(rules, domain, name)}


def test_a_users_rules_come_before_the_shipped_ones(tmp_path: Path) -> None:
    path = rule_file(
        tmp_path,
        "[[rule]]\nname = 'verify'\nphase = 'fused(sample, verify)'\nflags = ['idle', 'dummy']\n",
    )
    rules = Rules.from_file(path)
    assert rules.rules[1:] == SHIPPED.rules
    assert meaning(one(rules, "verify")) == "fused(verify, sample)+dummy+idle"
    assert meaning(one(rules, "draft")) == "draft"
    assert Rules.from_file(path, extend=False).rules == rules.rules[:1]


def test_a_users_file_can_replace_the_shipped_rules(tmp_path: Path) -> None:
    path = rule_file(tmp_path, "replace = true\n[[rule]]\nname = 'x'\nrole = 'none'\n")
    rules = Rules.from_file(path)
    assert rules.rules == (Rule("x", "none"),)
    assert one(rules, "verify")["rule"] is None


def test_the_example_in_the_shipped_file_works(tmp_path: Path) -> None:
    shipped = resources.files("traceanalyzer.phases").joinpath("rules.toml").read_text("utf-8")
    example = "\n".join(re.findall(r"^#   (\S.*)$", shipped.split("\n[[rule]]")[0], re.MULTILINE))
    rules = Rules.from_file(rule_file(tmp_path, example))
    name = "[Executor] _forward_step 7: 0 ctx reqs, 0 ctx tokens, 32 gen reqs"
    row = one(rules, name, "TensorRT-LLM")
    assert row["phase"] == "fused(draft, verify, sample, draft_extend)"


RULE = "[[rule]]\nname = 'a'\nphase = 'draft'\n"


@pytest.mark.parametrize(
    ("text", "what", "next_step", "rule"),
    [
        ("[[rule]]\nname = \"step\\[\"\nphase = 'draft'", "no TOML", "single quotes", None),
        ("", "no list of rules", "[[rule]]", None),
        ("rule = []", "no list of rules", "[[rule]]", None),
        ("[rule]\nname = 'a'\nphase = 'draft'", "no list of rules", "[[rule]]", None),
        ("rule = [1]", "no table", "Write keys", 1),
        (f"rules = 1\n{RULE}", "unknown key 'rules'", "replace = true", None),
        (f"replace = 'yes'\n{RULE}", "replace is no boolean", "replace = true", None),
        (f"{RULE}phases = 'x'", "unknown key 'phases'", "name, domain, phase", 1),
        (f"{RULE}[[rule]]\nname = 3\nphase = 'draft'", "name is no text", "as text", 2),
        (f"{RULE}flags = 'idle'", "flags is no list of texts", "as list of texts", 1),
        (f"{RULE}[[rule]]\nphase = 'draft'", "no name", "name = '", 2),
        ("[[rule]]\nname = 'a'", "either a phase or a role", 'phase = "verify"', 1),
        (f"{RULE}role = 'cycle'", "either a phase or a role", 'role = "cycle"', 1),
        ("[[rule]]\nname = 'a'\nrole = 'phase'", "no role 'phase'", 'role = "none"', 1),
        ("[[rule]]\nname = 'a'\nphase = 'vrfy'", "no phase 'vrfy'", "draft, verify", 1),
        ("[[rule]]\nname = 'a'\nphase = 'other'", "no phase 'other'", "draft, verify", 1),
        ("[[rule]]\nname = 'a'\nphase = 'fused()'", "no phase ''", "fused(verify", 1),
        ("[[rule]]\nname = 'a'\nphase = 'fused(draft)'", "two phases", "fused(verify", 1),
        ("[[rule]]\nname = 'a'\nphase = 'draft, verify'", "is no phase", "fused(draft, ver", 1),
        (f"{RULE}flags = ['idle', 'hot']", "no flag 'hot'", "warm-up, capture", 1),
        (f"{RULE}flags = [['idle']]", "no flag ['idle']", "warm-up, capture", 1),
        ("[[rule]]\nname = 'a('\nphase = 'draft'", "unclosed group", "look-around", 1),
        ("[[rule]]\nname = 'a)|(b'\nphase = 'draft'", "unopened group", "look-around", 1),
        ("[[rule]]\nname = '(?=a)'\nphase = 'draft'", "look-around", "look-around", 1),
        ("[[rule]]\nname = '(a)\\1'\nphase = 'draft'", "backreferences", "back-references", 1),
        ("[[rule]]\nname = '(\\w{999}){999}'\nphase = 'draft'", "size limit", "Rust", 1),
        ("[[rule]]\nname = '(?x)a # b'\nphase = 'draft'", "unclosed group", "Rust", 1),
        (f"{RULE}domain = '['", "domain is no regular", "look-around", 1),
        ("[[rule]]\nname = '(?P<bs>.)'\nphase = 'draft'", "group 'bs'", "cycle, batch", 1),
    ],
)
def test_a_bad_rule_file_says_what_to_write(
    tmp_path: Path, text: str, what: str, next_step: str, rule: int | None
) -> None:
    path = rule_file(tmp_path, text)
    with pytest.raises(InputError) as caught:
        Rules.from_file(path)
    assert what in caught.value.what
    assert next_step in (caught.value.next_step or "")
    assert caught.value.where == (f"{path}" if rule is None else f"{path}, rule {rule}")


def test_a_file_that_cannot_be_read_is_an_input_error(tmp_path: Path) -> None:
    latin = tmp_path / "latin.toml"
    latin.write_bytes(b"# \xe9\n" + RULE.encode())
    for path in (tmp_path / "absent.toml", tmp_path, latin):
        with pytest.raises(InputError, match="cannot be read") as caught:
            Rules.from_file(path)
        assert caught.value.where == str(path)


def test_a_slow_pattern_for_backtracking_engines_is_harmless(tmp_path: Path) -> None:
    rules = Rules.from_file(rule_file(tmp_path, "[[rule]]\nname = '(a*)*b'\nrole = 'cycle'"))
    assert one(rules, "a" * 50_000)["rule"] is None


def test_fused_phases_print_in_canonical_order() -> None:
    assert parse_phase("draft") == ("draft",)
    assert parse_phase(" fused( draft_extend ,verify) ") == ("verify", "draft_extend")
    assert phase_text(parse_phase("fused(draft_extend, draft)")) == "fused(draft, draft_extend)"


@given(st.sets(st.sampled_from(PHASES), min_size=1))
def test_phase_text_round_trips(members: set[str]) -> None:
    ordered = tuple(sorted(members, key=PHASES.index))
    assert parse_phase(phase_text(ordered)) == ordered


def test_phase_order_is_canonical_and_ends_with_what_no_range_holds() -> None:
    ordered = ["draft", "fused(draft, draft_extend)", *PHASES[1:], *LEFTOVERS]
    assert sorted(sorted(ordered), key=phase_order) == ordered


def test_target_forwards_and_prompt_work() -> None:
    assert [phase for phase in PHASES if has_target_forward(phase)] == ["verify", "decode", "mixed"]
    assert [phase for phase in PHASES if has_prefill(phase)] == [
        "prefill",
        "draft_prefill",
        "mixed",
    ]
    assert has_target_forward("fused(verify, draft_extend)")
    assert not has_target_forward("fused(draft, draft_extend)")
    assert has_prefill("fused(verify, decode, prefill)")


def test_vocabulary_is_closed() -> None:
    assert {member for members in ROLLUPS.values() for member in members} <= set(PHASES)
    assert {flag for rule in SHIPPED.rules for flag in rule.flags} == set(FLAGS)
    assert all((rule.role == "phase") == (rule.phase is not None) for rule in SHIPPED.rules)


def test_shipped_rules_pass_the_checks_of_a_users_file() -> None:
    shipped = resources.files("traceanalyzer.phases").joinpath("rules.toml")
    with resources.as_file(shipped) as path:
        assert Rules.from_file(path, extend=False) == Rules.shipped()
