from __future__ import annotations

import pytest

from traceanalyzer.capture.environment import filtered_environment, looks_secret


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN",
        "OPENAI_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "DB_PASSWORD",
        "VLLM_API_KEY",
        "GIT_AUTH",
    ],
)
def test_what_may_be_a_secret_is_not_passed_on(name: str) -> None:
    assert looks_secret(name)
    assert filtered_environment({name: "x", "PATH": "/bin"}) == {"PATH": "/bin"}
    assert filtered_environment({name: "x"}, keep=[name]) == {name: "x"}


@pytest.mark.parametrize(
    "name",
    ["PATH", "CUDA_VISIBLE_DEVICES", "SGLANG_ENABLE_SPEC_V2", "VLLM_USE_V1", "NCCL_DEBUG", "RANK"],
)
def test_what_a_server_needs_is_passed_on(name: str) -> None:
    assert filtered_environment({name: "1"}) == {name: "1"}


def test_what_tells_of_a_person_is_not_passed_on() -> None:
    assert filtered_environment({"USER": "ann", "SSH_CONNECTION": "x", "MAIL": "y"}) == {}
