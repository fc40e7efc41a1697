"""Phases without ranges: equal to what the ranges say, honest where they cannot be told, or none.

The simulated servers' traces are stripped of every range and mark; what their ranges say is the
truth to compare with, which other tests hold equal to the simulation's own.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness import needs_shared, run_cli, shared_folder
from tests.phases.agreement import agreement, names, stripped
from tests.strategies import build, examples
from traceanalyzer.importers import load
from traceanalyzer.phases.attribution import INFERRED, METHODS, launches_of_ops
from traceanalyzer.phases.cycles import WARM_UP
from traceanalyzer.phases.inferred.forwards import find_forwards
from traceanalyzer.phases.inferred.sequence import LaunchedOps, launched_ops
from traceanalyzer.phases.inferred.signs import ATTENTION as ATTENTION_SIGN
from traceanalyzer.phases.inferred.signs import CHOICE, MODEL, OPAQUE, PICK, PRODUCT, TREE
from traceanalyzer.phases.phased import settle_phases
from traceanalyzer.phases.ranks import find_ranks
from traceanalyzer.phases.rules import Rules
from traceanalyzer.pipeline import AnalysisOptions, analyze
from traceanalyzer.simulation import NSYS_2025_5, Eagle3Settings, eagle3_server, write_nsys_sqlite
from traceanalyzer.trace import concatenate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    from traceanalyzer.trace import Trace

RULES = Rules.shipped()

SMALL = replace(Eagle3Settings.small(), cycles=14)
SERVERS = {
    **{
        f"{mode}, k = {k}": replace(SMALL, graph_mode=mode, draft_tokens=k, verified_tokens=0)
        for mode, tokens in (("node", (2, 3, 4, 5)), ("graph", (2, 5)), ("eager", (2, 3, 4, 5)))
        for k in tokens
    },
    **{
        f"{mode}, speculation off": replace(SMALL, graph_mode=mode, draft_tokens=0)
        for mode in ("node", "graph", "eager")
    },
    "one draft": replace(SMALL, draft_tokens=1, verified_tokens=0),
    "one rank": replace(SMALL, ranks=1, lag_cycles=0, capture_recorded=False),
    "eager and replayed": replace(
        SMALL, cycles=28, graph_share=0.5, decode_every=5, batch_sizes=(1, 3)
    ),
    "prompts are replays too": replace(
        SMALL, graph_mode="graph", prefill_replayed=True, decode_every=5, cycles=20
    ),
    "latent attention, experts": replace(
        Eagle3Settings.seed_case(cycles=12, ranks=2), layers=6, sample_ranges=True, prefill_every=5
    ),
}


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Trace]:
    folder = tmp_path_factory.mktemp("servers")
    known: dict[str, Trace] = {}

    def trace(name: str) -> Trace:
        if name not in known:
            path = folder / "trace.sqlite"
            write_nsys_sqlite(eagle3_server(SERVERS[name]), path, NSYS_2025_5)
            known[name] = load(path)
        return known[name]

    return trace


@pytest.mark.parametrize("name", SERVERS)
def test_simulated_servers_without_ranges(name: str, traces: Callable[[str], Trace]) -> None:
    trace = traces(name)
    measured, inferred = settle_phases(trace, RULES), settle_phases(stripped(trace), RULES)
    assert measured.inference is None
    assert inferred.inference
    assert inferred.inference.ranges
    assert inferred.inference.score > 0.9
    assert agreement(measured, inferred).same >= 0.99
    counts = [phased.cycles.spans.size for phased in (measured, inferred)]
    assert counts[0] == counts[1]
    assert (measured.cycles.spans.start_ns == inferred.cycles.spans.start_ns).all()


def renamed(*pairs: tuple[str, str]) -> Callable[[Trace], Trace]:
    def change(trace: Trace) -> Trace:
        text = pl.col("text")
        for pattern, name in pairs:
            text = pl.when(pl.col("text").str.contains(pattern)).then(pl.lit(name)).otherwise(text)
        return replace(trace, names=trace.names.with_columns(text=text))

    return change


def without_kernels(pattern: str) -> Callable[[Trace], Trace]:
    def change(trace: Trace) -> Trace:
        rows = trace.ops.select(trace.text("name").str.contains(pattern).fill_null(False))
        return replace(trace, ops=trace.ops.filter(~rows.to_series()))

    return change


def without_ids(trace: Trace) -> Trace:
    ids = ("graph_id", "graph_node_id", "graph_exec_id")
    none = (pl.lit(None, pl.Int64).alias(name) for name in ids)
    return replace(trace, ops=trace.ops.with_columns(*none))


ATTENTION = "BatchDecodeWith|BatchPrefillWith|BatchMLA"
UNNAMED = ("VerifyTree", "some_kernel")
CHANGES = {
    "nobody judges by name": renamed(UNNAMED),
    "nor builds a tree": renamed(UNNAMED, ("build_tree", "another_kernel")),
    "one attention kernel for all": renamed((ATTENTION, "flash_fwd_kernel")),
    "that, and nobody judges": renamed((ATTENTION, "flash_fwd_kernel"), UNNAMED),
    "attention of unknown name": renamed((ATTENTION, "mystery_kernel")),
    "no graph ids": without_ids,
    "no graph ids, nobody judges": lambda trace: without_ids(renamed(UNNAMED)(trace)),
    "no kernel chooses tokens": without_kernels("VerifyTree|ArgMax|SoftMax|gatherTopK"),
}
HARD_SERVERS = (
    "node, k = 3",
    "graph, k = 2",
    "eager, k = 4",
    "graph, speculation off",
    "one draft",
    "eager and replayed",
    "prompts are replays too",
)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", HARD_SERVERS)
def test_less_evidence_never_makes_a_wrong_phase(
    name: str, change: str, traces: Callable[[str], Trace]
) -> None:
    trace = CHANGES[change](traces(name))
    inferred = settle_phases(stripped(trace), RULES)
    assert inferred.inference
    if inferred.inference.ranges is None:
        assert inferred.inference.reasons
        assert set(names(inferred)) == {"unattributed"}
        return
    assert agreement(settle_phases(trace, RULES), inferred).wrong <= 0.01


def test_what_cannot_be_told_is_declined_with_its_reason(traces: Callable[[str], Trace]) -> None:
    def why(name: str, change: Callable[[Trace], Trace]) -> str:
        found = settle_phases(stripped(change(traces(name))), RULES).inference
        assert found
        assert (found.ranges, found.score, found.evidence) == (None, 0.0, ())
        (reason,) = found.reasons
        return reason

    prompts = renamed((ATTENTION, "BatchPrefillWithPagedKVCacheKernel"))
    assert "decode or verify" in why("eager, speculation off", prompts)
    assert "which graph is the target" in why("prompts are replays too", renamed(UNNAMED))
    assert "no attention" in why("node, k = 3", renamed((ATTENTION, "mystery_kernel")))
    assert "too few cycles" in why("node, k = 3", first_ops(0.3))
    assert "no decode cycle" in why("node, k = 3", slower(1000))
    assert "launch row" in why("node, k = 3", without_launches)
    assert "training" in why("node, k = 3", renamed(("act_and_mul", "fused_adam_backward")))
    assert "which graph they are" in why("graph, k = 5", without_ids)
    assert "several GPUs" in why("node, k = 3", one_thread)


def first_ops(share: float) -> Callable[[Trace], Trace]:
    def change(trace: Trace) -> Trace:
        return replace(trace, ops=trace.ops.sort("start_ns").head(int(share * trace.ops.height)))

    return change


def slower(factor: int) -> Callable[[Trace], Trace]:
    def change(trace: Trace) -> Trace:
        stretch = (pl.col("start_ns") * factor, pl.col("end_ns") * factor)
        return replace(
            trace,
            ops=trace.ops.with_columns(*stretch),
            launches=trace.launches.with_columns(*stretch),
        )

    return change


def without_launches(trace: Trace) -> Trace:
    return replace(trace, launches=trace.launches.clear())


def one_thread(trace: Trace) -> Trace:
    """Both ranks as two GPUs of one process and thread."""
    ids = pl.col("correlation_id") + 1_000_000 * pl.col("process").cast(pl.Int64)
    as_one = (ids.alias("correlation_id"), pl.lit(0, pl.Int32).alias("process"))
    thread = trace.launches.group_by("process").agg(pl.col("thread").mode().first())
    main = thread.sort("process")["thread"].to_list()
    return replace(
        trace,
        ops=trace.ops.with_columns(*as_one),
        launches=trace.launches.with_columns(
            *as_one, thread=pl.col("thread").replace(main[1], main[0])
        ),
        devices=trace.devices.with_columns(pl.lit(0, pl.Int32).alias("process")),
    )


def test_order_of_rows_and_origin_of_time_do_not_matter(traces: Callable[[str], Trace]) -> None:
    trace = stripped(traces("node, k = 3"))
    later = (pl.col("start_ns") + 10**18, pl.col("end_ns") + 10**18)
    moved = replace(
        trace,
        ops=trace.ops.with_columns(*later).with_row_index("row").sample(fraction=1, shuffle=True),
        launches=trace.launches.with_columns(*later),
    )
    row = moved.ops["row"].to_list()
    moved = replace(moved, ops=moved.ops.drop("row"))
    before, after = names(settle_phases(trace, RULES)), names(settle_phases(moved, RULES))
    assert [before[place] for place in row] == after


def test_ranges_that_mean_a_phase_are_never_mixed_with_inference(
    traces: Callable[[str], Trace],
) -> None:
    trace = traces("node, k = 3")
    named = trace.ranges.select(trace.text("name")).to_series()
    one = trace.ranges.filter(named == "verify").tail(1)
    phased = settle_phases(replace(trace, ranges=one), RULES)
    assert phased.inference is None
    assert set(names(phased)) == {"verify", "unattributed"}
    wanted = settle_phases(stripped(trace), RULES, infer=False)
    assert wanted.inference is None
    assert set(names(wanted)) == {"unattributed"}


def test_inferred_ranges_are_marked_and_keep_the_flags_around_them(
    traces: Callable[[str], Trace],
) -> None:
    trace = traces("node, k = 3")
    named = trace.ranges.select(trace.text("name")).to_series()
    warm = replace(trace, ranges=trace.ranges.filter(named == "warm_up"), marks=trace.marks.clear())
    assert warm.ranges.height
    phased, measured = settle_phases(warm, RULES), settle_phases(trace, RULES)
    counts = [np.count_nonzero(each.cycles.state == WARM_UP) for each in (phased, measured)]
    assert counts[0] == counts[1] > 0
    added = phased.trace.ranges.height - warm.ranges.height
    assert added == np.count_nonzero(phased.spans.flagged("inferred"))
    texts = phased.trace.ranges.select(phased.trace.text("name")).to_series()
    assert all(text.startswith("inferred ") for text in texts[-added:])
    by_method = phased.attribution.method == INFERRED
    assert (by_method == (phased.attribution.span >= 0)).all()


def test_the_report_says_that_phases_are_inferred(traces: Callable[[str], Trace]) -> None:
    trace = stripped(traces("node, k = 3"))
    report = analyze(trace)
    assert report.inference
    assert report.inference.inferred
    assert report.capture.ranges == 0
    target, order, judge, prompts = report.inference.evidence
    assert "holds 2 attention layers, others 1 at most: the target" in target
    assert "verify, draft_extend, draft x 2 recurs 14 times" in order
    assert judge == "VerifyTreeGreedy judges drafts after verify"
    assert prompts.startswith("2 more forwards of that depth")
    assert report.coverage
    assert report.coverage.covered_share == 0
    shares = {each.method: each.share for each in report.coverage.by_method}
    assert shares[METHODS[INFERRED]] > 0.97
    first = report.trust[0]
    assert (first.check, first.status) == ("phases", "warning")
    assert target in first.text
    assert {"coverage", "failed"} not in [{each.check, each.status} for each in report.trust]
    assert report.buckets[0].shape.kind == "verify"
    without = analyze(trace, AnalysisOptions(infer=False))
    assert without.inference is None
    assert not without.buckets


def test_on_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "bare.sqlite"
    write_nsys_sqlite(eagle3_server(SERVERS["one rank"]), path)
    with closing(sqlite3.connect(path)) as file:
        file.execute("DROP TABLE NVTX_EVENTS")
    told = run_cli("report", path, "-o", tmp_path / "report.txt")
    assert (told.exit_code, told.stderr) == (0, "")
    text = (tmp_path / "report.txt").read_text(encoding="utf-8")
    assert text.splitlines()[3].startswith("?  Phases are inferred, not measured (score 0.9")
    assert "verify cycles (inferred)" in text
    refused = run_cli("report", path, "--no-infer", "--min-coverage", "0.5")
    assert refused.exit_code == 3
    assert "inferred" not in refused.stdout


def step(place: int, kernels: list[str], period_ns: int) -> list[tuple[str, int]]:
    return [(name, place * period_ns + 1000 * row) for row, name in enumerate(kernels)]


def eager(steps: int, kernels: list[str], period_ns: int = 1_000_000) -> Trace:
    """Steps of kernels that are launched one by one."""
    rows: list[dict[str, Any]] = []
    launches: list[dict[str, Any]] = []
    for place in range(steps):
        for name, time in step(place, kernels, period_ns):
            own = len(rows) + 1
            launches.append({"start_ns": time, "end_ns": time + 300, "correlation_id": own})
            rows.append(
                {"start_ns": time + 500, "end_ns": time + 1400, "correlation_id": own, "name": name}
            )
    return build(ops=rows, launches=launches)


LAYER = ["rmsnorm_kernel", "nvjet_tst_qkv", "flash_fwd_kernel", "nvjet_tst_out", "nvjet_tst_up"]
LOSS = ["nvjet_tst_logits", "cunn_SoftMaxForward"]


def reasons(trace: Trace) -> tuple[str, ...]:
    found = settle_phases(trace, RULES).inference
    assert found
    return found.reasons


def test_repeating_work_that_serves_nobody_is_declined() -> None:
    """Training with and without its telling names, and scoring: no token is ever picked."""
    backward = ["flash_bwd_kernel", "nvjet_tst_dgrad", "nvjet_tst_wgrad"] * 4
    adam = ["void at::native::multi_tensor_apply_kernel<FusedAdamMathFunctor<float> >()"]
    training = eager(20, LAYER * 4 + LOSS + backward + adam)
    assert reasons(training) == ("backward or optimizer kernels: this is training",)
    unnamed = eager(20, LAYER * 4 + LOSS + ["nvjet_tst_a", "nvjet_tst_b"] * 12)
    assert reasons(unnamed)
    (why,) = reasons(eager(20, LAYER * 4 + LOSS))
    assert why == "nothing picks tokens after the deepest forwards"


def test_a_plain_loop_that_picks_tokens_is_decoding() -> None:
    trace = eager(20, LAYER * 4 + ["nvjet_tst_logits", "ArgMaxOps_kernel<sampling::argmax>"])
    phased = settle_phases(trace, RULES)
    assert reasons(trace) == ()
    assert set(phased.labels) >= {"decode", "sample"}
    seconds = eager(20, LAYER * 4 + ["nvjet_tst_logits", "argmax_kernel"], 3_000_000_000)
    (why,) = reasons(seconds)
    assert why == "what recurs takes 3.0 s, which is no decode cycle"


def test_written_trace_is_read_alike(tmp_path: Path, traces: Callable[[str], Trace]) -> None:
    """The recorder's older schema knows no graph ids; the phases are the same."""
    path = tmp_path / "old.sqlite"
    write_nsys_sqlite(eagle3_server(SERVERS["node, k = 3"]), path)
    old, new = stripped(load(path)), stripped(traces("node, k = 3"))
    assert old.ops["graph_id"].null_count() == old.ops.height
    assert names(settle_phases(old, RULES)) == names(settle_phases(new, RULES))


def test_ranks_that_differ_are_declined(traces: Callable[[str], Trace]) -> None:
    one, other = (stripped(traces(name)) for name in ("node, k = 3", "node, speculation off"))
    (why,) = reasons(concatenate([one, other]))
    assert why == "the ranks do not show the same order of forwards"


@st.composite
def launched(draw: st.DrawFn) -> LaunchedOps:
    """Short sequences of launches, replays and whole-graph rows with any signs."""
    kinds = (ATTENTION_SIGN | MODEL, PRODUCT | MODEL, MODEL, CHOICE | PICK, CHOICE | TREE, 0)
    launches = draw(
        st.lists(st.lists(st.sampled_from(kinds), min_size=1, max_size=4), min_size=1, max_size=14)
    )
    signs, launch, replayed = [], [], []
    for place, ops in enumerate(launches):
        opaque = draw(st.integers(0, 9)) == 0
        signs += [OPAQUE] if opaque else ops
        launch += [place] * (1 if opaque else len(ops))
        replayed += [True] if opaque else [len(ops) > 1] * len(ops)
    size, calls = len(signs), np.array(launch)
    pauses = np.cumsum(draw(st.lists(st.integers(1, 9), min_size=20, max_size=20)))
    return LaunchedOps(
        lane=0,
        thread=0,
        launch=calls,
        call_start_ns=100 * calls + pauses[calls],
        call_end_ns=100 * calls + pauses[calls] + 5,
        start_ns=np.arange(size),
        ns=np.array(draw(st.lists(st.integers(0, 9), min_size=size, max_size=size))),
        name=np.array(draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))),
        signs=np.array(signs),
        replayed=np.array(replayed),
        graph=np.full(size, -1),
        lane_ns=1,
    )


def logits(ops: LaunchedOps) -> set[int]:
    """Places of products that run last before a choice, by kernels that mostly do."""
    places = range(ops.launch.size)
    products = [place for place in places if ops.signs[place] & PRODUCT]
    last = {
        max(before)
        for place in places
        if ops.signs[place] & CHOICE and (before := [row for row in products if row < place])
    }
    heads = set()
    for place in products:
        alike = [row for row in products if ops.name[row] == ops.name[place]]
        hits = [row for row in alike if row in last]
        if len(hits) >= 2 and len(hits) >= 0.5 * len(alike):
            heads.add(place)
    return heads


def between_pieces(ops: LaunchedOps, last: int, place: int) -> bool:
    """Whether one is a whole-graph row, one attention, and no product is from row to row."""
    if bool(ops.signs[last] & OPAQUE) == bool(ops.signs[place] & OPAQUE):
        return False
    before = [row for row in range(last + 1) if ops.signs[row] & OPAQUE]
    after = [row for row in range(place, ops.launch.size) if ops.signs[row] & OPAQUE]
    if not before or not after:
        return False
    return not any(ops.signs[row] & PRODUCT for row in range(before[-1], after[0]))


def by_hand(ops: LaunchedOps) -> list[tuple[int, int]]:
    """First place and layers of each forward, by walking over the ops."""
    found: list[tuple[int, int]] = []
    heads, last, passed_product = logits(ops), -1, False
    for place in range(ops.launch.size):
        sign = int(ops.signs[place])
        passed_product |= bool(sign & (PRODUCT | OPAQUE))
        if not sign & (ATTENTION_SIGN | OPAQUE):
            continue
        passed = range(last + 1, place)
        ends = any(ops.signs[row] & CHOICE or row in heads for row in passed)
        if (
            last < 0
            or ends
            or (
                ops.launch[last] != ops.launch[place]
                and (ops.replayed[last] or ops.replayed[place])
                and not between_pieces(ops, last, place)
            )
        ):
            found.append((place, 0))
            passed_product = True
        if sign & ATTENTION_SIGN:
            first, layers = found[-1]
            found[-1] = (first, layers + passed_product)
            passed_product = False
        last = place
    return found


@examples(0.4)
@given(launched())
def test_forwards_are_those_that_a_walk_over_the_ops_finds(ops: LaunchedOps) -> None:
    forwards, want = find_forwards(ops), by_hand(ops)
    if forwards is None:
        assert not want
        return
    assert list(zip(forwards.first.tolist(), forwards.layers.tolist(), strict=True)) == want


@examples(0.4)
@given(launched())
def test_forwards_and_their_tails_divide_the_sequence(ops: LaunchedOps) -> None:
    forwards = find_forwards(ops)
    if forwards is None:
        return
    size = ops.launch.size
    following = [*forwards.begin.tolist()[1:], size]
    rows = zip(forwards.begin, forwards.first, forwards.end, following, strict=True)
    for begin, first, end, after in rows:
        assert 0 <= begin <= first < end <= after
    parts = list(zip(forwards.begin.tolist(), forwards.end.tolist(), following, strict=True))
    signs = ops.signs.tolist()
    assert forwards.ns.tolist() == [int(ops.ns[begin:end].sum()) for begin, end, _ in parts]
    assert forwards.signs.tolist() == [all_of(signs[begin:end]) for begin, end, _ in parts]
    assert forwards.tail.tolist() == [all_of(signs[end:after]) for _, end, after in parts]
    for tree, (_, end, after) in zip(forwards.tree.tolist(), parts, strict=True):
        assert (tree >= 0) == any(sign & TREE for sign in signs[end:after])
        assert tree < 0 or end <= tree < after


def all_of(signs: list[int]) -> int:
    return reduce(or_, signs, 0)


TRAINING_TRACES = (
    "nsys/a100_training_no_nvtx_2024.6.sqlite",
    "nsys/a100_training_nvtx_2024.6.sqlite",
    "nsys/a100_graph_trace_rows_2024.6.sqlite",
    "nsys/training_nvtx_2025.1.sqlite",
    "nsys/h100_two_ranks_nccl_2026.2.sqlite",
    "nsys/h100_two_ranks_mfu_2026.2.sqlite",
    "kineto/a100_graphs_nccl_rank0.json.gz",
    "kineto/a100_alexnet.json.gz",
    "kineto/mi210_gpu_only.json.gz",
    "kineto/v100_graph_429_kernels_per_launch.json.gz",
    "kineto/v100_nanosecond_clock.json.gz",
    "kineto/torch1.8_capitalised_categories.json.gz",
)


def shared(name: str) -> Trace:
    folder = shared_folder()
    assert folder
    return load(folder / "traces" / name)


@needs_shared
@pytest.mark.parametrize("name", TRAINING_TRACES)
def test_real_training_is_declined(name: str) -> None:
    assert reasons(stripped(shared(name)))


SERVING_TRACES = {
    "kineto/mi300x_sglang_decode_one_graph.json.gz": 36,
    "kineto/mi300x_vllm_decode_full_graph.json.gz": 24,
    "kineto/mi300x_vllm_piecewise_graphs.json.gz": 24,
    "kineto/b200_eager.json.gz": 36,
}


def repeated(trace: Trace, times: int) -> Trace:
    """The trace several times in a row, its correlation ids told apart."""
    period = int(trace.ops["end_ns"].max() or 0) - int(trace.launches["start_ns"].min() or 0)  # type: ignore[arg-type]
    ids = 1 + max(
        int(table["correlation_id"].max() or 0)  # type: ignore[arg-type]
        for table in (trace.ops, trace.launches)
    )

    def later(table: pl.DataFrame) -> pl.DataFrame:
        return pl.concat(
            table.with_columns(
                pl.col("start_ns", "end_ns") + place * period,
                pl.col("correlation_id") + place * ids,
            )
            for place in range(times)
        )

    return replace(trace, ops=later(trace.ops), launches=later(trace.launches))


@needs_shared
@pytest.mark.parametrize("name", SERVING_TRACES)
def test_one_step_of_a_real_server_is_too_few_and_its_layers_are_counted(name: str) -> None:
    trace = stripped(shared(name))
    (why,) = reasons(trace)
    assert why.startswith("too few cycles: 1 ")
    (ops,) = launched_ops(trace, find_ranks(trace), launches_of_ops(trace))
    forwards = find_forwards(ops)
    assert forwards
    assert forwards.layers.tolist() == [SERVING_TRACES[name]]


@needs_shared
def test_real_kernels_repeated_are_decoding_or_declined() -> None:
    """SGLang's step ends in an arg-max; vLLM's sampling is not in its file."""
    sglang, vllm, piecewise, eager_step = (
        settle_phases(repeated(stripped(shared(name)), 12), RULES) for name in SERVING_TRACES
    )
    assert {"decode", "sample"} <= set(sglang.labels)
    assert sglang.inference
    assert "holds 36 attention layers: the target" in sglang.inference.evidence[0]
    for other in (vllm, piecewise, eager_step):
        assert other.inference
        assert other.inference.reasons
