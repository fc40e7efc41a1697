"""SGLang's decode lines in the formats of all versions; the figures in them are invented."""

from __future__ import annotations

import random
from dataclasses import dataclass
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import examples
from traceanalyzer.errors import InputError
from traceanalyzer.importers.acceptance.lines import CUT
from traceanalyzer.importers.acceptance.log import parse_acceptance
from traceanalyzer.importers.acceptance.sglang import (
    NO_LENGTH,
    SILENT,
    DecodeLine,
    decode_lines,
)
from traceanalyzer.importers.acceptance.sglang_server import draft_tokens_fitting, release_of


@dataclass(frozen=True)
class Written:
    """What a line is written from."""

    running: int = 3
    accept_len: float = 2.25
    accept_rate: float = 0.42
    throughput: float = 80.5
    graph: str = "cuda graph"
    ranks: str = ""
    token_part: str = "#token: 1,234, token usage: 0.02"
    clock: str = "10:00:00"


def _line(version: str, it: Written, *, iteration: int | None = None) -> str:
    """A decode line as `version` writes it."""
    stamp = f"[2026-01-02 {it.clock}{it.ranks}] "
    start = f"#running-req: {it.running}, {it.token_part}, accept len: {it.accept_len:.2f}, "
    rate = f"accept rate: {it.accept_rate:.2f}, "
    graph = f"{it.graph}: True, gen throughput (token/s): {it.throughput:.2f}, #queue-req: 0"
    if version in ("0.4.6", "0.4.9"):
        return f"{stamp}Decode batch. {start}{graph}, "
    if version == "0.4.6 disaggregated":
        return f"{stamp}Decode batch. {start}pre-allocated usage: 0.10, {graph}, "
    if version == "0.5.3":
        return f"{stamp}Decode batch. {start}{rate}{graph}, "
    turn = f" [{iteration}]" if iteration is not None else ""
    capped = "cap len: 3.40, block accept len: 9.99, " if version == "0.5.23 capped" else ""
    disaggregated = "pre-allocated usage: 0.73, #prealloc-req: 2, #transfer-req: 1, "
    extra = disaggregated if version == "0.5.9 disaggregated" else ""
    tail = ", est. decode TFLOPS/s (per GPU): 1.50" if version == "0.5.23 capped" else ""
    return f"{stamp}Decode batch{turn}, {start}{rate}{capped}{extra}{graph}{tail}"


VERSIONS = (
    "0.4.6",
    "0.4.6 disaggregated",
    "0.4.9",
    "0.5.3",
    "0.5.6",
    "0.5.9",
    "0.5.9 disaggregated",
    "0.5.12",
    "0.5.15",
    "0.5.23",
    "0.5.23 capped",
)
_TOKEN_PARTS = (
    "#token: 1234, token usage: 0.02",
    "#full token: 90, full token usage: 0.10, #swa token: 45, swa token usage: 0.30",
    "#full token: 90, full token usage: 0.10, mamba num: 4, mamba usage: 0.30",
    "#token: 12,345, token usage: 0.02",
)
_written = st.builds(
    Written,
    running=st.integers(0, 5000),
    accept_len=st.floats(0, 40).map(lambda x: round(x, 2)),
    accept_rate=st.floats(0, 1).map(lambda x: round(x, 2)),
    throughput=st.floats(0, 1e6).map(lambda x: round(x, 2)),
    graph=st.sampled_from(("cuda graph", "cpu graph", "npu graph")),
    ranks=st.sampled_from(("", " TP0", " DP0 TP0", " DP3 TP12 EP1", " PP0 TP0")),
    token_part=st.sampled_from(_TOKEN_PARTS),
)


@given(st.sampled_from(VERSIONS), _written, st.sampled_from((None, 7, 12345)))
@examples()
def test_a_line_of_any_version_reads_back(version: str, it: Written, iteration: int | None) -> None:
    (found,) = decode_lines(_line(version, it, iteration=iteration))
    older = version.startswith(("0.4", "0.5.3"))
    rate = None if version.startswith("0.4") else it.accept_rate
    stop = "." if older else ","
    assert found == DecodeLine(stop, it.running, it.accept_len, rate, it.throughput)


@given(st.sampled_from(VERSIONS), _written, st.data())
@examples(0.5)
def test_a_line_cut_anywhere_never_gives_another_accept_len(
    version: str, it: Written, data: st.DataObject
) -> None:
    line = _line(version, it)
    cut = line[: data.draw(st.integers(0, len(line)))]
    for found in decode_lines(cut):
        assert found == CUT or (
            isinstance(found, DecodeLine)
            and (found.running, found.accept_len) == (it.running, it.accept_len)
        )


def test_two_lines_joined_by_another_process_are_both_read() -> None:
    text = _line("0.5.9", Written(running=1)) + _line("0.5.9", Written(running=2))
    assert [_running(found) for found in decode_lines(text)] == [1, 2]
    cut = _line("0.5.9", Written(running=1))[:60] + _line("0.5.9", Written(running=2))
    assert [_running(found) for found in decode_lines(cut)] == [CUT, 2]


def _running(found: DecodeLine | str) -> int | str:
    return found if isinstance(found, str) else found.running


def test_a_block_accept_len_alone_is_none() -> None:
    line = _line("0.5.23 capped", Written()).replace("accept len: 2.25, ", "", 1)
    assert "block accept len: 9.99" in line
    assert list(decode_lines(line)) == [SILENT]


@pytest.mark.parametrize("wrong", ["nan", "inf", "2,25", "-1.00", "2.2.5"])
def test_damaged_numbers_are_no_figure(wrong: str) -> None:
    line = _line("0.5.9", Written()).replace("accept len: 2.25", f"accept len: {wrong}")
    assert list(decode_lines(line)) == [NO_LENGTH]


@pytest.mark.parametrize(
    ("whole", "wrong", "says"),
    [
        ("accept len: 2.25, accept rate: 0.42, ", "", SILENT),
        ("accept len: 2.25", "accept len: nan", NO_LENGTH),
        ("#running-req: 3", "#running-req: x", CUT),
    ],
)
def test_what_is_left_out_is_told_with_its_line(whole: str, wrong: str, says: str) -> None:
    line = _line("0.5.9", Written())
    assert whole in line
    bad = line.replace(whole, wrong)
    reading = parse_acceptance("\n".join((line, "INFO", bad, bad)))
    assert f"2 decode lines {says}: left out (the first is line 3)" in reading.notes
    assert reading.accept_len == parse_acceptance(line).accept_len


def _log(version: str, lines: list[Written]) -> str:
    return "\n".join(_line(version, line) for line in lines)


@given(st.sampled_from(VERSIONS[3:]), st.lists(_written, min_size=1, max_size=30))
@examples(0.3)
def test_the_mean_is_weighted_by_running_requests(version: str, lines: list[Written]) -> None:
    lines = [Written(line.running + 1, line.accept_len, throughput=9.0) for line in lines]
    reading = parse_acceptance(_log(version, lines), version="0.5.9")
    tokens = sum(line.running * line.accept_len for line in lines)
    assert reading.accept_len == pytest.approx(tokens / sum(line.running for line in lines))
    assert reading.batch == pytest.approx(fmean(line.running for line in lines))
    assert any("weighted by the requests" in note for note in reading.notes)


def test_throughput_is_tokens_over_time() -> None:
    # 2 tokens a cycle at 20 and at 40 tokens a second: 4 tokens in 0.1 + 0.05 s.
    lines = [Written(1, 2.0, 0.33, 20.0), Written(1, 2.0, 0.33, 40.0)]
    assert parse_acceptance(_log("0.5.9", lines)).tokens_per_s == pytest.approx(4 / 0.15)


def test_a_line_behind_a_start_counts_but_its_throughput_does_not() -> None:
    prefill = "[2026-01-02 10:00:00] Prefill batch, #new-seq: 1, #running-req: 0, #queue-req: 0"
    slow, usual = Written(2, 3.0, throughput=1.0), Written(2, 2.0, throughput=100.0)
    lines = [_line("0.5.9", each) for each in (slow, usual, usual)]
    text = "\n".join([*lines, prefill, lines[0], lines[1]])
    reading = parse_acceptance(text)
    assert reading.accept_len == pytest.approx((3 + 2 + 2 + 3 + 2) / 5)
    assert reading.tokens_per_s == pytest.approx(100.0)
    assert any(note.startswith("2 lines behind a start or a pause") for note in reading.notes)


def _rates(version: str, k: int, seed: int) -> list[Written]:
    """Lines of chains with k drafts, with the rate that the version prints beside the length."""
    rng = random.Random(seed)
    lines = []
    for _ in range(40):
        cycles = rng.randint(20, 60)
        accept_len = 1 + rng.randint(0, k * cycles) / cycles
        rate = (accept_len - 1) / k if version == "0.5.12" else accept_len / (k + 1)
        lines.append(Written(1, accept_len, rate))
    return lines


@pytest.mark.parametrize("version", ["0.5.3", "0.5.9", "0.5.12"])
@pytest.mark.parametrize("k", [1, 3, 5, 15])
def test_draft_tokens_are_told_by_the_rate_beside_the_length(version: str, k: int) -> None:
    reading = parse_acceptance(_log(version, _rates(version, k, seed=k)))
    assert reading.draft_tokens == k


def test_rates_that_no_length_explains_tell_nothing() -> None:
    lines = [Written(1, 2.0, 0.5), Written(1, 2.0, 0.9)]
    assert parse_acceptance(_log("0.5.9", lines)).draft_tokens is None
    assert draft_tokens_fitting(2.0, 0.9, draft_tokens_fitting(2.0, 0.5, None)) == frozenset()


SETTINGS = (
    "[2026-01-02 10:00:00] server_args=ServerArgs(model_path='m', decode_log_interval=40, "
    "speculative_num_steps=3, speculative_eagle_topk=1, speculative_num_draft_tokens=4)"
)


def test_settings_of_the_server_are_used() -> None:
    lines = _log("0.5.9", [Written(3), Written(2)])
    reading = parse_acceptance(f"pulled lmsysorg/sglang:v0.5.9-cu129\n{SETTINGS}\n{lines}")
    assert reading.source == "SGLang 0.5.9 log, 2 decode lines"
    assert reading.draft_tokens == 3
    assert reading.request_cycles == 40 * 5
    assert any("about right" in note for note in reading.notes)


def test_what_the_caller_knows_comes_first() -> None:
    text = f"{SETTINGS}\nsglang==0.5.9\nsglang==0.5.10\n{_log('0.5.9', [Written()])}"
    reading = parse_acceptance(text, version="0.5.10", draft_tokens=7)
    assert reading.draft_tokens == 7
    assert reading.source.startswith("SGLang 0.5.10 log")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"{SETTINGS}\n{SETTINGS.replace('steps=3', 'steps=5')}", "speculative_num_steps 5"),
        ("sglang==0.5.9\nsglang version: 0.5.10", "version"),
        (_log("0.5.3", [Written()]) + "\n" + _log("0.5.9", [Written()]), "two SGLang versions"),
        (_log("0.4.9", [Written()]) + "\n" + _log("0.5.3", [Written()]), "two SGLang versions"),
        (
            f"a-1  | {_log('0.5.9', [Written()])}\nb-1  | {_log('0.5.9', [Written()])}",
            "container b-1",
        ),
    ],
)
def test_a_log_of_several_servers_is_refused(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        parse_acceptance(text)
    assert caught.value.next_step


def test_data_parallel_groups_are_pooled_and_other_ranks_left_out() -> None:
    lines = [
        Written(1, 3.0, ranks=" DP0 TP0"),
        Written(1, 3.0, ranks=" DP0 TP1"),
        Written(3, 2.0, ranks=" DP1 TP2"),
    ]
    reading = parse_acceptance(_log("0.5.9", lines))
    assert reading.accept_len == pytest.approx((3 + 3 * 2) / 4)
    assert any("2 data-parallel groups" in note for note in reading.notes)
    assert "1 decode line repeated by another rank: left out" in reading.notes


@pytest.mark.parametrize("kind", ["version", "setting", "above k + 1"])
def test_the_bonus_that_overlap_counts_twice_in_0_5_3_is_taken_off(kind: str) -> None:
    lines = [Written(2, 3.5, 0.88), Written(2, 2.5 if kind != "above k + 1" else 5.0, 0.62)]
    text = _log("0.5.3", lines)
    if kind == "setting":
        text = f"server_args=ServerArgs(enable_beta_spec=True)\n{text}"
    version = "0.5.3 overlap" if kind == "version" else None
    reading = parse_acceptance(text, version=version, draft_tokens=3)
    printed = fmean(line.accept_len for line in lines)
    assert reading.accept_len == pytest.approx(printed - 1)
    assert reading.conversion == "- 1: the bonus token was counted twice"


def test_a_line_below_two_shows_that_the_bonus_is_counted_once() -> None:
    lines = [Written(2, 3.5), Written(2, 1.5)]
    reading = parse_acceptance(_log("0.5.3", lines), version="0.5.3 overlap")
    assert reading.accept_len == pytest.approx(2.5)
    assert reading.conversion == "none"


def test_0_5_3_without_evidence_says_what_it_would_be_under_overlap() -> None:
    reading = parse_acceptance(_log("0.5.3", [Written(2, 2.5)]), draft_tokens=3)
    assert reading.accept_len == 2.5
    assert any("overlap" in note and "twice" in note for note in reading.notes)


def test_prefills_in_the_mean_of_0_4_9_are_said() -> None:
    reading = parse_acceptance(_log("0.4.9", [Written()]))
    assert any("prefill" in note for note in reading.notes)


def test_flush_lines_are_read_where_there_is_nothing_else() -> None:
    text = "x avg_spec_accept_length=2.5\ny avg_spec_accept_length=2.75"
    reading = parse_acceptance(text, version="0.5.9", draft_tokens=3)
    assert reading.accept_len == 2.75
    assert reading.source == "SGLang 0.5.9 log, 2 flush lines"
    both = parse_acceptance(f"{text}\n{_log('0.5.9', [Written()])}")
    assert both.accept_len == 2.25
    assert any("avg_spec_accept_length, is 2.750" in note for note in both.notes)


def test_an_impossible_mean_is_read_and_said() -> None:
    reading = parse_acceptance(_log("0.5.9", [Written(1, 0.98)]))
    assert reading.accept_len == 0.98
    assert any("below 1" in note for note in reading.notes)


def test_no_running_request_is_an_error() -> None:
    with pytest.raises(InputError, match="no request was running"):
        parse_acceptance(_log("0.5.9", [Written(0)]))


def test_releases() -> None:
    assert release_of("v0.5.9.post1") == (0, 5, 9)
    assert release_of("0.32") == (0, 32, 0)
    assert release_of("main") is None
