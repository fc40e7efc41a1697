"""vLLM's metrics lines, written from drafts whose accepted counts are known."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import examples
from traceanalyzer.errors import InputError
from traceanalyzer.importers.acceptance.log import parse_acceptance
from traceanalyzer.importers.acceptance.vllm_lines import MetricsLine, metrics_lines
from traceanalyzer.speculation.acceptance import AcceptanceCounts


@dataclass(frozen=True)
class Interval:
    """The drafts of a log interval: draft tokens of each, and the accepted drafts of each."""

    k: int
    accepted: tuple[int, ...]
    seconds: float = 10.0

    @property
    def survival(self) -> list[float]:
        reached = [sum(each >= at for each in self.accepted) for at in range(1, self.k + 1)]
        return [each / len(self.accepted) for each in reached]


FORMATS = ("0.8.5", "0.9.0", "0.10.2", "fork")


def _line(format_: str, it: Interval) -> str:
    accepted, drafted = sum(it.accepted), it.k * len(it.accepted)
    mean = accepted / len(it.accepted) + (format_ != "0.8.5")
    rates = ", ".join(f"{each:.3f}" for each in it.survival)
    if format_ in ("0.8.5", "0.9.0"):
        return (
            f"INFO 01-02 10:00:00 [metrics.py:86] SpecDecoding metrics: Draft acceptance rate: "
            f"{accepted / drafted:.1%}, Mean acceptance length: {mean:.2f}, Accepted: {accepted} "
            f"tokens, Drafted: {drafted} tokens, Per-position acceptance rate: {rates}"
        )
    depth = f"Current speculative depth: {it.k}, " if format_ == "fork" else ""
    return (
        f"\x1b[36m(EngineCore_0 pid=7)\x1b[0m INFO 01-02 10:00:00 [metrics.py:100] SpecDecoding "
        f"metrics: Mean acceptance length: {mean:.2f}, {depth}"
        f"Accepted throughput: {accepted / it.seconds:.2f} tokens/s, "
        f"Drafted throughput: {drafted / it.seconds:.2f} tokens/s, Accepted: {accepted} tokens, "
        f"Drafted: {drafted} tokens, Per-position acceptance rate: {rates}, "
        f"Avg Draft acceptance rate: {accepted / drafted:.1%}"
    )


def _intervals(k: int, largest: int = 400) -> st.SearchStrategy[Interval]:
    def drawn(size: int, seed: int) -> Interval:
        rng = random.Random(seed)
        return Interval(k, tuple(rng.randint(0, k) for _ in range(size)))

    return st.builds(drawn, st.integers(1, largest), st.integers(0, 10**6))


_logs = st.integers(1, 8).flatmap(lambda k: st.lists(_intervals(k), min_size=1, max_size=6))


@given(st.sampled_from(FORMATS), _logs)
@examples()
def test_a_log_reads_back_to_the_drafts_it_was_written_from(
    format_: str, intervals: list[Interval]
) -> None:
    reading = parse_acceptance("\n".join(_line(format_, each) for each in intervals))
    drafts = [accepted for each in intervals for accepted in each.accepted]
    k = intervals[0].k
    counts = AcceptanceCounts(Counter((k, accepted) for accepted in drafts))
    assert reading.accept_len == pytest.approx(1 + sum(drafts) / len(drafts))
    assert reading.counts == counts
    assert reading.survival == pytest.approx(counts.survival())
    assert (reading.draft_tokens, reading.request_cycles) == (k, len(drafts))
    assert reading.committed_tokens == sum(drafts) + len(drafts)
    left_out = "+ 1: the bonus token was left out"
    assert reading.conversion == (left_out if format_ == "0.8.5" else "none")
    if format_ in ("0.10.2", "fork") and min(len(each.accepted) for each in intervals) > 20:
        seconds = sum(each.seconds for each in intervals)
        assert reading.tokens_per_s == pytest.approx(reading.committed_tokens / seconds, rel=0.01)


@given(st.sampled_from(FORMATS), _intervals(4), st.data())
@examples(0.5)
def test_a_line_cut_anywhere_gives_its_own_figures_or_none(
    format_: str, it: Interval, data: st.DataObject
) -> None:
    line = _line(format_, it)
    (whole,) = metrics_lines(line)
    assert isinstance(whole, MetricsLine)
    for found in metrics_lines(line[: data.draw(st.integers(0, len(line)))]):
        assert (
            isinstance(found, str)
            or found == whole
            or _drops_a_zero(whole.survival, found.survival)
        )


@pytest.mark.parametrize(
    ("whole", "wrong", "says"),
    [
        ("Accepted: 120 ", "Accepted: 999 ", "more tokens accepted than drafted"),
        ("rate: 0.900", "rate: 0.100", "do not add up to the mean acceptance length"),
        ("Drafted: 300 tokens", "Drafted: 3", "cut or damaged"),
    ],
)
def test_what_does_not_add_up_is_told_with_its_line(whole: str, wrong: str, says: str) -> None:
    line = (
        "SpecDecoding metrics: Mean acceptance length: 2.20, Accepted throughput: 12.00 tokens/s, "
        "Drafted throughput: 30.00 tokens/s, Accepted: 120 tokens, Drafted: 300 tokens, "
        "Per-position acceptance rate: 0.900, 0.200, 0.100, Avg Draft acceptance rate: 40.0%"
    )
    assert whole in line
    bad = line.replace(whole, wrong)
    reading = parse_acceptance("\n".join((line, "INFO", bad, bad)))
    assert reading.request_cycles == parse_acceptance(line).request_cycles
    (note,) = (note for note in reading.notes if "left out" in note and says in note)
    assert note.startswith("2 lines ")
    assert note.endswith("(the first is line 3)")


def _drops_a_zero(whole: tuple[float, ...], cut: tuple[float, ...]) -> bool:
    """Whether a cut line lacks only what nobody can tell.

    That are positions that nothing reached, and positions that add up to one token: a mean without
    the bonus token then reads as one with it.
    """
    missing = sum(whole[len(cut) :])
    return whole[: len(cut)] == cut and (missing < 0.01 or abs(missing - 1) < 0.01)


def test_many_drafts_give_survival_but_no_counts() -> None:
    rng = random.Random(3)
    it = Interval(3, tuple(rng.randint(0, 3) for _ in range(30_000)))
    reading = parse_acceptance(_line("0.10.2", it))
    assert reading.counts is None
    assert reading.accept_len == pytest.approx(1 + sum(it.accepted) / len(it.accepted))
    assert reading.survival == pytest.approx(it.survival, abs=0.0005)


def test_shorter_drafts_are_counted_by_what_they_accepted() -> None:
    # 100 drafts, of which 90 had 3 tokens and 10 had 1; 150 accepted: 80, 50, 20 by position.
    line = (
        "SpecDecoding metrics: Mean acceptance length: 2.50, Accepted throughput: 15.00 tokens/s, "
        "Drafted throughput: 28.00 tokens/s, Accepted: 150 tokens, Drafted: 280 tokens, "
        "Per-position acceptance rate: 0.800, 0.500, 0.200, Avg Draft acceptance rate: 53.6%"
    )
    reading = parse_acceptance(line)
    assert (reading.accept_len, reading.request_cycles) == (2.5, 100)
    assert reading.counts is None
    assert any("drafts were shorter or rounded" in note for note in reading.notes)


def test_an_older_order_of_fields_does_not_tell_the_convention() -> None:
    # 0.8.5's order of fields, with a mean that includes the bonus: 129 drafts, 150 accepted.
    line = (
        "SpecDecoding metrics: Draft acceptance rate: 38.8%, Mean acceptance length: 2.16, "
        "Accepted: 150 tokens, Drafted: 387 tokens, Per-position acceptance rate: 0.543, 0.357, "
        "0.264"
    )
    reading = parse_acceptance(line, version="0.8.5")
    assert reading.accept_len == pytest.approx(1 + 150 / 129)
    assert reading.conversion == "none"
    assert any("contradict the version, 0.8.5" in note for note in reading.notes)


def test_the_first_format_without_mean_needs_the_draft_tokens() -> None:
    line = (
        "SpecDecoding metrics: Draft acceptance rate: 50.0%, Accepted: 6 tokens, Drafted: 12 tokens"
    )
    with pytest.raises(InputError, match="how many tokens a draft has"):
        parse_acceptance(line)
    assert parse_acceptance(line, draft_tokens=3).accept_len == pytest.approx(1 + 6 / 4)


IDLE = (
    "SpecDecoding metrics: Mean acceptance length: nan, Accepted throughput: 0.00 tokens/s, "
    "Drafted throughput: 0.00 tokens/s, Accepted: 0 tokens, Drafted: 0 tokens, "
    "Per-position acceptance rate: nan, nan, nan, Avg Draft acceptance rate: nan%"
)


def test_lines_without_drafts_are_left_out_and_said() -> None:
    it = Interval(3, (3, 0, 1))
    reading = parse_acceptance(f"{IDLE}\n{_line('0.10.2', it)}\n{IDLE}")
    assert reading.request_cycles == 3
    assert "2 lines without drafts left out" in reading.notes
    with pytest.raises(InputError, match="line 1"):
        parse_acceptance(IDLE)


def test_running_requests_and_version_come_from_the_lines_around() -> None:
    def engine(running: int) -> str:
        return (
            "Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 50.0 "
            f"tokens/s, Running: {running} reqs, Waiting: 0 reqs, GPU KV cache usage: 1.0%"
        )

    text = [
        "vLLM API server version 0.10.2",
        engine(4),
        _line("0.10.2", Interval(2, (1, 2, 0))),
        engine(2),
        _line("0.10.2", Interval(2, (1,))),
        engine(0),
        _line("0.10.2", Interval(2, (2,))),
    ]
    reading = parse_acceptance("\n".join(text))
    assert reading.source == "vLLM 0.10.2 log, 3 metrics lines, 5 drafts"
    assert reading.batch == pytest.approx((4 * 3 + 2 * 1) / 4)


@pytest.mark.parametrize(
    ("lines", "draft_tokens", "says"),
    [
        ([("0.10.2", Interval(2, (1, 2))), ("0.10.2", Interval(3, (1, 2)))], None, "3 positions"),
        ([("0.8.5", Interval(2, (1, 2))), ("0.9.0", Interval(2, (1, 2)))], None, "two vLLM"),
        ([("0.10.2", Interval(2, (1, 2)))], 5, "5 draft tokens were given"),
    ],
)
def test_lines_that_do_not_go_together_are_refused(
    lines: list[tuple[str, Interval]], draft_tokens: int | None, says: str
) -> None:
    with pytest.raises(InputError, match=says):
        parse_acceptance("\n".join(_line(*each) for each in lines), draft_tokens=draft_tokens)
