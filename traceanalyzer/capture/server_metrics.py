"""How many tokens an engine has generated, as its own Prometheus page (/metrics) tells it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_LINE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_SHARED: Final = ("tp_rank", "pp_rank", "moe_ep_rank")


@dataclass(frozen=True, slots=True)
class TokenMetric:
    """A metric of generated tokens.

    Attributes:
        name: Its name on the page.
        labels: What its labels must say.
        is_rate: Whether it is tokens/s already; else a counter of tokens.
        caveat: What its figures leave unsure; empty when nothing.
    """

    name: str
    labels: tuple[tuple[str, str], ...] = ()
    is_rate: bool = False
    caveat: str = ""


TOKEN_METRICS: Final = (
    TokenMetric("vllm:generation_tokens_total"),
    TokenMetric("sglang:realtime_tokens_total", (("mode", "decode"),)),
    TokenMetric(
        "sglang:gen_throughput", is_rate=True, caveat="the server's mean of a log interval"
    ),
    TokenMetric("sglang:generation_tokens_total", caveat="counted when a request ends"),
)
"""Finest first. vLLM counts at each engine step, and so does SGLang's realtime counter in decode
(0.5.9 scheduler_metrics_mixin.py, 0.5.23 metrics_reporter.py; absent in 0.4.9); its last one moves
when a request ends (`observe_one_finished_request`)."""

_RUNNING: Final = ("vllm:num_requests_running", "sglang:num_running_reqs")


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at the page.

    Attributes:
        metric: Which metric tells of the tokens.
        value: Tokens so far, or tokens/s when the metric is a rate.
        running: Requests running; None when the page does not say.
    """

    metric: TokenMetric
    value: float
    running: float | None


def read_metrics(page: str) -> Reading | None:
    """What a page says; None when it has no metric of generated tokens."""
    series = _series(page)
    running = next(
        (total for name in _RUNNING if (total := _total(series, name)) is not None), None
    )
    for metric in TOKEN_METRICS:
        value = _total(series, metric.name, metric.labels)
        if value is not None:
            return Reading(metric, value, running)
    return None


def _series(page: str) -> list[tuple[str, dict[str, str], float]]:
    found = []
    for line in page.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        try:
            value = float(match[3])
        except ValueError:
            continue
        found.append((match[1], dict(_LABEL.findall(match[2] or "")), value))
    return found


def _total(
    series: list[tuple[str, dict[str, str], float]],
    name: str,
    labels: tuple[tuple[str, str], ...] = (),
) -> float | None:
    """Sum over a metric's series; ranks that share the same tokens count once."""
    groups: dict[tuple[tuple[str, str], ...], float] = {}
    for own_name, own, value in series:
        if own_name == name and value == value and set(labels) <= set(own.items()):
            key = tuple(sorted(item for item in own.items() if item[0] not in _SHARED))
            groups[key] = max(groups.get(key, value), value)
    return sum(groups.values()) if groups else None
