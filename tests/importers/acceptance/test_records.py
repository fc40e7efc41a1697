"""Records of acceptance as JSON lines and CSV."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import examples
from traceanalyzer.errors import InputError
from traceanalyzer.importers.acceptance.log import parse_acceptance
from traceanalyzer.speculation.acceptance import AcceptanceCounts

Record = dict[str, Any]


def _as_json(records: list[Record]) -> str:
    return "\n".join(json.dumps(each) for each in records)


def _as_csv(records: list[Record], separator: str = ",") -> str:
    names = list(dict.fromkeys(name for each in records for name in each))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, delimiter=separator)
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


_cells = st.lists(
    st.integers(0, 9).flatmap(lambda k: st.tuples(st.just(k), st.integers(0, k))),
    min_size=1,
    max_size=60,
)


@given(_cells, st.sampled_from(("json", ",", ";", "\t")))
@examples(0.5)
def test_records_a_cycle_read_back_to_their_counts(cells: list[tuple[int, int]], form: str) -> None:
    records: list[Record] = [
        {"cycle": at // 3, "request": f"r{at % 3}", "k": k, "accepted": accepted}
        for at, (k, accepted) in enumerate(cells)
    ]
    text = _as_json(records) if form == "json" else _as_csv(records, form)
    reading = parse_acceptance(text)
    counts = AcceptanceCounts(Counter(cells))
    assert reading.counts == counts
    assert reading.accept_len == counts.accept_len
    assert reading.survival == counts.survival()
    assert reading.draft_tokens == counts.draft_tokens
    assert reading.request_cycles == len(cells)


@given(st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=6), min_size=1, max_size=9))
@examples(0.3)
def test_histograms_read_back_in_every_writing(histograms: list[list[int]]) -> None:
    expected: Counter[tuple[int, int]] = Counter()
    for histogram in histograms:
        expected.update({(5, accepted): count for accepted, count in enumerate(histogram)})
    records: list[Record] = [
        {"request": at, "histogram": histogram, "k": 5} for at, histogram in enumerate(histograms)
    ]
    texts = [_as_json(records), _as_csv(records)]
    for separator in (" ", "|", ";", ", "):
        written = [
            {**each, "histogram": separator.join(map(str, each["histogram"]))} for each in records
        ]
        texts.append(_as_csv(written))
    for text in texts:
        if expected.total():
            assert parse_acceptance(text).counts == AcceptanceCounts(expected)
        else:
            with pytest.raises(InputError, match="no live request-cycle"):
                parse_acceptance(text)


@pytest.mark.parametrize("as_text", [_as_json, _as_csv])
def test_one_number_with_its_definition(as_text: Any) -> None:
    left_out = parse_acceptance(as_text([{"accept_len": 0.98, "definition": "bonus left out"}]))
    assert left_out.accept_len == pytest.approx(1.98)
    included = {"accept_len": 2.25, "definition": "bonus included", "k": 5}
    assert parse_acceptance(as_text([included])).draft_tokens == 5


def test_flagged_cycles_are_left_out_and_said() -> None:
    records: list[Record] = [
        {"cycle": 1, "request": "a", "k": 3, "accepted": 0, "flags": ["warm-up"]},
        {"cycle": 2, "request": "a", "k": 3, "accepted": 2, "flags": []},
        {"cycle": 3, "request": "a", "k": 3, "accepted": 3, "flags": "overshoot"},
        {"cycle": 4, "request": "a", "k": 3, "accepted": 0, "flags": "stale|idle"},
    ]
    for text in (_as_json(records), _as_csv([{**each, "flags": ""} for each in records[1:3]])):
        assert parse_acceptance(text).counts == AcceptanceCounts({(3, 2): 1, (3, 3): 1})
    notes = parse_acceptance(_as_json(records)).notes
    assert "1 record flagged warm-up: left out" in notes
    assert "1 record flagged overshoot: counted, with what lies past the end" in notes


_GOOD: Record = {"cycle": 1, "request": "a", "k": 3, "accepted": 2}


@pytest.mark.parametrize(
    ("record", "says"),
    [
        ({**_GOOD, "cycle": 2, "accepted": 4}, "4 drafts accepted of 3"),
        (_GOOD, "request a comes twice in cycle 1"),
        ({**_GOOD, "cycle": 2, "accepted": -1}, "accepted is -1, no count"),
        ({**_GOOD, "cycle": 2, "accepted": 1.5}, "accepted is 1.5, no count"),
        ({**_GOOD, "cycle": 2, "accepted": float("nan")}, "accepted is nan"),
        ({**_GOOD, "cycle": 2, "accepted": None}, "no figure"),
        ({**_GOOD, "cycle": 2, "accepted": True}, "accepted is True, no number"),
        ({"cycle": 2, "request": "a", "accepted": 1}, "no k"),
        ({**_GOOD, "cycle": 2, "flags": "odd"}, "flags are odd"),
        ({**_GOOD, "cycle": 2, "flags": 5}, "flags are 5"),
        ({"request": "a", "k": 3, "histogram": [1]}, "line 1 has 'accepted'"),
        ({**_GOOD, "cycle": 2, "histogram": [1]}, "counted twice"),
    ],
)
def test_a_record_that_cannot_be_names_its_line(record: Record, says: str) -> None:
    with pytest.raises(InputError, match=f"line 2: .*{says}"):
        parse_acceptance(_as_json([_GOOD, record]))


@pytest.mark.parametrize(
    ("records", "says"),
    [
        ([{"accept_len": 2.25}], "whether accept_len includes the bonus token"),
        ([{"accept_len": 2.25, "definition": "mine"}], "definition 'mine' is not known"),
        ([{"accept_len": 2.0, "definition": "bonus included"}] * 2, "several accept_len"),
        ([{**_GOOD, "flags": "idle"}], "no live request-cycle"),
    ],
)
def test_files_without_one_answer_are_refused(records: list[Record], says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        parse_acceptance(_as_json(records))
    assert caught.value.next_step


def test_k_may_come_from_the_caller() -> None:
    text = "cycle,request,accepted\n1,a,2\n1,b,0\n"
    assert parse_acceptance(text, draft_tokens=3).counts == AcceptanceCounts({(3, 2): 1, (3, 0): 1})


@pytest.mark.parametrize("cut", ['{"cycle": 2, "request": "a", "k"', '{"cycle": 2, "requ'])
def test_a_line_that_was_cut_is_left_out_and_said(cut: str) -> None:
    reading = parse_acceptance(f"{_as_json([_GOOD])}\n{cut}")
    assert reading.request_cycles == 1
    said = "1 line of JSON that does not end in the line: left out (the first is line 2)"
    assert said in reading.notes


def test_a_row_that_was_cut_is_left_out_and_said() -> None:
    for cut in ("2,a,3", '2,"a'):
        reading = parse_acceptance(f"{_as_csv([_GOOD])}{cut}")
        assert reading.request_cycles == 1
        said = "1 line without as many values as the header names"
        assert f"{said}: left out (the first is line 3)" in reading.notes
