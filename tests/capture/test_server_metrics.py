from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import examples
from traceanalyzer.capture.server_metrics import TOKEN_METRICS, read_metrics

VLLM = """
# HELP vllm:generation_tokens_total Number of generation tokens processed.
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="m"} 1.5e+03
vllm:generation_tokens_total{engine="1",model_name="m"} 500.0
vllm:generation_tokens_created{engine="0",model_name="m"} 1.7e+09
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 4.0
"""
SGLANG = """
sglang:generation_tokens_total{model_name="a \\"b\\", {c}"} 900.0
sglang:gen_throughput{model_name="m",tp_rank="0",dp_rank="0"} 210.5
sglang:num_running_reqs{model_name="m",tp_rank="0",dp_rank="0"} 2.0
"""
NEWER_SGLANG = f"""{SGLANG}
sglang:realtime_tokens_total{{mode="prefill_compute",model_name="m"}} 77.0
sglang:realtime_tokens_total{{mode="decode",model_name="m"}} 800.0
"""


@pytest.mark.parametrize(
    ("page", "name", "value", "running"),
    [
        (VLLM, "vllm:generation_tokens_total", 2000, 7),
        (SGLANG, "sglang:gen_throughput", 210.5, 2),
        (NEWER_SGLANG, "sglang:realtime_tokens_total", 800, 2),
        ("sglang:generation_tokens_total 5\n", "sglang:generation_tokens_total", 5, None),
    ],
)
def test_the_finest_metric_of_each_engine_is_read(
    page: str, name: str, value: float, running: float | None
) -> None:
    reading = read_metrics(page)
    assert reading is not None
    assert (reading.metric.name, reading.value, reading.running) == (name, value, running)


def test_ranks_that_share_their_tokens_count_once() -> None:
    page = "".join(
        f'sglang:gen_throughput{{dp_rank="{dp}",tp_rank="{tp}"}} {100 * (dp + 1)}\n'
        for dp in range(2)
        for tp in range(4)
    )
    reading = read_metrics(page)
    assert reading is not None
    assert reading.value == 300


@pytest.mark.parametrize(
    "page", ["", "<html>", "vllm:generation_tokens_total", "vllm:generation_tokens_total NaN"]
)
def test_a_page_without_tokens_tells_nothing(page: str) -> None:
    assert read_metrics(page) is None


@examples(0.3)
@given(st.text(max_size=60), st.sampled_from([metric.name for metric in TOKEN_METRICS]))
def test_no_page_is_too_odd(text: str, name: str) -> None:
    read_metrics(text)
    read_metrics(f"{name}{{{text}}} {text}")
