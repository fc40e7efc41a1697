"""Traced and untraced tokens/s, on servers whose speed is known."""

from __future__ import annotations

import math
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.capture.engine_server import Engine, serving
from tests.strategies import examples
from traceanalyzer.capture.server import Server
from traceanalyzer.capture.server_metrics import TOKEN_METRICS, Reading
from traceanalyzer.capture.speed import Sample, SpeedWatch, TracedSpeed, compare

COUNTER, _, RATE, _ = TOKEN_METRICS
S = 1_000_000_000
WINDOW = (20 * S, 40 * S)


def served(
    seconds: int, untraced: float, traced: float, *, running: float | None = 4.0
) -> list[Sample]:
    """A sample each second of a server that is slower between 20 s and 40 s."""
    tokens, samples = 0.0, []
    for second in range(seconds + 1):
        samples.append(Sample(second * S, Reading(COUNTER, tokens, running)))
        tokens += traced if 20 <= second < 40 else untraced
    return samples


@examples(0.5)
@given(st.floats(1, 1e6), st.floats(1, 1e6), st.integers(44, 200))
def test_both_speeds_are_those_of_the_server(untraced: float, traced: float, length: int) -> None:
    speed = compare(served(length, untraced, traced), WINDOW)
    assert speed.traced_tokens_per_s == pytest.approx(traced, rel=1e-6)
    assert speed.untraced_tokens_per_s == pytest.approx(untraced, rel=1e-6)
    assert speed.slowdown_share == pytest.approx(1 - traced / untraced, rel=1e-5, abs=1e-6)


@examples(0.5)
@given(
    st.lists(
        st.tuples(st.integers(1, 3 * S), st.floats(0, 1e4), st.sampled_from([0.0, 1.0, 8.0])),
        min_size=2,
        max_size=60,
    ),
    st.integers(0, 150 * S),
    st.integers(1, 40 * S),
)
def test_each_stretch_counts_on_one_side_or_on_none(
    steps: list[tuple[int, float, float]], begun: int, length: int
) -> None:
    samples, time_ns, tokens = [], 0, 0.0
    for step, more, running in steps:
        time_ns, tokens = time_ns + step, tokens + more
        samples.append(Sample(time_ns, Reading(COUNTER, tokens, running)))
    speed = compare(samples, (begun, begun + length))
    sums: dict[bool, list[float]] = {True: [0.0, 0.0], False: [0.0, 0.0]}
    near = max(60 * S, length)
    for before, after in pairwise(samples):
        if not (before.reading.running and after.reading.running):
            continue
        inside = begun <= before.time_ns and after.time_ns <= begun + length
        outside = begun - near <= before.time_ns and after.time_ns <= begun
        after_it = begun + length <= before.time_ns and after.time_ns <= begun + length + near
        if inside or outside or after_it:
            sums[inside][0] += after.reading.value - before.reading.value
            sums[inside][1] += (after.time_ns - before.time_ns) / S
    for told, (made, seconds) in (
        (speed.traced_tokens_per_s, sums[True]),
        (speed.untraced_tokens_per_s, sums[False]),
    ):
        if told is None:
            assert seconds < 3 + 1e-6
        else:
            assert math.isclose(told, made / seconds, rel_tol=1e-6, abs_tol=1e-6)


def test_what_lies_far_before_the_window_is_no_part_of_the_comparison() -> None:
    window = (200 * S, 220 * S)
    tokens, samples = 0.0, []
    for second in range(221):
        samples.append(Sample(second * S, Reading(COUNTER, tokens, 4.0)))
        tokens += 5 if second < 140 else 100
    assert compare(samples, window).untraced_tokens_per_s == pytest.approx(100)


def test_a_rate_is_averaged_over_time() -> None:
    samples = [
        Sample(second * S, Reading(RATE, 300.0 if 20 < second <= 40 else 400.0, 4.0))
        for second in range(60)
    ]
    speed = compare(samples, WINDOW)
    assert speed.slowdown_share == pytest.approx(0.25)
    assert "sglang:gen_throughput" in speed.how


def test_a_window_over_everything_says_how_to_get_the_other_figure() -> None:
    speed = compare(served(40, 100, 90), (0, 40 * S))
    assert speed.traced_tokens_per_s == pytest.approx(95)
    assert speed.untraced_tokens_per_s is None
    assert speed.slowdown_share is None
    assert "run the same load without capture" in speed.how


def test_time_without_requests_is_nobodys() -> None:
    samples = served(60, 100, 90)
    idle = [
        Sample(sample.time_ns, Reading(COUNTER, samples[10].reading.value, 0.0))
        for sample in samples[10:18]
    ]
    resumed = [
        Sample(s.time_ns, Reading(COUNTER, s.reading.value - 800, s.reading.running))
        for s in samples[18:]
    ]
    speed = compare([*samples[:10], *idle, *resumed], WINDOW)
    assert speed.untraced_tokens_per_s == pytest.approx(100)
    assert speed.traced_tokens_per_s == pytest.approx(90)


def test_a_server_that_began_anew_is_not_counted_backwards() -> None:
    samples = served(60, 100, 90)
    anew = [
        Sample(s.time_ns, Reading(COUNTER, s.reading.value - samples[10].reading.value, 4.0))
        for s in samples[10:]
    ]
    assert compare([*samples[:10], *anew], WINDOW).untraced_tokens_per_s == pytest.approx(100)


def test_another_load_is_told() -> None:
    samples = [
        Sample(s.time_ns, Reading(COUNTER, s.reading.value, 8.0 if s.time_ns > 19 * S else 2.0))
        for s in served(40, 100, 300)
    ]
    speed = compare(samples, WINDOW)
    assert "8.0 and 2." in speed.how
    assert "the load differed" in speed.how
    assert "the load differed" not in compare(served(60, 100, 90), WINDOW).how
    assert "requests ran" not in compare(served(60, 100, 90, running=None), WINDOW).how


def test_the_two_stand_side_by_side() -> None:
    text = str(TracedSpeed.of(1900.0, 2000.0, "as measured"))
    assert text == ("tokens/s: 1,900.0 traced, 2,000.0 untraced, slow-down 5.0%\n  as measured")
    assert "not known untraced" in str(TracedSpeed.of(5.0, None, "x"))


def test_a_watch_reads_the_servers_page() -> None:
    with serving(Engine()) as engine:
        clock = iter(range(0, 100 * S, S))
        watch = SpeedWatch(Server.at(engine.url, "--untraced-check"), lambda: next(clock))
        watch.read()
        assert watch.samples == []
        assert "404" in watch.speed(WINDOW).how
        engine.pages["/metrics"] = (200, "python_info 1\n")
        watch.read()
        assert "has none of vllm:generation_tokens_total" in watch.speed(WINDOW).how
        for second in range(60):
            page = f"vllm:generation_tokens_total {50 * second}\nvllm:num_requests_running 1\n"
            engine.pages["/metrics"] = (200, page)
            watch.read()
    speed = watch.speed(WINDOW)
    assert (speed.traced_tokens_per_s, speed.untraced_tokens_per_s) == (50.0, 50.0)
    assert watch.speed(None).how == "the trace does not say when it was recorded"


def test_a_watch_goes_on_by_itself_and_ends() -> None:
    page = "vllm:generation_tokens_total 1\n"
    with serving(Engine(pages={"/metrics": (200, page)})) as engine:
        watch = SpeedWatch(Server.at(engine.url, "--untraced-check"))
        with watch:
            while not watch.samples:
                time.sleep(0.01)
        watch._thread.join(10)
    assert not watch._thread.is_alive()
