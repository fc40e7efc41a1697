"""SGLang's answers in JSON, written from requests whose cycles are known."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import examples
from traceanalyzer.errors import InputError
from traceanalyzer.importers.acceptance.log import parse_acceptance
from traceanalyzer.speculation.acceptance import AcceptanceCounts


@dataclass(frozen=True)
class Request:
    """Accepted drafts by cycle, and the tokens that the answer's end cut off."""

    k: int
    accepted: tuple[int, ...]
    past_the_end: int = 0

    @property
    def completion_tokens(self) -> int:
        return 1 + sum(self.accepted) + len(self.accepted) - self.past_the_end

    @property
    def histogram(self) -> list[int]:
        counts = Counter(self.accepted)
        return [counts[at] for at in range(max(self.accepted) + 1)]


def _meta(version: str, it: Request) -> dict[str, Any]:
    """A request's `meta_info` as `version` fills it."""
    verifies = len(it.accepted)
    meta: dict[str, Any] = {
        "id": "a",
        "completion_tokens": it.completion_tokens,
        "spec_verify_ct": verifies,
    }
    if version == "0.4.9":
        return meta
    meta["spec_accept_length"] = it.completion_tokens / verifies
    meta["spec_accept_rate"] = sum(it.accepted) / (verifies * it.k)
    if version == "0.5.3":
        return meta
    old = version == "0.5.9"
    meta["spec_accept_token_num" if old else "spec_num_correct_drafts"] = sum(it.accepted)
    meta["spec_draft_token_num" if old else "spec_num_proposed_drafts"] = verifies * it.k
    meta["spec_accept_histogram" if old else "spec_correct_drafts_histogram"] = it.histogram
    return meta


def _request(k: int, size: int, seed: int) -> Request:
    rng = random.Random(seed)
    accepted = tuple(rng.randint(0, k) for _ in range(size))
    return Request(k, accepted, rng.randint(0, accepted[-1]))


_requests = st.integers(1, 7).flatmap(
    lambda k: st.lists(
        st.builds(_request, st.just(k), st.integers(1, 40), st.integers(0, 10**6)),
        min_size=1,
        max_size=8,
    )
)
LAYOUTS = ("a line each", "one list", "indented list", "indented one by one", "meta only")


def _text(layout: str, metas: list[dict[str, Any]]) -> str:
    answers = [{"text": "...", "meta_info": meta} for meta in metas]
    if layout == "one list":
        return json.dumps(answers)
    if layout == "indented list":
        return json.dumps(answers, indent=2)
    if layout == "indented one by one":
        return "\n".join(json.dumps(each, indent=2) for each in answers)
    return "\n".join(json.dumps(each) for each in (metas if layout == "meta only" else answers))


@given(st.sampled_from(("0.4.9", "0.5.3", "0.5.9", "0.5.23")), st.sampled_from(LAYOUTS), _requests)
@examples()
def test_answers_read_back_to_the_tokens_committed_a_cycle(
    version: str, layout: str, requests: list[Request]
) -> None:
    reading = parse_acceptance(_text(layout, [_meta(version, each) for each in requests]))
    verifies = sum(len(each.accepted) for each in requests)
    committed = sum(each.completion_tokens - 1 for each in requests)
    assert reading.accept_len == pytest.approx(committed / verifies)
    assert (reading.request_cycles, reading.committed_tokens) == (verifies, committed)
    if version in ("0.5.9", "0.5.23"):
        k = requests[0].k
        counts = AcceptanceCounts(
            Counter((k, accepted) for each in requests for accepted in each.accepted)
        )
        assert (reading.counts, reading.draft_tokens) == (counts, k)
        past = sum(each.past_the_end for each in requests)
        assert past == 0 or any(note.startswith(f"{past} accepted") for note in reading.notes)
    else:
        assert reading.counts is None


def test_the_worked_example_of_sglang_keeps_its_numbers() -> None:
    # 43 verifies, 63 of 215 drafts accepted, 106 tokens beside the prompt's own.
    meta = {
        "completion_tokens": 107,
        "spec_verify_ct": 43,
        "spec_num_correct_drafts": 63,
        "spec_num_proposed_drafts": 215,
        "spec_correct_drafts_histogram": [11, 14, 11, 4, 0, 3],
        "spec_accept_length": 107 / 43,
    }
    reading = parse_acceptance(json.dumps({"meta_info": meta}))
    assert reading.accept_len == pytest.approx(2.4651, abs=5e-5)
    assert reading.draft_tokens == 5
    assert reading.counts is not None
    assert reading.counts.accept_len == pytest.approx(reading.accept_len)


def test_a_histogram_without_draft_tokens_takes_the_longest_seen_and_says_so() -> None:
    meta = {"completion_tokens": 9, "spec_verify_ct": 4, "spec_accept_histogram": [2, 0, 2]}
    reading = parse_acceptance(json.dumps({"meta_info": meta}))
    assert reading.draft_tokens is None
    assert reading.counts == AcceptanceCounts({(2, 0): 2, (2, 2): 2})
    assert any("longest seen, 2" in note for note in reading.notes)
    told = parse_acceptance(json.dumps({"meta_info": meta}), draft_tokens=4)
    assert told.counts == AcceptanceCounts({(4, 0): 2, (4, 2): 2})


def test_answers_with_the_ratio_alone_count_alike() -> None:
    metas = [{"meta_info": {"spec_accept_length": each}} for each in (2.0, 3.0)]
    reading = parse_acceptance(json.dumps(metas))
    assert (reading.accept_len, reading.request_cycles) == (2.5, None)
    assert any("count alike" in note for note in reading.notes)
    mixed = [*metas, {"meta_info": {"spec_verify_ct": 4, "completion_tokens": 9}}]
    with pytest.raises(InputError, match="others have them"):
        parse_acceptance(json.dumps(mixed))


def test_verifies_without_completion_tokens_weigh_the_ratio() -> None:
    metas = [
        {"spec_accept_length": 2.0, "spec_verify_ct": 30},
        {"spec_accept_length": 4.0, "spec_verify_ct": 10},
    ]
    reading = parse_acceptance("\n".join(map(json.dumps, metas)))
    assert reading.accept_len == pytest.approx(2.5)
    assert reading.committed_tokens is None


def test_answers_of_a_server_without_speculation_are_no_figure() -> None:
    plain = {"meta_info": {"completion_tokens": 9, "spec_verify_ct": 0}}
    with pytest.raises(InputError, match="line 1"):
        parse_acceptance(json.dumps(plain))


@pytest.mark.parametrize(
    ("meta", "says"),
    [
        ({"spec_verify_ct": 2.5}, "spec_verify_ct is 2.5, no count"),
        ({"spec_verify_ct": "many"}, "spec_verify_ct is many, no number"),
        ({"spec_accept_length": float("nan")}, "spec_accept_length is nan"),
        ({"spec_verify_ct": 2, "spec_accept_histogram": {"0": 2}}, "no list of counts"),
        ({"spec_verify_ct": 2, "spec_accept_histogram": [1, -1]}, "-1, no count"),
    ],
)
def test_figures_that_cannot_be_name_their_line(meta: dict[str, Any], says: str) -> None:
    good = {"meta_info": {"spec_verify_ct": 4, "completion_tokens": 9}}
    text = "\n".join(json.dumps(each) for each in (good, {"meta_info": meta}))
    with pytest.raises(InputError, match=f"line 2: .*{says}"):
        parse_acceptance(text)


def test_server_info_gives_the_mean_since_the_start() -> None:
    info = {
        "version": "0.5.9",
        "speculative_num_draft_tokens": 6,
        "internal_states": [
            {"avg_spec_accept_length": 2.5},
            {"avg_spec_accept_length": 3.0},
            {"avg_spec_accept_length": None},
        ],
    }
    reading = parse_acceptance(json.dumps(info, indent=1))
    assert (reading.accept_len, reading.draft_tokens) == (2.75, 5)
    assert reading.source == "SGLang 0.5.9 server info"
    assert any("2 schedulers" in note for note in reading.notes)
    assert "warm-up included" in reading.notes


def test_the_average_of_0_5_3_overlap_is_corrected_and_a_request_s_own_is_not() -> None:
    info = json.dumps({"avg_spec_accept_length": 3.5})
    assert parse_acceptance(info, version="0.5.3 overlap").accept_len == 2.5
    meta = json.dumps({"spec_accept_length": 3.5, "spec_verify_ct": 4})
    assert parse_acceptance(meta, version="0.5.3 overlap").accept_len == 3.5
