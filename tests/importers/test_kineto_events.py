"""Quick decoding of events and their times, against patient decoding and the standard library."""

from __future__ import annotations

import json
from decimal import ROUND_HALF_EVEN, Decimal
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.strategies import examples
from traceanalyzer.importers import kineto_times
from traceanalyzer.importers.kineto_events import CLOCKS, LABEL, SPAN, decoded_one, phase_of
from traceanalyzer.importers.kineto_times import (
    FINE_START,
    NO_TIME,
    Written,
    float_ns,
    text_ns,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_FLOATS = CLOCKS[1]
_WANTED = frozenset({"kernel", "cpu_op"})

_PHASES = st.sampled_from(["X", "M", "s", "f", "i", "B", "X\\u0020", "\\u0058", "z", "", None, 5])
_TEXTS = st.sampled_from(["", "x", 'a "b" \\', "é😀", "},\n  {", '{"ph": "X"', "\x00\t"])
_VALUES: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, -3, 7, 2.5, "7", [], {}, [{"ph": "X"}], 1 << 70]
)
_PAIRS = st.one_of(
    st.tuples(st.just("ph"), _PHASES),
    st.tuples(st.just("cat"), st.sampled_from(["kernel", "cpu_op", "ac2g", None, 5])),
    st.tuples(st.just("name"), _TEXTS | _VALUES),
    st.tuples(st.sampled_from(["pid", "tid", "ts", "dur", "id", "bp"]), _VALUES),
    st.tuples(
        st.just("args"),
        st.dictionaries(
            st.sampled_from(["correlation", "device", "stream", "graph id", "grid", "ph", "name"]),
            _VALUES | _TEXTS,
            max_size=4,
        ),
    ),
)


def _written(pairs: Sequence[tuple[str, Any]]) -> str:
    """An object that may hold a key more than once; a phase is text that may be escaped."""
    items = []
    for key, value in pairs:
        as_is = key == "ph" and isinstance(value, str)
        items.append(f'"{key}": ' + (f'"{value}"' if as_is else json.dumps(value)))
    return "{" + ", ".join(items) + "}"


def _fields(event: Any) -> dict[str, Any]:
    found = msgspec.structs.asdict(event)
    found.pop("ph", None)
    return {key: None if value != value else value for key, value in found.items()}


@examples(3)
@given(st.lists(st.lists(_PAIRS, max_size=8).map(_written), max_size=3))
@example(['{"ph": "s", "name": "x", "ph": "X", "cat": "kernel"}'])
@example(['{"ph": "X", "cat": "kernel", "ph": "M"}'])
@example(['{"args": {"ph": "X", "correlation": 3}, "cat": "kernel", "ts": 1.5, "ph": "X"}'])
def test_what_is_decoded_quickly_is_what_the_text_says(texts: list[str]) -> None:
    """Of an event of another phase nothing is read, so only its form can be wrong."""
    text = f"[{','.join(texts)}]".encode()
    try:
        quick = _FLOATS.quick(text)
    except msgspec.ValidationError:
        return
    plain = json.loads(text)
    found = [
        event
        for event, each in zip(plain, quick, strict=True)
        if isinstance(each, _FLOATS.span) or phase_of(each) == LABEL
    ]
    assert found == [event for event in plain if event["ph"] in (SPAN, LABEL)]
    try:
        patient = _FLOATS.patient(json.dumps(found).encode())
    except msgspec.ValidationError:
        # A label's times are of no use, so they may be anything.
        return
    decoded = _FLOATS.decoded(text, {event.get("cat") for event in plain})
    assert decoded.events == len(plain)
    spans = [_fields(event) for event in patient if event.ph == SPAN]
    assert [_fields(event) for event in decoded.spans] == spans
    labels = [_fields(event) for event in patient if event.ph == LABEL]
    times = {"ts", "dur"}
    assert [_fields(event) for event in decoded.labels] == [
        {key: value for key, value in label.items() if key not in times} for label in labels
    ]


@examples(3)
@given(st.lists(_PAIRS, max_size=8).map(_written))
def test_one_event_is_decoded_as_it_is_in_a_list(text: str) -> None:
    patient = CLOCKS[-1]
    try:
        one = decoded_one(text.encode())
    except msgspec.ValidationError:
        with pytest.raises(msgspec.ValidationError):
            patient.decoded(f"[{text}]".encode(), _WANTED)
        return
    decoded = patient.decoded(f"[{text}]".encode(), _WANTED)
    is_span = phase_of(one) == SPAN and one.cat in _WANTED
    assert [_fields(span) for span in decoded.spans] == [_fields(one)] * is_span
    assert len(decoded.labels) == (phase_of(one) == LABEL)
    assert decoded.events == 1


def test_events_of_unusual_phases_are_counted_and_cost_no_other() -> None:
    span = '{"ph": "X", "cat": "kernel", "name": "k", "ts": 1.5, "dur": 2}'
    odd = ['{"ph": "unheard of"}', "{}", '{"ph": "f", "ts": "late", "name": 5}']
    for others in (odd[:2], odd[2:]):
        text = f"[{','.join([span, *others, span])}]".encode()
        decoded = _FLOATS.decoded(text, _WANTED)
        assert [event.ts for event in decoded.spans] == [1.5, 1.5]
        assert decoded.events == 2 + len(others)


def _nearest_ns(text: str) -> int:
    return int((Decimal(text) * 1000).to_integral_value(ROUND_HALF_EVEN))


_DIGITS = st.tuples(st.integers(0, 1 << 43), st.integers(0, 999), st.integers(0, 999))


@examples(5)
@given(st.lists(_DIGITS, max_size=5), st.integers(0, 43), st.sampled_from([0, 1, 499, 500, 501]))
def test_times_read_as_float64_are_exact_or_in_doubt(
    digits: list[tuple[int, int, int]], bits: int, finer: int
) -> None:
    stated = [
        f"{us >> bits}.{ns:03d}" + (f"{ps if finer else 0:03d}" if finer else "")
        for us, ns, ps in digits
    ] + ([f"0.000{finer}"] if finer else [])
    text = ",".join(f'"ts": {each}' for each in stated).encode()
    found = float_ns([float(each) for each in stated], Written(text, FINE_START))
    if found is not None:
        assert found.tolist() == [_nearest_ns(each) for each in stated]
    else:
        assert finer or max(us >> bits for us, _ns, _ps in digits) >= 1 << 42


def test_recordings_of_days_take_the_quick_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kineto_times, "_float_ns", None)
    days = float("345600000000.001")  # four, in microseconds
    found = float_ns([days, 0.0, -2.5, 1e-9], Written(b"", FINE_START))
    assert found is not None
    assert found.tolist() == [345_600_000_000_001, 0, -2500, 0]


def test_missing_times_and_none_at_all_are_told() -> None:
    nothing = Written(b"", FINE_START)
    found = float_ns([1.5, float("nan")], nothing)
    assert found is not None
    assert found.tolist() == [1500, NO_TIME]
    empty = float_ns([], nothing)
    assert empty is not None
    assert empty.dtype == np.int64
    assert not len(empty)
    assert float_ns([float("inf")], nothing) is None


@examples(3)
@given(st.lists(st.integers(0, (1 << 62) + 10) | st.integers(0, 10**19), min_size=1, max_size=4))
@example([(1 << 62) - 1])
@example([1 << 62])
@example([9_999_999_999_999_999_999])
def test_texts_of_three_decimals_are_exact_or_refused(times_ns: list[int]) -> None:
    stated = [f"{ns // 1000}.{ns % 1000:03d}" for ns in times_ns]
    raws = [msgspec.Raw(each.encode()) for each in stated]
    found = text_ns(raws, Written(b"", FINE_START))
    if max(times_ns) < 1 << 62:
        assert found is not None
        assert found.tolist() == times_ns
    else:
        assert found is None
