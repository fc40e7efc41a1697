"""The verdict on hand-made reports, against figures worked out apart from it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.strategies import examples
from tests.verdict.made import (
    MS,
    SEED_COUNTS,
    acceptance,
    around,
    decode_bucket,
    phase,
    rank,
    report,
    seed_bucket,
    verify_bucket,
)
from traceanalyzer.renderers.verdict_text import headline, with_interval
from traceanalyzer.report import BucketReport, Check, Estimated, Report, Verdict
from traceanalyzer.speculation.acceptance import AcceptanceCounts, AcceptanceReading
from traceanalyzer.speculation.confidence import Estimate
from traceanalyzer.verdict.baseline import measured_baseline, told_baseline
from traceanalyzer.verdict.estimates import estimated
from traceanalyzer.verdict.judgement import judged
from traceanalyzer.verdict.known import Known

AT_11_1 = Known(baseline=told_baseline(["11.1"]))


def verdict_of(found: Report, known: Known = AT_11_1) -> Verdict:
    verdict = judged(found, known).verdict
    assert verdict is not None
    return verdict


def reading(accept_len: float, **more: object) -> AcceptanceReading:
    return AcceptanceReading(
        source="a log", read_as="accept len", conversion="none", accept_len=accept_len, **more
    )


def test_the_worked_case() -> None:
    verdict = verdict_of(report(seed_bucket()))
    (bucket,) = verdict.buckets
    assert verdict.outcome == bucket.outcome == "losing"
    assert bucket.accept_len
    assert bucket.accept_len.value == SEED_COUNTS.accept_len
    assert bucket.break_even_accept_len
    assert bucket.break_even_accept_len.value == pytest.approx(31.744 / 11.1)
    assert bucket.speedup
    assert bucket.speedup.value == pytest.approx(bucket.accept_len.value * 11.1 / 31.744)
    assert bucket.target_ns_per_verified_token == pytest.approx(28.447 * MS / 6)
    assert bucket.target_to_decode == pytest.approx(28.447 / 11.1)
    assert bucket.baseline_tokens_per_s
    assert bucket.baseline_tokens_per_s.value == pytest.approx(1000 / 11.1)
    assert bucket.wasted_share == pytest.approx(1 - bucket.accept_len.value / 6)
    assert bucket.free_drafting_speedup == pytest.approx(bucket.accept_len.value * 11.1 / 28.447)
    assert bucket.perfect_acceptance_speedup == pytest.approx(6 * 11.1 / 31.744)
    assert verdict.actions[0].action.startswith("Switch speculation off")
    assert verdict.next_measurement
    assert "k = 1" in verdict.next_measurement


@pytest.mark.parametrize("requests", [None, 1, 2])
def test_a_verdict_on_one_request_speaks_for_no_other(requests: int | None) -> None:
    own = replace(seed_bucket(), acceptance=replace(acceptance(SEED_COUNTS), requests=requests))
    verdict = verdict_of(report(own))
    assert verdict.buckets[0].accept_len_requests == requests
    of_one = requests == 1
    assert ("losing on the one request recorded: " in headline(verdict)[0]) == of_one
    assert any("record several for a verdict" in text for text in verdict.caveats) == of_one


def test_nothing_is_said_of_a_capture_that_does_not_speculate() -> None:
    plain = report(decode_bucket(11.1))
    assert judged(plain, AT_11_1) == plain


@given(
    st.floats(0.5, 50), st.floats(0.5, 50), st.floats(0.1, 5), st.integers(1, 8), st.floats(0, 0.3)
)
@examples(0.3)
def test_the_outcome_is_what_the_interval_says(
    verify_ms: float, decode_ms: float, draft_ms: float, batch: int, doubt: float
) -> None:
    assume(verify_ms >= 0.7 * decode_ms)  # a step dearer than verify is refused
    period = verify_ms + draft_ms
    counts = AcceptanceCounts.from_histogram(2, [10 * batch, 5 * batch, 5 * batch])
    bucket = verify_bucket(
        [phase("draft", draft_ms, period), phase("verify", verify_ms, period)],
        counts,
        batch=batch,
        n=3,
        mean_period_ns=around(period * MS, doubt),
    )
    verdict = verdict_of(report(bucket), Known(baseline=told_baseline([f"{batch}={decode_ms}"])))
    (found,) = verdict.buckets
    assert found.speedup is not None
    low = found.speedup.low if found.speedup.low is not None else found.speedup.value
    high = found.speedup.high if found.speedup.high is not None else found.speedup.value
    wanted = "winning" if low > 1 else "losing" if high < 1 else "undecided"
    assert verdict.outcome == wanted
    assert found.speedup.value == pytest.approx(1.75 * decode_ms / period)
    # At the break-even of each axis the speed-up is 1.
    assert found.break_even_accept_len
    assert found.break_even_accept_len.value * decode_ms / period == pytest.approx(1)
    assert found.break_even_period_ns is not None
    assert 1.75 * decode_ms * MS / found.break_even_period_ns == pytest.approx(1)
    if found.break_even_verify_ns is not None:
        assert 1.75 * decode_ms * MS / (found.break_even_verify_ns + draft_ms * MS) == (
            pytest.approx(1)
        )


def two_batches(first_ms: float, second_ms: float, shares: tuple[int, int]) -> Report:
    """Batches 1 and 8; `shares` are their cycles."""
    buckets = []
    for batch, ms, cycles in ((1, first_ms, shares[0]), (8, second_ms, shares[1])):
        counts = AcceptanceCounts.from_histogram(1, [cycles * batch // 2, cycles * batch // 2])
        buckets.append(verify_bucket([phase("verify", ms, ms)], counts, batch=batch, n=2))
    total = sum(each.cycles * each.mean_period_ns.value for each in buckets)
    return report(
        *(
            replace(each, time_share=each.cycles * each.mean_period_ns.value / total)
            for each in buckets
        )
    )


def test_every_bucket_wins_though_the_naive_mean_loses() -> None:
    """Tokens per second fall against the baseline's only because the load is at batch 1."""
    found = two_batches(14.0, 29.0, (900, 10))
    known = Known(baseline=told_baseline(["1=10", "8=20"]))
    verdict = verdict_of(found, known)
    assert [each.outcome for each in verdict.buckets] == ["winning", "winning"]
    assert verdict.mixed
    assert verdict.mixed.speedup
    assert verdict.mixed.speedup.value > 1
    tokens = 900 * 1.5 + 10 * 8 * 1.5
    naive = tokens / (900 * 14.0 + 10 * 29.0)  # tokens a ms
    plain_at_equal_mix = (1 + 8) / (10 + 20)
    assert naive < plain_at_equal_mix


def test_every_bucket_loses_though_the_naive_mean_wins() -> None:
    found = two_batches(16.0, 31.0, (10, 900))
    verdict = verdict_of(found, Known(baseline=told_baseline(["1=10", "8=20"])))
    assert [each.outcome for each in verdict.buckets] == ["losing", "losing"]
    assert verdict.mixed
    assert verdict.mixed.speedup
    assert verdict.mixed.speedup.value < 1
    tokens = 10 * 1.5 + 900 * 8 * 1.5
    naive = tokens / (10 * 16.0 + 900 * 31.0)
    assert naive > (1 + 8) / (10 + 20)


def test_some_batches_win_and_others_lose() -> None:
    verdict = verdict_of(
        two_batches(14.0, 31.0, (10, 10)), Known(baseline=told_baseline(["1=10", "8=20"]))
    )
    assert verdict.outcome == "mixed"


def test_below_four_fifths_with_a_baseline_no_common_speedup_is_given() -> None:
    verdict = verdict_of(two_batches(14.0, 29.0, (10, 10)), Known(baseline=told_baseline(["1=10"])))
    assert verdict.mixed
    assert verdict.mixed.speedup is None
    assert verdict.mixed.matched_share == pytest.approx(14 / 43)
    assert any("baseline at batch 8" in text for text in verdict.missing)


def test_without_acceptance_the_screen_says_what_is_missing() -> None:
    verdict = verdict_of(report(seed_bucket(None)))
    assert verdict.outcome == "unknown"
    assert verdict.buckets[0].speedup is None
    assert verdict.buckets[0].break_even_accept_len is not None  # that much can be said
    assert any(text.startswith("acceptance:") for text in verdict.missing)


def test_without_a_baseline_it_asks_for_one() -> None:
    verdict = verdict_of(report(seed_bucket()), Known())
    assert verdict.outcome == "unknown"
    assert verdict.buckets[0].tokens_per_s is not None
    assert any("a baseline at batch 1" in text for text in verdict.missing)
    assert verdict.next_measurement
    assert "baseline" in verdict.next_measurement


def test_a_reading_stands_in_for_marks_where_only_one_shape_can_be_meant() -> None:
    known = replace(AT_11_1, readings=(reading(2.25),))
    verdict = verdict_of(report(seed_bucket(None)), known)
    assert (
        verdict.buckets[0].accept_len == around(2.25) or verdict.buckets[0].accept_len.value == 2.25
    )
    assert any("without an interval" in text for text in verdict.caveats)
    two = report(seed_bucket(None, share=0.5), seed_bucket(None, batch=8, share=0.5))
    assert verdict_of(two, known).buckets[0].accept_len is None


def test_plain_steps_of_a_speculating_server_are_shown_and_are_no_baseline() -> None:
    verdict = verdict_of(report(seed_bucket(), decode_bucket(12.0)), Known())
    assert verdict.buckets[0].baseline_ns is None
    assert any("k = 0" in text for text in verdict.caveats)


def test_a_failed_check_withholds_the_verdict_and_comes_first() -> None:
    found = report(seed_bucket())
    found = replace(
        found,
        trust=[Check("coverage", "ok", "fine"), Check("instrumentation", "failed", "timers")],
    )
    judgement = judged(found, AT_11_1)
    assert judgement.verdict
    assert judgement.verdict.outcome == "withheld"
    assert judgement.verdict.withheld_because == ["timers"]
    assert [check.check for check in judgement.trust] == ["instrumentation", "coverage"]
    assert judgement.verdict.actions[0].action == "Do not act on this capture yet"


@pytest.mark.parametrize(
    ("ours", "theirs", "fails"), [(6, 0, True), (0, 6, True), (6, 6, False), (0, 0, False)]
)
def test_a_synchronised_capture_is_not_compared_with_another(
    ours: float, theirs: float, fails: bool
) -> None:
    known = Known(baseline=measured_baseline(report(decode_bucket(11.1), syncs=theirs)))
    judgement = judged(report(seed_bucket(), syncs=ours), known)
    assert any(check.check == "baseline" for check in judgement.trust) == (ours != theirs)


def test_an_accept_len_of_0_98_is_called_bonus_exclusive_and_explained() -> None:
    found = replace(report(seed_bucket()), acceptance=None)
    known = replace(AT_11_1, readings=(reading(0.98),))
    judgement = judged(found, known)
    (check,) = (check for check in judgement.trust if check.check == "acceptance")
    assert check.status == "failed"
    assert "leaves the bonus token out" in check.text
    assert judgement.verdict
    assert judgement.verdict.outcome == "withheld"
    assert any("Cycles counted with nothing accepted" in text for text in judgement.verdict.caveats)


def test_throughput_that_implies_another_length_fails() -> None:
    assert SEED_COUNTS.accept_len is not None
    right = SEED_COUNTS.accept_len / 31.744 * 1000
    for factor, fails in ((1.0, False), (1.04, False), (1.2, True), (0.8, True)):
        counted = (reading(SEED_COUNTS.accept_len),)
        known = replace(AT_11_1, tokens_per_s=right * factor, readings=counted)
        checks = judged(report(seed_bucket()), known).trust
        assert any(check.status == "failed" for check in checks) == fails


def test_growth_lines_up_kernel_classes_and_idle_time() -> None:
    plain = decode_bucket(11.0, classes={"attention": 2.0, "MoE GEMM": 8.0})
    period, target = 30.0, {"attention": 15.0, "MoE GEMM": 10.0, "norm": 1.0}
    bucket = verify_bucket(
        [
            phase("draft", 2.0, period, classes={"all-reduce": 0.5, "dense GEMM": 1.0}),
            phase("verify", 28.0, period, classes=target),
        ],
        SEED_COUNTS,
    )
    known = Known(baseline=measured_baseline(report(plain)))
    (found,) = verdict_of(report(bucket), known).buckets
    rows = {row.name: (row.decode_ns / MS, row.verify_ns / MS) for row in found.growth}
    assert rows == {
        "attention": (2.0, 15.0),
        "MoE GEMM": (8.0, 10.0),
        "norm": (0.0, 1.0),
        "idle": (pytest.approx(1.0), pytest.approx(2.0)),
    }
    assert found.growth[0].name == "attention"
    assert found.draft_collective_ns == 0.5 * MS


def test_plain_steps_in_between_count_for_the_whole() -> None:
    """Verify cycles win, but every second cycle is a plain step three times a plain server's."""
    counts = AcceptanceCounts.from_histogram(1, [10, 90])
    verify = verify_bucket([phase("verify", 3.0, 3.0)], counts, n=2, share=0.3)
    steps = replace(decode_bucket(6.0), time_share=0.7)
    known = Known(baseline=told_baseline(["1=2"]), not_decoding_share=0.1)
    verdict = verdict_of(report(steps, verify), known)
    assert verdict.buckets[0].outcome == "winning"
    assert verdict.outcome == "losing"
    together = (190 * 2.0 + 100 * 2.0) / (100 * 3.0 + 100 * 6.0)
    assert verdict.mixed
    assert verdict.mixed.speedup
    assert verdict.mixed.speedup.value == pytest.approx(together)
    assert verdict.service_speedup == pytest.approx(1 / (0.1 + 0.9 / together))


def test_a_batch_of_a_tenth_of_the_time_does_not_speak_for_the_whole() -> None:
    verdict = verdict_of(two_batches(9.0, 29.0, (10, 10)), Known(baseline=told_baseline(["1=10"])))
    assert verdict.buckets[0].outcome == "winning" or verdict.buckets[1].outcome == "winning"
    assert verdict.outcome == "unknown"


def test_ranks_of_several_groups_weigh_as_much_as_they_ran() -> None:
    """Batch 4 on two data-parallel ranks and batch 8 on one of them."""
    four = AcceptanceCounts.from_histogram(1, [100 * 4, 100 * 4])
    eight = AcceptanceCounts.from_histogram(1, [50 * 8, 50 * 8])
    buckets = [
        verify_bucket([phase("verify", 3.0, 3.0)], four, batch=4, n=2, ranks=2, cycles=200),
        verify_bucket([phase("verify", 4.0, 4.0)], eight, batch=8, n=2, ranks=1, cycles=100),
    ]
    verdict = verdict_of(report(*buckets), Known(baseline=told_baseline(["4=2", "8=9"])))
    assert verdict.mixed
    assert verdict.mixed.speedup
    by_hand = (200 * 1.5 * 2 + 100 * 1.5 * 9) / (200 * 3.0 + 100 * 4.0)
    assert verdict.mixed.speedup.value == pytest.approx(by_hand)


def test_an_accept_len_beyond_k_fails_also_without_marks() -> None:
    known = replace(AT_11_1, readings=(reading(9.0),))
    verdict = verdict_of(report(seed_bucket(None)), known)
    assert verdict.outcome == "withheld"


def test_one_cycle_decides_nothing() -> None:
    bucket = seed_bucket(mean_period_ns=Estimated(5 * MS))
    assert verdict_of(report(bucket)).outcome == "undecided"


def test_unknown_batches_that_replay_different_graphs_share_no_baseline() -> None:
    def graph(name: str) -> BucketReport:
        bucket = seed_bucket(None, batch=None, share=0.5)
        return replace(bucket, shape=replace(bucket.shape, graph=name))

    known = replace(AT_11_1, readings=(reading(2.25),))
    verdict = verdict_of(report(graph("graph 1"), graph("graph 2")), known)
    assert [each.baseline_ns for each in verdict.buckets] == [None, None]
    assert [each.accept_len for each in verdict.buckets] == [None, None]


def test_counts_that_differ_within_what_few_cycles_can_tell_are_no_contradiction() -> None:
    doubted = replace(seed_bucket(), acceptance=acceptance(SEED_COUNTS, doubt=0.1))
    assert SEED_COUNTS.accept_len is not None
    served = 1.08 * SEED_COUNTS.accept_len / 31.744 * 1000
    judgement = judged(report(doubted), replace(AT_11_1, tokens_per_s=served))
    (check,) = (each for each in judgement.trust if each.check == "acceptance")
    assert check.status == "ok"
    assert "few cycles" in check.text


def test_throughput_says_nothing_where_the_batch_is_unknown() -> None:
    known = replace(AT_11_1, readings=(reading(2.25),), tokens_per_s=3900.0)
    judgement = judged(report(seed_bucket(None, batch=None)), known)
    assert not any(check.check == "acceptance" for check in judgement.trust)


def test_tokens_per_second_and_speedup_tell_the_same() -> None:
    """Also where stale requests fill a part of each batch."""
    found = replace(
        acceptance(SEED_COUNTS, batch=8), request_cycles=SEED_COUNTS.request_cycles // 2
    )
    bucket = replace(seed_bucket(batch=8), acceptance=found)
    (verdict,) = verdict_of(report(bucket), Known(baseline=told_baseline(["8=20"]))).buckets
    assert verdict.tokens_per_s
    assert verdict.baseline_tokens_per_s
    assert verdict.speedup
    ratio = verdict.tokens_per_s.value / verdict.baseline_tokens_per_s.value
    assert ratio == pytest.approx(verdict.speedup.value)


@pytest.mark.parametrize("trouble", ["another GPU", "failed check", "host"])
def test_a_baseline_of_another_kind_is_refused(trouble: str) -> None:
    plain = report(decode_bucket(11.1), path="plain.sqlite")
    if trouble == "host":
        plain = replace(plain, capture=replace(plain.capture, time_base="host"))
    elif trouble == "failed check":
        plain = replace(plain, trust=[Check("coverage", "failed", "65 %")])
    ours = replace(report(seed_bucket()), ranks=[rank("H200")])
    if trouble == "another GPU":
        plain = replace(plain, ranks=[rank("RTX PRO 6000")])
    verdict = verdict_of(ours, Known(baseline=measured_baseline(plain)))
    assert verdict.outcome == "withheld"
    assert [action.action for action in verdict.actions] == ["Do not act on this capture yet"]


def test_a_reading_of_another_configuration_is_said_to_be_one() -> None:
    known = replace(AT_11_1, readings=(reading(2.25, draft_tokens=3, batch=2.5),))
    texts = " ".join(verdict_of(report(seed_bucket()), known).caveats)
    assert "k = 3, these cycles of k = 5" in texts
    assert "2.5 running requests, these cycles of 1" in texts


@pytest.mark.parametrize("told", ["11100", "45"])
def test_a_step_dearer_than_verify_is_no_step(told: str) -> None:
    """Microseconds given for milliseconds, or another model's step."""
    verdict = verdict_of(report(seed_bucket()), Known(baseline=told_baseline([told])))
    assert verdict.outcome == "withheld"
    assert "though it carries more tokens" in verdict.withheld_because[0]


def test_an_interval_without_an_end_asks_for_more_cycles() -> None:
    bucket = seed_bucket(mean_period_ns=Estimated(20 * MS, 0.0, 60 * MS))
    verdict = verdict_of(report(bucket), Known(baseline=told_baseline(["11.1"])))
    assert verdict.outcome == "undecided"
    assert verdict.next_measurement is not None


def test_whole_requests_need_the_share_that_is_not_decoding() -> None:
    verdict = verdict_of(report(seed_bucket()), replace(AT_11_1, not_decoding_share=0.25))
    speedup = verdict.buckets[0].speedup
    assert speedup
    assert verdict.service_speedup == pytest.approx(1 / (0.25 + 0.75 / speedup.value))


def test_an_interval_without_an_end_survives_json() -> None:
    bucket = seed_bucket(mean_period_ns=Estimated(20 * MS, 0.0, 60 * MS))
    judgement = judged(report(bucket), Known(baseline=told_baseline(["11.1"])))
    assert Report.from_json(judgement.to_json()) == judgement
    assert judgement.verdict
    speedup = judgement.verdict.buckets[0].speedup
    assert speedup
    assert with_interval(speedup).endswith("∞]")


def test_an_interval_around_nothing_keeps_its_ends() -> None:
    assert estimated(Estimate(0.0, 0.0, 15.6)) == Estimated(0.0, 0.0, 15.6)
