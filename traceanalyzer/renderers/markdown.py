"""The report as Markdown, for an issue or a chat: the same tables as on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.renderers import graph_text, node_text, skew_text, verdict_markdown
from traceanalyzer.renderers.figures import count, decimals_for, milliseconds, percent
from traceanalyzer.renderers.first_words import first_words
from traceanalyzer.renderers.markdown_tables import escaped, markdown_table

if TYPE_CHECKING:
    from traceanalyzer.report import BucketReport, Report


def render_markdown(report: Report) -> str:
    """Render as GitHub-flavoured Markdown."""
    files = ", ".join(f"`{_code(file.path)}`" for file in report.capture.files)
    parts = [f"# Trace report\n\n{files}, timed on the {report.capture.time_base}."]
    if report.inference is not None and report.inference.inferred:
        told = escaped("; ".join(report.inference.evidence))
        parts.append(f"**Phases are inferred, not measured**: {told}.")
    parts += verdict_markdown.headline(report)
    parts += [_bucket(bucket) for bucket in report.buckets]
    if words := first_words(report):
        parts.append("\n".join(f"- {escaped(line)}" for line in words))
    parts += verdict_markdown.why_and_what(report)
    parts.append(
        "## Can it be trusted?\n\n"
        + markdown_table(
            ("", "check", "finding", "next step"),
            (
                (check.status, check.check, check.text, check.next_step or "")
                for check in report.trust
            ),
        )
    )
    parts += _graphs(report)
    parts += _node_recording(report)
    parts += _ranks(report)
    parts += [escaped(line) for line in skew_text.skew_lines(report)]
    parts += _ledger(report)
    return "\n\n".join(parts) + "\n"


def _bucket(bucket: BucketReport) -> str:
    decimals = decimals_for(bucket.period_ns.mean)
    shape = bucket.shape
    facts = [shape.kind, shape.graph or "", f"{count(bucket.cycles)} cycles"]
    rows = [
        (
            phase.phase,
            milliseconds(phase.window_ns_per_cycle.mean, decimals=decimals),
            percent(phase.window_share),
            milliseconds(phase.gap_ns_per_cycle, decimals=decimals),
            ", ".join(f"{gap.cause} {percent(gap.share)}" for gap in phase.gaps),
        )
        for phase in bucket.phases
    ]
    if bucket.overlap_ns_per_cycle:
        overlap = milliseconds(bucket.overlap_ns_per_cycle, decimals=decimals)
        rows.append(("two or more phases", overlap, percent(bucket.overlap_share), "", ""))
    period = milliseconds(bucket.period_ns.mean, decimals=decimals)
    rows.append(("**cycle**", f"**{period}**", percent(1.0), "", ""))
    table = markdown_table(
        ("phase", "ms/cycle", "share", "GPU idle ms", "why idle"), rows, literal=True
    )
    return f"## {escaped(' · '.join(fact for fact in facts if fact))}\n\n{table}"


def _graphs(report: Report) -> list[str]:
    """CUDA graphs, and the draft steps and layers inside of them."""
    parts = []
    if report.graphs:
        table = markdown_table(graph_text.GRAPH_TITLES, map(graph_text.graph_row, report.graphs))
        note = graph_text.replay_only_note(report.graphs)
        parts.append(f"## CUDA graphs\n\n{table}" + (f"\n\n{note}" if note else ""))
    if rows := graph_text.step_rows(report):
        parts.append(f"## Draft steps\n\n{markdown_table(graph_text.STEP_TITLES, rows)}")
    if lines := graph_text.layer_lines(report):
        parts.append("## Layers\n\n" + "\n".join(f"- {escaped(line)}" for line in lines))
    return parts


def _node_recording(report: Report) -> list[str]:
    """What recording nodes cost, and shares without it."""
    rows = node_text.node_rows(report)
    if not rows:
        return []
    lines = "\n".join(f"- {escaped(line)}" for line in node_text.node_lines(report))
    return [f"## Node recording\n\n{markdown_table(node_text.NODE_TITLES, rows)}\n\n{lines}"]


def _ranks(report: Report) -> list[str]:
    rows = [
        (
            str(rank.rank),
            str(rank.process_id),
            phase.phase,
            count(phase.kernels),
            count(phase.graph_rows),
            milliseconds(phase.busy_ns),
            milliseconds(phase.summed_ns),
        )
        for rank in report.ranks
        for phase in rank.phases
    ]
    titles = ("rank", "process", "phase", "kernels", "graph rows", "busy ms", "summed ms")
    return [f"## Whole trace\n\n{markdown_table(titles, rows)}"] if rows else []


def _ledger(report: Report) -> list[str]:
    if report.coverage is None:
        return []
    rows = [
        (method.method, percent(method.share), milliseconds(method.busy_ns), count(method.ops))
        for method in report.coverage.by_method
    ]
    table = markdown_table(("busy GPU time by evidence", "share", "ms", "ops"), rows)
    return [f"## Coverage\n\n{table}"]


def _code(text: str) -> str:
    return "".join(char if char.isprintable() and char != "`" else "\ufffd" for char in text)
