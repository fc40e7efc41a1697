"""What the trace tells beside what the engine itself counted, figure by figure, exactly."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from nvtx_hooks.vocabulary import ACCEPT, OVERSHOOT, Flags, request_hash
from traceanalyzer import analyze, load
from traceanalyzer.analyses.range_tables import range_table
from traceanalyzer.phases.marks import read_marks
from traceanalyzer.pipeline import AnalysisOptions

if TYPE_CHECKING:
    from pathlib import Path

    from cases import Case

    from traceanalyzer.report import Acceptance

_LOG_LINE = re.compile(r"Decode batch.*?accept len: ([0-9.]+)")


@dataclass(frozen=True)
class Figure:
    """One figure, as the engine and as the trace have it."""

    name: str
    engine: Any
    trace: Any

    @property
    def agrees(self) -> bool:
        """Whether they are equal."""
        return self.engine == self.trace


@dataclass(frozen=True)
class Traced:
    """What the trace tells.

    Attributes:
        ranges: How many ranges each name has, over all processes.
        acceptance: The report's.
        rows: `accept` marks, with `tokens`: those past the request's end.
    """

    ranges: Counter[str]
    acceptance: Acceptance
    rows: pl.DataFrame

    @property
    def committed(self) -> list[int]:
        """Live rows by accepted drafts up to the request's end, from 0 up."""
        found = Counter((self.live["accepted"] - self.live["tokens"]).to_list())
        return [found[number] for number in range(max(found) + 1)]

    @property
    def live(self) -> pl.DataFrame:
        """Rows of requests that had not ended."""
        return self.rows.filter(pl.col("flags").cast(pl.Int32) & int(Flags.STALE) == 0)

    def by_request(self, *values: pl.Expr) -> dict[int, tuple[int, ...]]:
        """Totals of each request's live rows."""
        table = self.live.group_by("request").agg(*values).sort("request")
        return {int(row[0]): row[1:] for row in table.iter_rows()}


def read(recorded: Path) -> Traced:
    """Read a recording.

    Raises:
        InputError: It cannot be read.
    """
    trace = load((recorded,))
    table = range_table(trace, AnalysisOptions().rules())
    ranges: Counter[str] = Counter()
    for name, instances in table.select("range", "instances").iter_rows():
        ranges[name.removeprefix("eagle:")] += instances
    acceptance = analyze(trace).acceptance
    if acceptance is None:
        raise SystemExit(f"{recorded} holds no accept marks: were the hooks on?")
    keys = ("process", "cycle", "request")
    past = read_marks(trace, OVERSHOOT).group_by(keys).agg(pl.col("tokens").sum())
    rows = read_marks(trace, ACCEPT).join(past, on=keys, how="left")
    return Traced(ranges, acceptance, rows.with_columns(pl.col("tokens").fill_null(0)))


def compare(case: Case, traced: Traced, figures: Path, log: str) -> list[Figure]:
    """Every figure that the engine tells and the trace must meet."""
    told = json.loads(figures.read_text())
    if case.engine == "vllm":
        return _vllm(traced, told)
    return [*_sglang_cycles(case, traced, told, log), *_sglang_requests(traced, told)]


def _vllm(traced: Traced, told: dict[str, Any]) -> list[Figure]:
    metrics, accepted = told["metrics"], traced.rows["accepted"]
    positions = metrics["vllm:spec_decode_num_accepted_tokens_per_pos"]
    targets = ("verify", "prefill", "mixed", "decode")
    after_prefill = sum(told["generated"]) - len(told["generated"])
    return [
        Figure("drafts", metrics["vllm:spec_decode_num_drafts"], traced.rows.height),
        Figure(
            "draft tokens",
            metrics["vllm:spec_decode_num_draft_tokens"],
            int(traced.rows["k"].sum()),
        ),
        Figure("accepted", metrics["vllm:spec_decode_num_accepted_tokens"], int(accepted.sum())),
        Figure(
            "accepted by position",
            positions,
            [int((accepted > position).sum()) for position in range(len(positions))],
        ),
        Figure(
            "iterations",
            metrics["vllm:iteration_tokens_total"],
            sum(traced.ranges[name] for name in targets),
        ),
        Figure("tokens after prefill", after_prefill, traced.acceptance.committed_tokens),
    ]


def _sglang_cycles(
    case: Case, traced: Traced, told: list[dict[str, Any]], log: str
) -> list[Figure]:
    """The log has a line a cycle, and its figure counts stale rows with the others."""
    lines = [float(found) for found in _LOG_LINE.findall(log)]
    expected = Counter(dict.fromkeys(("draft", "verify", "draft_extend"), len(lines)))
    if case.worker == 1:
        expected["draft_extend"] -= 1
    return [
        *(
            Figure(f"{name} ranges", count * case.ranks, traced.ranges[name])
            for name, count in expected.items()
        ),
        Figure("accept len by cycle", lines, _log_lines(case, traced, len(told))),
    ]


def _log_lines(case: Case, traced: Traced, requests: int) -> list[float]:
    """What the log should say of each cycle, by the trace."""
    past_end = pl.col("tokens") if case.worker == 1 else pl.lit(0)
    by_cycle = (
        traced.rows.group_by("cycle")
        .agg(tokens=(pl.col("accepted") + 1 - past_end).sum(), rows=pl.len())
        .sort("cycle")
    )
    counts = list(by_cycle.select("tokens", "rows").iter_rows())
    if case.log_has_prefill:
        counts[0] = (counts[0][0] + requests, counts[0][1] + requests)
    return [float(f"{tokens / rows:.2f}") for tokens, rows in counts]


def _sglang_requests(traced: Traced, told: list[dict[str, Any]]) -> list[Figure]:
    """Requests are told apart by the hash of their id, and their stale rows left out."""
    by_id = {request_hash(meta["id"]): meta for meta in told}
    if len(by_id) < len(told):
        raise SystemExit("two request ids have the same hash: run it again")

    def figure(name: str, field: str, value: pl.Expr) -> list[Figure]:
        engine = {request: meta[field] for request, meta in by_id.items() if field in meta}
        traced_values = {key: row[0] for key, row in traced.by_request(value).items()}
        ours = {request: traced_values.get(request) for request in engine}
        return [Figure(name, list(engine.values()), list(ours.values()))] if engine else []

    accepted = pl.col("accepted")
    committed = accepted.sum() + pl.len() - pl.col("tokens").sum()
    return [
        *figure("verify counts", "spec_verify_ct", pl.len()),
        *figure("accepted", "spec_accept_token_num", accepted.sum()),
        *figure("accepted", "spec_num_correct_drafts", accepted.sum()),
        *_histograms(traced, told),
        *figure("tokens", "completion_tokens", committed + 1),
        Figure("requests", len(told), len(traced.by_request())),
    ]


def _histograms(traced: Traced, told: list[dict[str, Any]]) -> list[Figure]:
    total: Counter[int] = Counter()
    for meta in told:
        for field in ("spec_accept_histogram", "spec_correct_drafts_histogram"):
            total.update(dict(enumerate(meta.get(field, ()))))
    total = +total  # the engine's lists may end in zeros
    if not total:
        return []
    histogram = [total[number] for number in range(max(total) + 1)]
    return [Figure("histogram", histogram, traced.acceptance.live_accepted_drafts_histogram)]
