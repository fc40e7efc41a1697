"""The report page's answer: the verdict, its figures, what to do, and whether to trust it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.renderers import verdict_text as words
from traceanalyzer.renderers.bucket_table import OUTCOME, bucket_table
from traceanalyzer.renderers.figures import decimals_for, milliseconds
from traceanalyzer.renderers.html.escaping import element, joined
from traceanalyzer.renderers.html.sections import folded, lines, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.renderers.html.escaping import Markup
    from traceanalyzer.renderers.html.sections import Part
    from traceanalyzer.report import BucketVerdict, Check, Report, Verdict

_TONES: Final = {"winning": "good", "losing": "bad", "undecided": "unsure", "mixed": "unsure"}
_SEVERITIES: Final = {"error": "bad", "warning": "unsure"}
_CHECK_TONES: Final = {"ok": "good", "warning": "unsure", "failed": "bad"}


def answer(report: Report) -> Sequence[Part]:
    """The headline, the figures it rests on, and the first thing to do."""
    verdict = report.verdict
    if verdict is None:
        return [_no_verdict(report)]
    first, *more = words.headline(verdict)
    sign = words.SIGNS.get(verdict.outcome, "")
    main = words.main_bucket(verdict)
    parts = [element("p", f"{sign} {first}".strip(), class_="headline"), *lines(*more)]
    if main is not None:
        parts.append(_tiles(report, main))
    parts += lines(*(f"Missing: {text}." for text in _missing(verdict)))
    parts += _first_action(verdict)
    parts.append(_trust_line(report.trust))
    return [element("div", *parts, class_=f"answer {_TONES.get(verdict.outcome, '')}".rstrip())]


def _no_verdict(report: Report) -> Markup:
    """For captures that do not speculate."""
    told = "No speculating cycle in this capture: what follows tells where its time goes."
    if not report.buckets:
        told = "No complete decode cycle: the totals below are all that can be said."
    return element(
        "div", element("p", told, class_="headline"), _trust_line(report.trust), class_="answer"
    )


def _missing(verdict: Verdict) -> list[str]:
    return verdict.missing if verdict.outcome in _TONES else []


def _tiles(report: Report, main: BucketVerdict) -> Markup:
    """The figures of the verdict, each with its interval."""
    period = report.buckets[main.bucket].mean_period_ns
    decimals = decimals_for(period.value)
    tiles = [
        ("speed-up", words.with_interval(main.speedup, unit="×") if main.speedup else None),
        ("tok/s", words.with_interval(main.tokens_per_s, 1) if main.tokens_per_s else None),
        (
            "tok/s without speculation",
            words.with_interval(main.baseline_tokens_per_s, 1)
            if main.baseline_tokens_per_s
            else None,
        ),
        (
            "accept_len, bonus included",
            words.with_interval(main.accept_len) if main.accept_len else None,
        ),
        (
            "break-even accept_len",
            words.with_interval(main.break_even_accept_len) if main.break_even_accept_len else None,
        ),
        ("ms a cycle", milliseconds(period.value, decimals=decimals)),
        (
            "ms of verify and sample",
            milliseconds(main.target_ns, decimals=decimals) if main.target_ns else None,
        ),
    ]
    return element("dl", *(_tile(name, text) for name, text in tiles if text), class_="tiles")


def _tile(name: str, text: str) -> Markup:
    value, bracket, interval = text.partition(" [")
    content = [element("b", value)]
    if bracket:
        content.append(element("span", f" [{interval}", class_="muted"))
    return element("div", element("dt", name), element("dd", *content))


def _first_action(verdict: Verdict) -> list[Markup]:
    rows = words.action_rows(verdict)
    if not rows:
        return []
    _, action, gain, *_ = rows[0]
    most = f" (at most {gain})" if gain != "-" else ""
    link = element("a", "all actions", href="#actions")
    return [element("p", element("b", "First: "), action, most, " · ", link)]


def _trust_line(checks: Sequence[Check]) -> Markup:
    """How many checks say what, and where to read them."""
    number = {
        status: sum(check.status == status for check in checks)
        for status in ("failed", "warning", "ok")
    }
    marks = [
        element("span", f"{count} {status}", class_=f"mark {_CHECK_TONES[status]}")
        for status, count in number.items()
        if count
    ]
    link = element("a", "Can it be trusted?", href="#trust")
    return element("p", link, " ", *marks)


def trust_failed(report: Report) -> Sequence[Part]:
    """The checks, on top of all figures when one has failed."""
    return _checks(report.trust) if _failed(report) else []


def trust(report: Report) -> Sequence[Part]:
    """The checks, in their place when none has failed."""
    return [] if _failed(report) else _checks(report.trust)


def _failed(report: Report) -> bool:
    return any(check.status == "failed" for check in report.trust)


def _checks(checks: Sequence[Check]) -> list[Markup]:
    rows = [
        (
            element("span", check.status, class_=f"mark {_CHECK_TONES.get(check.status, '')}"),
            check.check,
            joined(check.text, *([element("br"), check.next_step] if check.next_step else [])),
        )
        for check in checks
    ]
    return [table(("", "check", "finding"), rows, words=(0, 1, 2))] if rows else []


def by_batch(report: Report) -> Sequence[Part]:
    """One row a bucket of speculating cycles, where there are several; then all together."""
    verdict, found = report.verdict, bucket_table(report)
    if verdict is None or found is None:
        return []
    together = words.mixed_line(verdict)
    last = found.titles.index(OUTCOME)
    return [table(found.titles, found.rows, words=(last,)), *lines(together or "")]


def why(report: Report) -> Sequence[Part]:
    """What verify costs, what is accepted by which definition, how far break-even is."""
    main = words.main_bucket(report.verdict) if report.verdict else None
    if main is None:
        return []
    found = words.detail_lines(report, main)
    return [element("ul", *(element("li", line) for line in found))] if found else []


def actions(report: Report) -> Sequence[Part]:
    """What to do, ranked, and what to measure next."""
    verdict = report.verdict
    if verdict is None:
        return []
    parts: list[Part] = []
    if verdict.actions:
        rows = words.action_rows(verdict)
        parts.append(table(words.ACTION_TITLES, rows, words=(0, 1, 3, 4)))
    if verdict.next_measurement:
        told = (element("b", "Next measurement: "), verdict.next_measurement)
        parts.append(element("p", *told))
    return [*parts, *lines(*(f"Note: {text}" for text in verdict.caveats))]


def findings(report: Report) -> Sequence[Part]:
    """What is wrong with the capture: what tells so, what follows, and what to do."""
    rows = [
        (
            element("span", each.severity, class_=f"mark {_SEVERITIES.get(each.severity, '')}"),
            each.text,
            each.evidence,
            each.consequence,
            each.next_step or "",
        )
        for each in report.findings
    ]
    titles = ("", "finding", "seen", "so", "do")
    return [table(titles, rows, words=range(len(titles)))] if rows else []


def agreement(report: Report) -> Sequence[Part]:
    """Independent counts of accept_len, where there are several."""
    found = report.verdict.agreement if report.verdict else []
    if len(found) < 2:
        return []
    rows = [(each.counted_by, f"{each.accept_len:.2f}") for each in found]
    return [folded("accept_len by independent counts", table(("counted by", "accept_len"), rows))]
