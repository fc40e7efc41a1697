"""Recognition by content, refusals, bare numbers, and the engines' real logs."""

from __future__ import annotations

import gzip
import json
import math
import tracemalloc
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness import needs_shared, shared_folder
from tests.strategies import examples
from traceanalyzer.errors import InputError
from traceanalyzer.importers.acceptance import log as acceptance_log
from traceanalyzer.importers.acceptance.log import (
    parse_acceptance,
    parse_number,
    read_acceptance,
    reading_of_number,
)

if TYPE_CHECKING:
    from pathlib import Path

SGLANG = (
    "[2026-01-02 10:00:00] Decode batch, #running-req: 2, #token: 9, token usage: 0.02, "
    "accept len: 2.50, accept rate: 0.50, cuda graph: True, gen throughput (token/s): 80.00, "
    "#queue-req: 0"
)
VLLM = (
    "SpecDecoding metrics: Mean acceptance length: 2.50, Accepted throughput: 0.30 tokens/s, "
    "Drafted throughput: 0.60 tokens/s, Accepted: 3 tokens, Drafted: 6 tokens, "
    "Per-position acceptance rate: 1.000, 0.500, 0.000, Avg Draft acceptance rate: 50.0%"
)
ANSWER = json.dumps({"meta_info": {"spec_verify_ct": 4, "completion_tokens": 9}})
COUNTERS = (
    "vllm:spec_decode_num_drafts_total 2\nvllm:spec_decode_num_draft_tokens_total 6\n"
    "vllm:spec_decode_num_accepted_tokens_total 3"
)
GAUGE = 'sglang:spec_accept_length{model_name="m"} 2.5'
RECORD = json.dumps({"cycle": 1, "request": "a", "k": 3, "accepted": 2})
CONTENTS = {
    "sglang log": (SGLANG, 2.5),
    "vllm log": (VLLM, 2.5),
    "answer": (ANSWER, 2.0),
    "counters": (COUNTERS, 2.5),
    "gauge": (GAUGE, 2.5),
    "record": (RECORD, 3.0),
}


@pytest.mark.parametrize("content", CONTENTS)
def test_content_is_recognised_in_a_file_of_any_name(tmp_path: Path, content: str) -> None:
    text, accept_len = CONTENTS[content]
    path = tmp_path / "x.bin"
    path.write_bytes(gzip.compress(f"\r\n# first\r\n{text}\r\n".encode()))
    assert read_acceptance(path).accept_len == pytest.approx(accept_len)


@pytest.mark.parametrize("first", CONTENTS)
@pytest.mark.parametrize("second", CONTENTS)
def test_two_kinds_in_one_file_are_refused(first: str, second: str) -> None:
    if first == second:
        return
    text = f"started\n{CONTENTS[first][0]}\n{CONTENTS[second][0]}"
    with pytest.raises(InputError, match=r"\(line 2\).*which of them") as caught:
        parse_acceptance(text)
    assert "Name the engine" in str(caught.value)


def test_the_engine_chooses_between_two_servers_in_one_log() -> None:
    text = f"{SGLANG}\n{VLLM.replace('2.50', '1.50').replace('1.000, 0.500', '0.500, 0.000')}"
    text = text.replace("Accepted: 3", "Accepted: 1")
    assert parse_acceptance(text, engine="SGLang").accept_len == 2.5
    assert parse_acceptance(text, engine="vllm").accept_len == 1.5
    with pytest.raises(InputError, match="not known") as caught:
        parse_acceptance(text, engine="llama.cpp")
    assert "sglang or vllm" in str(caught.value)


@pytest.mark.parametrize("key", ["log", "message", "msg"])
def test_lines_that_a_log_collector_wrapped_in_json_are_read(key: str) -> None:
    text = "\n".join(json.dumps({key: f"{line}\n", "stream": "stderr"}) for line in [SGLANG] * 2)
    assert parse_acceptance(text).source == "SGLang log, 2 decode lines"


def test_nothing_found_names_the_first_useless_line_and_what_was_looked_for(
    tmp_path: Path,
) -> None:
    path = tmp_path / "server.log"
    path.write_text(f"hello\n{SGLANG.replace('accept len: 2.50, accept rate: 0.50, ', '')}\n")
    with pytest.raises(InputError) as caught:
        read_acceptance(path)
    assert caught.value.where == str(path)
    text = str(caught.value)
    assert "line 2: [2026-01-02 10:00:00] Decode batch" in text
    assert "Decode batch" in text.splitlines()[-1]
    assert "Was speculation on" in text
    with pytest.raises(InputError, match="line 1: hello"):
        parse_acceptance("hello\nworld")
    with pytest.raises(InputError, match="empty"):
        parse_acceptance(" \n\n")


@pytest.mark.parametrize(
    "text",
    ["2.25", "{", "[{", '{"a": 1', "[" * 100_000, '{"a": ' * 100_000, "\x00\x01SQLite", "[1, 2]"],
    ids=["number", "brace", "list", "cut", "deep list", "deep object", "binary", "numbers"],
)
def test_what_is_no_log_is_an_input_error(text: str) -> None:
    with pytest.raises(InputError, match="no acceptance figure"):
        parse_acceptance(text)


@given(st.lists(st.sampled_from([text for text, _ in CONTENTS.values()]), max_size=4), st.data())
@examples(0.5)
def test_damaged_text_gives_a_reading_or_an_input_error(
    texts: list[str], data: st.DataObject
) -> None:
    text = "\n".join(texts)
    for _ in range(data.draw(st.integers(0, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 8)))
        text = text[:start] + data.draw(st.text(max_size=3)) + text[end:]
    with suppress(InputError):
        reading = parse_acceptance(text)
        assert math.isfinite(reading.accept_len)
        assert reading.source


def test_json_over_several_lines_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceptance_log, "_LARGEST_DOCUMENT", 100)
    text = json.dumps([json.loads(ANSWER)] * 10, indent=2)
    with pytest.raises(InputError, match="longer than"):
        parse_acceptance(text)


def test_a_damaged_gzip_is_read_as_far_as_it_goes_and_said(tmp_path: Path) -> None:
    path = tmp_path / "server.log.gz"
    lines = [SGLANG.replace("#token: 9", f"#token: {at * 7919 % 10007}") for at in range(3000)]
    content = gzip.compress("\n".join(lines).encode())
    path.write_bytes(content[: len(content) // 2])
    reading = read_acceptance(path)
    assert reading.accept_len == pytest.approx(2.5)
    assert any("gzip stream is damaged" in note for note in reading.notes)


def test_a_long_log_is_not_held_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    with path.open("w") as file:
        for _ in range(4_000):
            file.write(f"{'x' * 2000}\n{SGLANG}\n")
    tracemalloc.start()
    try:
        reading = read_acceptance(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert reading.accept_len == pytest.approx(2.5)
    assert peak < path.stat().st_size / 8


# Bare numbers.


@pytest.mark.parametrize(
    ("text", "definition", "draft_tokens", "accept_len"),
    [
        ("2.25", "bonus included", None, 2.25),
        ("0.98", "bonus left out", None, 1.98),
        ("0.98", "Accepted Drafts", None, 1.98),
        ("44.84 %", "acceptance rate", 3, 2.3452),
        ("0.4484", "accepted over drafted", 3, 2.3452),
        ("2.25", "SGLang accept len", None, 2.25),
        ("3.25", "sglang 0.5.3 overlap accept len", None, 2.25),
        ("0.375", "SGLang 0.5.9 accept rate", 5, 2.25),
        ("0.25", "SGLang 0.5.15 accept rate", 5, 2.25),
        ("1.25", "vLLM 0.8.5 mean acceptance length", None, 2.25),
        ("2.25", "vLLM 0.10.2 mean acceptance length", None, 2.25),
        ("2.92", "llama.cpp mean length", None, 2.92),
    ],
)
def test_a_number_in_its_definition(
    text: str, definition: str, draft_tokens: int | None, accept_len: float
) -> None:
    reading = parse_number(text, definition=definition, draft_tokens=draft_tokens)
    assert reading.accept_len == pytest.approx(accept_len)
    assert reading.read_as
    assert definition in reading.source


def test_an_impossible_number_is_read_and_said() -> None:
    low = reading_of_number(0.98, definition="bonus included", draft_tokens=5)
    assert low.accept_len == 0.98
    assert any("below 1" in note for note in low.notes)
    high = reading_of_number(6.5, definition="bonus included", draft_tokens=5)
    assert any("above 6" in note for note in high.notes)


@pytest.mark.parametrize(
    ("text", "definition", "says"),
    [
        ("2,25", "bonus included", "is not a number"),
        ("nan", "bonus included", "is not a number"),
        ("44 %", "bonus included", "is a share"),
        ("0.4", "acceptance rate", "share of drafts"),
        ("2.25", "whatever", "is not known"),
        ("2.25", "SGLang whatever", "whatever"),
        ("2.25", "vLLM per-position acceptance rate", "position"),
    ],
)
def test_a_number_that_cannot_be_read_says_why(text: str, definition: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        parse_number(text, definition=definition)


# The engines' real logs.


def _real_log(name: str) -> Path:
    folder = shared_folder()
    assert folder is not None
    return folder / "engines" / "logs" / name


# Three requests of 40 tokens, counted by hooks: 67 drafts accepted in 50 request-cycles.
SYNCHRONOUS = 1 + 67 / 50


@needs_shared
@pytest.mark.parametrize(("name", "draft_tokens"), [("0.5.3", 3), ("0.5.6", 5), ("0.5.9", 5)])
def test_real_sglang_logs_give_what_hooks_counted(name: str, draft_tokens: int) -> None:
    reading = read_acceptance(_real_log(f"sglang_{name}.log"))
    assert reading.accept_len == pytest.approx(SYNCHRONOUS, abs=0.005)
    assert reading.batch == pytest.approx(50 / 20)
    assert reading.draft_tokens == draft_tokens


@needs_shared
def test_the_real_0_4_9_log_is_a_little_low_as_it_says() -> None:
    reading = read_acceptance(_real_log("sglang_0.4.9.log"))
    # Its first line counts the three prefilled requests: (11 + 3) / (3 + 3) where 11 / 3 is true.
    low = (SYNCHRONOUS * 50 - 11 + 3 * 14 / 6) / 50
    assert reading.accept_len == pytest.approx(low, abs=0.005)
    assert any("a little too low" in note for note in reading.notes)


@needs_shared
def test_the_real_overlap_log_counts_finished_requests_once_more() -> None:
    with _real_log("sglang_0.5.23_overlap.log").open() as file:
        first_run = "".join(islice(file, 24))  # a prefill line and 23 cycles of four requests
    reading = parse_acceptance(first_run, version="0.5.23")
    hooks_saw, requests_own = 199 / 82, 193 / 80
    assert reading.accept_len == pytest.approx(hooks_saw, abs=0.005)
    assert abs(reading.accept_len - requests_own) > 0.005
    assert reading.draft_tokens == 3
    assert any("finished requests are counted once more" in note for note in reading.notes)


@needs_shared
def test_the_real_vllm_log_is_counted_draft_by_draft() -> None:
    reading = read_acceptance(_real_log("vllm_0.32.log"))
    drafted = 87 + 180 + 120 + 192
    assert reading.accept_len == 1.0
    assert (reading.request_cycles, reading.draft_tokens) == (drafted // 3, 3)
    assert reading.survival == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    "text",
    [
        f"version {'9' * 5000}",
        f'{{"k": {"9" * 400}, "accepted": 1}}',
        '{"cycle": 1, "request": "a", "k": 1000000000, "accepted": 1}',
        SGLANG.replace("#running-req: 2", f"#running-req: {'9' * 25}"),
        VLLM.replace("Drafted: 6", f"Drafted: {'9' * 30}"),
        "[2026-01-01 " * 50_000 + SGLANG.replace("accept len: 2.50", ""),
        f"sglang{' ' * 100_000}",
        "Avg generation throughput: " * 50_000,
    ],
    ids=["version", "accepted", "k", "running", "drafted", "stamps", "spaces", "engine"],
)
def test_numbers_and_lines_beyond_reason_are_refused_at_once(text: str) -> None:
    with pytest.raises(InputError):
        parse_acceptance(text)
