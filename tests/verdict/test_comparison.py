"""Two captures beside each other: on paper, as laws, and what must not be compared."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import examples
from tests.verdict import made
from traceanalyzer.errors import InputError
from traceanalyzer.report import (
    Check,
    Coverage,
    CyclesReport,
    Device,
    Dropped,
    Estimated,
    PhaseReport,
    RankReport,
    Report,
    Tool,
)
from traceanalyzer.report.comparison import Comparison, Figure
from traceanalyzer.speculation.acceptance import AcceptanceCounts
from traceanalyzer.verdict.baseline import measured_baseline
from traceanalyzer.verdict.comparison import compare_reports
from traceanalyzer.verdict.judgement import judged
from traceanalyzer.verdict.known import Known
from traceanalyzer.verdict.ratios import weighted_mean
from traceanalyzer.verdict.regression import regressions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from traceanalyzer.report import BucketReport

TOOL = Tool("traceanalyzer", "0")
MS = made.MS


def compare(a: Report, b: Report, **told: float) -> Comparison:
    return compare_reports(a, b, tool=TOOL, **told)


def counts(accept_len: float, k: int = 5, cycles: int = 10_000) -> AcceptanceCounts:
    """Request-cycles that accept none or all of k drafts, with this mean."""
    full = round((accept_len - 1) / k * cycles)
    return AcceptanceCounts.from_histogram(k, [cycles - full, *[0] * (k - 1), full])


def speculating(
    windows_ms: Mapping[str, float],
    accept_len: float | None,
    *,
    doubt: float = 0.001,
    classes: Mapping[str, Mapping[str, float]] | None = None,
    kernel: str = "kernel",
    **changes: Any,
) -> BucketReport:
    """Speculating cycles; `doubt` is that of the period and of the accept length, as a share."""
    period_ms = sum(windows_ms.values())
    phases = [
        made.phase(name, ms, period_ms, classes=(classes or {}).get(name), kernel=kernel)
        for name, ms in windows_ms.items()
    ]
    k = changes.get("n", 6) - 1
    found = made.verify_bucket(
        phases,
        None if accept_len is None else counts(accept_len, k, 10_000 * changes.get("batch", 1)),
        mean_period_ns=made.around(period_ms * MS, doubt),
        **changes,
    )
    if found.acceptance is None:
        return found
    accepted = replace(
        found.acceptance, accept_len=made.around(found.acceptance.accept_len.value, doubt)
    )
    return replace(found, acceptance=accepted)


def value(found: Figure | None) -> float:
    assert found is not None
    assert found.ratio is not None
    return found.ratio.value


# On paper.

BEFORE = speculating({"draft": 2.0, "verify": 28.0}, 2.0)
AFTER = speculating({"draft": 2.0, "verify": 28.868}, 2.12)


def test_the_sentence_tells_the_parts_and_what_they_come_to() -> None:
    found = compare(made.report(BEFORE), made.report(AFTER))
    (pair,) = found.buckets
    net = 2.12 / 2.0 / (30.868 / 30.0)
    assert value(pair.tokens_per_s) == pytest.approx(net)
    assert found.outcome == "faster"
    assert found.summary == pair.summary
    assert found.summary.startswith(
        f"verify +3.1 %, cycle +2.9 %, accept length +6.0 %: net {100 * (net - 1):+.1f} % ["
    )
    assert found.overall is None
    assert found.unmatched == []


def test_everything_is_given_per_cycle_and_per_committed_token() -> None:
    (pair,) = compare(made.report(BEFORE), made.report(AFTER)).buckets
    draft, verify = pair.phases
    assert (draft.phase_a, verify.phase_a) == ("draft", "verify")
    assert value(verify.ns_per_cycle) == pytest.approx(28.868 / 28)
    assert value(verify.ns_per_token) == pytest.approx(28.868 / 28 / 1.06)
    assert value(draft.ns_per_token) == pytest.approx(1 / 1.06)
    assert verify.period_change_share == pytest.approx(0.868 / 30)
    assert pair.tokens_per_s is not None
    assert pair.tokens_per_s.a is not None
    assert pair.tokens_per_s.a.value == pytest.approx(2000 / 30)
    assert pair.period_ns_per_token is not None
    assert pair.period_ns_per_token.a is not None
    assert pair.period_ns_per_token.a.value == pytest.approx(15 * MS)


@pytest.mark.parametrize("batch", [1, 4])
def test_speculation_off_against_on_is_the_speed_up_of_the_verdict(batch: int) -> None:
    step = made.around(11.1 * MS, 0.01)
    plain = made.report(made.decode_bucket(11.1, batch=batch, mean_period_ns=step))
    period = made.around(31.744 * MS, 0.02)
    speculating_report = made.report(made.seed_bucket(batch=batch, mean_period_ns=period))
    known = Known(baseline=measured_baseline(plain))
    verdict = judged(speculating_report, known).verdict
    assert verdict is not None
    found = compare(plain, speculating_report)
    (pair,) = found.buckets
    assert pair.relation == "speculation"
    assert pair.tokens_per_s is not None
    net, speedup = pair.tokens_per_s.ratio, verdict.buckets[0].speedup
    assert net is not None
    assert speedup is not None
    assert (net.value, net.low, net.high) == pytest.approx(
        (speedup.value, speedup.low, speedup.high)
    )
    assert found.outcome == "slower" == pair.outcome
    forward = next(each for each in pair.phases if each.phase_a == "decode")
    assert forward.phase_b == "verify"
    assert [each.phase_b for each in pair.phases if each.phase_a is None] == [
        "draft",
        "draft_extend",
    ]
    assert "decode → verify" in found.summary
    assert "draft new" in found.summary


def test_steps_without_drafts_stand_behind_those_with_them() -> None:
    plain = made.report(made.decode_bucket(10.0))
    able = made.report(made.decode_bucket(11.0, time_share=0.6), replace(BEFORE, time_share=0.4))
    found = compare(plain, able)
    assert [(pair.relation, pair.b.bucket) for pair in found.buckets] == [
        ("speculation", 1),
        ("same shape", 0),
    ]
    assert "one of the servers can speculate" in "; ".join(found.buckets[1].assumed)
    assert found.outcome == found.buckets[0].outcome == "slower"


def test_where_no_batch_is_told_lone_buckets_mean_each_other() -> None:
    plain = made.decode_bucket(10.0, batch=None)
    (pair,) = compare(made.report(plain), made.report(BEFORE)).buckets
    assert pair.relation == "speculation"
    assert value(pair.tokens_per_s) == pytest.approx(2 / 3)
    assert "those of one request" in "; ".join(pair.assumed)
    several = made.report(BEFORE, speculating({"verify": 40.0}, 2.0, batch=2))
    assert compare(made.report(plain), several).buckets == []


def test_requests_that_commit_nothing_count_in_the_net() -> None:
    """Half of B's requests are stale: as fast a cycle commits half as many tokens."""
    a = speculating({"verify": 30.0}, 2.0, batch=4)
    assert a.acceptance is not None
    half = replace(a.acceptance, committed_per_cycle=made.around(4.0))
    (pair,) = compare(made.report(a), made.report(replace(a, acceptance=half))).buckets
    assert pair.tokens_per_s is not None
    assert pair.tokens_per_s.a is not None
    assert pair.tokens_per_s.a.value == pytest.approx(8000 / 30)
    assert value(pair.tokens_per_s) == pytest.approx(0.5)
    assert "accept length 0.0 %, requests a cycle -50.0 %: net -50.0 %" in pair.summary


def test_a_figure_that_may_be_nothing_bounds_no_ratio() -> None:
    vague = Estimated(2.0 * MS, -1.0 * MS, 5.0 * MS)
    draft = replace(BEFORE.phases[0], window_ns=vague)
    a = replace(BEFORE, phases=[draft, BEFORE.phases[1]])
    found = compare(made.report(a), made.report(AFTER))
    assert found.buckets[0].phases[0].ns_per_cycle.ratio == Estimated(1.0)
    assert Comparison.from_json(found.to_json()) == found


def test_plain_decode_of_as_many_tokens_separates_the_path_from_the_tokens() -> None:
    plain = made.report(
        made.decode_bucket(11.1, time_share=0.5), made.decode_bucket(20.0, batch=6, time_share=0.5)
    )
    found = compare(plain, made.report(made.seed_bucket()))
    relations = {pair.relation: pair for pair in found.buckets}
    assert list(relations) == ["speculation", "same tokens"]
    pair = relations["same tokens"]
    assert (pair.a.shape.batch, pair.b.shape.batch) == (6, 1)
    assert pair.tokens_per_s is None
    assert all(phase.ns_per_token is None for phase in pair.phases)
    assert pair.outcome == "slower"
    assert f"{100 * (28.447 / 20 - 1):+.1f} %" in pair.summary
    assert "6 tokens in both" in pair.summary
    assert found.overall is not None
    assert found.overall.net is None
    assert found.overall.matched_share_a == pytest.approx(0.5)


def test_kernel_classes_stand_beside_each_other_with_what_is_idle() -> None:
    old = {"verify": {"moe": 20.0, "attention": 5.0}}
    new = {"verify": {"moe": 21.0, "attention": 3.0, "copy": 1.0}}
    a = speculating({"verify": 28.0}, 2.0, classes=old, kernel="old")
    b = speculating({"verify": 28.0}, 2.0, classes=new, kernel="new")
    (pair,) = compare(made.report(a), made.report(b)).buckets
    (verify,) = pair.phases
    rows = {row.kernel_class: row for row in verify.classes}
    assert list(rows) == ["attention", "moe", "copy", "idle"]
    assert rows["copy"].ns_per_cycle == Figure(None, Estimated(1.0 * MS))
    assert value(rows["moe"].ns_per_token) == pytest.approx(1.05)
    assert rows["idle"].ns_per_cycle.a == Estimated(3.0 * MS)
    assert rows["moe"].longest_kernel_a == "moe old"
    assert rows["moe"].longest_kernel_b == "moe new"
    for side, window_ms in (("a", 28.0), ("b", 28.0)):
        told = [getattr(row.ns_per_cycle, side) for row in verify.classes]
        assert sum(each.value for each in told if each) == pytest.approx(window_ms * MS)
    (without,) = compare(made.report(a), made.report(AFTER)).buckets
    assert all(phase.classes == [] for phase in without.phases)


# Laws.

_times = st.floats(0.01, 50.0)
_shapes = st.lists(
    st.tuples(st.integers(1, 3), st.integers(2, 4)), min_size=1, max_size=4, unique=True
)


@st.composite
def reports(draw: st.DrawFn) -> Report:
    """Speculating cycles of a few shapes, with all the time shared out among them."""
    shapes = draw(_shapes)
    weights = [draw(st.integers(1, 9)) for _ in shapes]
    buckets = []
    for (batch, n), weight in zip(shapes, weights, strict=True):
        names = draw(st.lists(st.sampled_from(("draft", "sample", "other")), unique=True))
        windows = {name: draw(_times) for name in ("verify", *names)}
        accept_len = draw(st.floats(1.0, n))
        buckets.append(
            speculating(
                windows,
                accept_len,
                doubt=draw(st.sampled_from((0.0, 0.01, 0.3))),
                batch=batch,
                n=n,
                share=weight / sum(weights),
            )
        )
    return made.report(*buckets)


@given(reports())
@examples(0.15)
def test_a_capture_against_itself_has_not_changed(report: Report) -> None:
    found = compare(report, report)
    assert len(found.buckets) == len(report.buckets)
    assert found.outcome == "no sure change"
    for pair in found.buckets:
        assert value(pair.tokens_per_s) == pytest.approx(1)
        assert value(pair.period_ns) == pytest.approx(1)
        assert all(value(phase.ns_per_cycle) == pytest.approx(1) for phase in pair.phases)
        assert all(phase.period_change_share == 0 for phase in pair.phases)
    assert found.unmatched == []
    for allowed in (0.0, 0.05):
        assert regressions(found, allowed + 1e-9).sure == ()
        assert not regressions(found, allowed + 1e-9).failed


@given(reports(), reports())
@examples(0.15)
def test_swapping_the_captures_inverts_every_ratio(a: Report, b: Report) -> None:
    there, back = compare(a, b), compare(b, a)
    mirrored = {(pair.b.bucket, pair.a.bucket): pair for pair in back.buckets}
    assert set(mirrored) == {(pair.a.bucket, pair.b.bucket) for pair in there.buckets}
    opposite = {"faster": "slower", "slower": "faster"}
    for pair in there.buckets:
        other = mirrored[pair.a.bucket, pair.b.bucket]
        assert other.outcome == opposite.get(pair.outcome, pair.outcome)
        for one, two in (
            (pair.period_ns, other.period_ns),
            (pair.tokens_per_s, other.tokens_per_s),
            (pair.accept_len, other.accept_len),
        ):
            assert_inverse(one, two)
    assert len(there.unmatched) == len(back.unmatched)


def assert_inverse(one: Figure | None, other: Figure | None) -> None:
    assert one is not None
    assert other is not None
    assert (one.a, one.b) == (other.b, other.a)
    assert one.ratio is not None
    assert other.ratio is not None
    assert one.ratio.value * other.ratio.value == pytest.approx(1)
    for low, high in ((one.ratio.low, other.ratio.high), (one.ratio.high, other.ratio.low)):
        assert low is not None
        assert high is not None
        assert low * high == pytest.approx(1)


@given(reports(), reports())
@examples(0.15)
def test_the_net_change_is_the_product_of_its_parts(a: Report, b: Report) -> None:
    found = compare(a, b)
    for pair in found.buckets:
        product = value(pair.accept_len) * value(pair.requests_per_cycle) / value(pair.period_ns)
        assert value(pair.tokens_per_s) == pytest.approx(product)
        assert value(pair.period_ns_per_token) == pytest.approx(1 / product)
        parts = [phase.period_change_share for phase in pair.phases]
        assert math.fsum(parts) + pair.overlap_change_share == pytest.approx(
            value(pair.period_ns) - 1, abs=1e-9
        )
    assert Comparison.from_json(found.to_json()) == found


@given(reports(), reports())
@examples(0.15)
def test_only_equal_shapes_are_paired_and_every_bucket_is_told_once(a: Report, b: Report) -> None:
    found = compare(a, b)
    wanted = {each.shape for each in a.buckets} & {each.shape for each in b.buckets}
    assert {pair.a.shape for pair in found.buckets} == wanted
    assert all(pair.a.shape == pair.b.shape for pair in found.buckets)
    for name, report, side in (("A", a, "a"), ("B", b, "b")):
        paired = [getattr(pair, side).bucket for pair in found.buckets]
        alone = [each.side.bucket for each in found.unmatched if each.capture == name]
        assert sorted(paired + alone) == list(range(len(report.buckets)))
    if not wanted:
        assert found.outcome == "not comparable"


@given(reports(), reports())
@examples(0.15)
def test_all_together_lies_between_the_buckets(a: Report, b: Report) -> None:
    found = compare(a, b)
    together = found.overall
    if together is None or together.net is None:
        assert together is None or together.withheld_because
        return
    nets = [value(pair.tokens_per_s) for pair in found.buckets]
    assert min(nets) - 1e-9 <= together.net.value <= max(nets) + 1e-9
    assert min(together.matched_share_a, together.matched_share_b) >= 0.8
    assert together.net.low is not None
    assert together.net.high is not None
    assert together.net.low <= together.net.value <= together.net.high


@given(st.lists(st.tuples(_times, _times, st.floats(0, 0.9), st.floats(0, 0.9)), min_size=1))
@examples(0.15)
def test_independent_figures_doubt_their_mean_less(
    rows: list[tuple[float, float, float, float]],
) -> None:
    parts = [
        (weight, Estimated(each, each * (1 - below), each * (1 + above)))
        for weight, each, below, above in rows
    ]
    sure, safe = (weighted_mean(parts, independent=each) for each in (True, False))
    whole = sum(weight for weight, _ in parts)
    assert sure.value == pytest.approx(sum(weight * each.value for weight, each in parts) / whole)
    ends = [found for each in (safe, sure) for found in (each.low, each.high)]
    assert None not in ends
    low, high, inner_low, inner_high = (each or 0.0 for each in ends)
    slack = 1e-9 * (1 + high)
    assert low - slack <= inner_low <= sure.value <= inner_high <= high + slack
    if len(parts) == 1:
        assert (low, high) == pytest.approx((inner_low, inner_high))
    elif all(below > 0.1 and above > 0.1 for _, _, below, above in rows):
        assert low < inner_low
        assert inner_high < high


# A change of mix is no change of speed.


def two_batches(speed: float, small_share: float) -> Report:
    """Batch 1 is dear a token and batch 4 cheap; `small_share` is that of the time."""
    shares = ((1, small_share), (4, 1 - small_share))
    return made.report(
        *(speculating({"verify": 30.0 / speed}, 2.0, batch=b, share=s) for b, s in shares)
    )


@pytest.mark.parametrize(
    ("speed", "before", "after"), [(1.05, 0.2, 0.8), (0.95, 0.8, 0.2)], ids=["wins", "loses"]
)
def test_a_shift_of_the_mix_hides_no_change_and_makes_none(
    speed: float, before: float, after: float
) -> None:
    a, b = two_batches(1.0, before), two_batches(speed, after)
    naive = [
        sum(
            each.time_share * 2.0 * (each.shape.batch or 0) * 1e9 / each.mean_period_ns.value
            for each in report.buckets
        )
        for report in (a, b)
    ]
    assert (naive[1] > naive[0]) != (speed > 1), "the naive mean falls for it"
    found = compare(a, b)
    assert found.overall is not None
    assert found.overall.net is not None
    assert found.overall.net.value == pytest.approx(speed)
    assert found.outcome == ("faster" if speed > 1 else "slower")
    assert "at A's mix" in found.summary
    assert regressions(found, 0.01).failed == (speed < 1)


def test_each_bucket_weighs_as_it_does_in_a() -> None:
    a = two_batches(1.0, 0.25)
    slower = [replace(a.buckets[0], mean_period_ns=made.around(60 * MS, 0.001)), a.buckets[1]]
    found = compare(a, replace(a, buckets=slower))
    assert found.overall is not None
    assert found.overall.net is not None
    assert found.overall.net.value == pytest.approx(1 / (0.25 * 2 + 0.75))


def test_several_draft_lengths_stand_together_against_one_plain_step() -> None:
    """What the server chose to draft is its own doing: all its tokens over all its time."""
    plain = made.report(made.decode_bucket(10.0))
    drafting = [
        speculating({"verify": 15.0}, 2.0, n=4, share=0.75),
        speculating({"verify": 45.0}, 3.0, n=6, share=0.25),
    ]
    drafting = [
        replace(each, cycles=round(6000 * each.time_share / each.mean_period_ns.value * 15 * MS))
        for each in drafting
    ]
    found = compare(plain, made.report(*drafting))
    tokens = sum(each.cycles * length for each, length in zip(drafting, (2.0, 3.0), strict=True))
    seconds = sum(each.cycles * each.mean_period_ns.value / 1e9 for each in drafting)
    assert found.overall is not None
    assert found.overall.net is not None
    assert found.overall.net.value == pytest.approx(tokens / seconds / 100, rel=1e-4)


def test_below_four_fifths_of_the_time_nothing_is_said_of_the_whole() -> None:
    a = two_batches(1.0, 0.5)
    found = compare(a, made.report(speculating({"verify": 30.0}, 2.0)))
    assert found.overall is not None
    assert found.overall.net is None
    assert found.overall.matched_share_a == pytest.approx(0.5)
    assert [(each.capture, each.side.shape.batch) for each in found.unmatched] == [("A", 4)]
    assert regressions(found, 0.05).not_judged


# What may be compared.


def shaped(bucket: BucketReport, **changes: Any) -> BucketReport:
    return replace(bucket, shape=replace(bucket.shape, **changes))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"batch": 2}, "batch 1 against 2"),
        ({"verified_tokens": 7}, "verified tokens 6 against 7"),
        ({"draft_tokens": 3}, "draft tokens 5 against 3"),
        ({"padded_batch": 8}, "padded batch 1 against 8"),
        ({"kind": "mixed"}, "kind verify against mixed"),
    ],
)
def test_other_shapes_are_listed_and_not_compared(changes: dict[str, Any], told: str) -> None:
    found = compare(made.report(BEFORE), made.report(shaped(AFTER, **changes)))
    assert found.buckets == []
    assert found.outcome == "not comparable"
    assert told in found.summary
    assert [each.capture for each in found.unmatched] == ["A", "B"]
    assert regressions(found, 0.05).not_judged


@pytest.mark.parametrize(
    ("changes", "assumed"),
    [
        ({"padded_batch": None}, "padded batch"),
        ({"batch": None}, "batch"),
        ({"verified_tokens": None, "draft_tokens": None}, "verified tokens"),
        ({"graph": "no graph"}, "no graph"),
        ({"kind": "fused(verify, draft_extend)"}, "fused(verify, draft_extend)"),
    ],
)
def test_what_is_not_told_may_be_equal_and_it_is_said(
    changes: dict[str, Any], assumed: str
) -> None:
    found = compare(made.report(BEFORE), made.report(shaped(AFTER, **changes)))
    (pair,) = found.buckets
    assert assumed in "; ".join(pair.assumed)
    assert value(pair.period_ns) == pytest.approx(30.868 / 30)


def test_what_is_not_told_is_not_guessed_among_several() -> None:
    a = made.report(BEFORE, speculating({"verify": 40.0}, 2.0, batch=2))
    found = compare(a, made.report(shaped(AFTER, batch=None, padded_batch=None)))
    assert {pair.a.shape.batch for pair in found.buckets} <= {1}
    unknown = shaped(AFTER, batch=None, padded_batch=None, verified_tokens=None, draft_tokens=None)
    assert compare(a, made.report(unknown)).buckets == []


def rank(name: str | None = "GPU X", *, graph_rows: int = 0, kept: int = 100) -> RankReport:
    graphs = PhaseReport("verify", 1, 1, 1, graph_rows, 1, 1, 100, 1, 1, 1, 0, None, [], None)
    return RankReport(
        0,
        1,
        None,
        Device(0, name),
        Coverage(1, 1.0, 0, []),
        CyclesReport(kept, Dropped(0, 0, 0, 0), None, 0),
        [graphs],
    )


def on(report: Report, *ranks: RankReport, **changes: Any) -> Report:
    return replace(report, ranks=list(ranks), **changes)


A = on(made.report(BEFORE), rank())
B = on(made.report(AFTER), rank())


def with_product(report: Report, product: str) -> Report:
    file = replace(report.capture.files[0], product=product)
    return replace(report, capture=replace(report.capture, files=[file]))


@pytest.mark.parametrize(
    ("b", "obstacle", "told"),
    [
        (
            on(
                made.report(AFTER, syncs=6.0),
                rank(),
                trust=[Check("instrumentation", "failed", "timers")],
            ),
            "synchronisation",
            "B was recorded under",
        ),
        (replace(B, capture=replace(B.capture, time_base="host")), "time base", "B is timed on"),
        (replace(B, trust=[Check("coverage", "failed", "12 %")]), "coverage", "B: 12 %"),
        (on(B, rank("GPU Y")), "GPUs", "GPU X in A, GPU Y in B"),
        (on(B, rank(graph_rows=97)), "graphs", "B recorded graph replays as whole rows"),
    ],
    ids=["synchronised", "host", "failed check", "GPU", "graphs"],
)
def test_captures_that_are_not_comparable(b: Report, obstacle: str, told: str) -> None:
    for one, other in ((A, b), (b, A)):
        found = compare(one, other)
        assert found.outcome == "not comparable"
        assert [each.obstacle for each in found.obstacles if each.blocks] == [obstacle]
        assert found.summary.startswith("Not comparable: ")
        assert len(found.buckets) == 1, "figures stand beside each other all the same"
        judged_by_gate = regressions(found, 0.05)
        assert judged_by_gate.failed
        assert judged_by_gate.sure == ()
    assert told in compare(A, b).summary


@pytest.mark.parametrize(
    ("b", "obstacle"),
    [
        (on(B, rank(kept=7)), "cycles"),
        (on(B, rank(), rank()), "ranks"),
        (with_product(B, "PyTorch"), "profiler"),
        (on(made.report(speculating({"draft": 2.0, "verify": 28.9}, None)), rank()), "acceptance"),
        (A, "captures"),
    ],
    ids=["few cycles", "ranks", "profiler", "acceptance", "same"],
)
def test_what_weakens_a_comparison_is_said(b: Report, obstacle: str) -> None:
    found = compare(A, b)
    assert [(each.obstacle, each.blocks) for each in found.obstacles] == [(obstacle, False)]
    assert found.outcome != "not comparable"


def test_like_with_like_meets_no_obstacle() -> None:
    unrelated = replace(B, trust=[Check("baseline", "failed", "of another capture")])
    assert compare(A, B).obstacles == []
    assert compare(A, unrelated).obstacles == []


@pytest.mark.parametrize("empty", ["A", "B"])
def test_a_capture_without_cycles_is_named(empty: str) -> None:
    nothing, something = made.report(), made.report(BEFORE)
    found = compare(nothing, something) if empty == "A" else compare(something, nothing)
    assert found.outcome == "not comparable"
    assert f"{empty} holds no complete decode cycle" in found.summary


# Acceptance that is not known.

UNMARKED = speculating({"draft": 2.0, "verify": 28.0}, None)


def test_without_acceptance_cycles_are_compared_and_tokens_are_not() -> None:
    found = compare(made.report(BEFORE), made.report(UNMARKED))
    (pair,) = found.buckets
    assert pair.tokens_per_s is None
    assert pair.outcome == found.outcome == "unknown"
    assert "net unknown" in found.summary
    assert any("--accept-len-b" in text for text in pair.missing)
    assert not regressions(found, 0.05).failed
    slower = speculating({"draft": 2.0, "verify": 38.0}, None)
    (told,) = regressions(compare(made.report(BEFORE), made.report(slower)), 0.05).sure
    assert "acceptance unknown" in told


def test_a_given_accept_len_stands_in() -> None:
    found = compare(made.report(BEFORE), made.report(UNMARKED), accept_len_b=2.5)
    (pair,) = found.buckets
    assert value(pair.accept_len) == pytest.approx(1.25)
    assert value(pair.tokens_per_s) == pytest.approx(1.25)


@pytest.mark.parametrize(
    ("a", "told"),
    [
        ((BEFORE,), {"accept_len_a": 2.0}),
        ((made.decode_bucket(10.0),), {"accept_len_a": 2.0}),
        ((UNMARKED,), {"accept_len_a": 0.98}),
        ((UNMARKED,), {"accept_len_a": 6.5}),
        ((UNMARKED, speculating({"verify": 40.0}, None, batch=2)), {"accept_len_a": 2.0}),
    ],
    ids=["marked", "plain", "without bonus", "above k + 1", "several shapes"],
)
def test_an_accept_len_that_cannot_be_is_refused(
    a: tuple[BucketReport, ...], told: dict[str, float]
) -> None:
    with pytest.raises(InputError) as caught:
        compare(made.report(*a), made.report(AFTER), **told)
    assert caught.value.where == "--accept-len-a"


# The gate.


def slowed(share: float, doubt: float) -> Comparison:
    """B serves this share fewer tokens a second; only its period is in doubt."""
    a = speculating({"verify": 30.0}, 2.0, doubt=0.0)
    b = speculating({"verify": 30.0 / (1 - share)}, 2.0, doubt=0.0)
    period = made.around(b.mean_period_ns.value, doubt)
    return compare(made.report(a), made.report(replace(b, mean_period_ns=period)))


@pytest.mark.parametrize(
    ("loss", "doubt", "outcome"),
    [
        (0.08, 0.01, "sure"),
        (0.08, 0.05, "doubtful"),
        (0.03, 0.001, "none"),
        (0.03, 0.1, "none"),
        (-0.2, 0.01, "none"),
    ],
)
def test_a_loss_counts_only_when_its_interval_lies_beyond_what_is_allowed(
    loss: float, doubt: float, outcome: str
) -> None:
    found = regressions(slowed(loss, doubt), 0.05)
    assert (bool(found.sure), bool(found.doubtful)) == (outcome == "sure", outcome == "doubtful")
    assert found.failed == (outcome == "sure")
    for text in (*found.sure, *found.doubtful):
        assert f"{-100 * loss:+.1f} %" in text


@given(st.floats(0.0, 0.5), st.floats(0.0, 0.2), st.floats(0.0, 0.5), st.floats(0.0, 0.3))
@examples(0.15)
def test_allowing_more_never_fails_what_passed(
    loss: float, doubt: float, allowed: float, more: float
) -> None:
    found = slowed(loss, doubt)
    if not regressions(found, allowed).failed:
        assert not regressions(found, min(0.99, allowed + more)).failed


def test_losses_too_small_to_be_sure_of_alone_may_be_sure_together() -> None:
    a = two_batches(1.0, 0.5)
    b = [
        replace(each, mean_period_ns=made.around(each.mean_period_ns.value / 0.92, 0.04))
        for each in a.buckets
    ]
    found = compare(a, replace(a, buckets=b))
    judged_by_gate = regressions(found, 0.05)
    assert len(judged_by_gate.doubtful) == 2
    (told,) = judged_by_gate.sure
    assert told.startswith("all together -8.0 %")


def test_a_loss_in_one_bucket_is_not_made_up_for_by_another() -> None:
    a = two_batches(1.0, 0.5)
    mixed = [
        replace(a.buckets[0], mean_period_ns=made.around(36 * MS, 0.001)),
        replace(a.buckets[1], mean_period_ns=made.around(24 * MS, 0.001)),
    ]
    found = compare(a, replace(a, buckets=mixed))
    assert found.outcome == "mixed"
    (told,) = regressions(found, 0.05).sure
    assert "batch 1" in told


def test_a_single_cycle_judges_nothing() -> None:
    alone = replace(AFTER, mean_period_ns=Estimated(60 * MS), cycles=1)
    found = compare(made.report(BEFORE), made.report(alone))
    (pair,) = found.buckets
    assert pair.outcome == "unknown"
    assert "no interval" in found.summary
    judged_by_gate = regressions(found, 0.05)
    assert judged_by_gate.sure == ()
    assert "too few cycles" in judged_by_gate.not_judged[0]


# Damage.


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:-20],
        lambda data: data.replace(b'"schema_version": 1', b'"schema_version": 9'),
        lambda data: data.replace(b'"obstacles"', b'"obstacle"'),
    ],
    ids=["nothing", "cut", "version", "key"],
)
def test_what_is_no_comparison_is_refused(damage: Callable[[bytes], bytes]) -> None:
    data = compare(A, B).to_json()
    assert Comparison.from_json(data) == compare(A, B)
    with pytest.raises(InputError):
        Comparison.from_json(damage(data))
