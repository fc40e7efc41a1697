"""Other people's acceptance numbers, brought to ours and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import examples
from traceanalyzer.errors import InputError
from traceanalyzer.speculation.acceptance import AcceptanceCounts, accept_len_from_survival
from traceanalyzer.speculation.conventions import (
    CONVENTIONS,
    Convention,
    Kind,
    conversion_of,
    find_convention,
    from_accept_len,
    from_survival,
    impossible,
    to_accept_len,
    to_counts,
    to_survival,
)

BY_POSITION = {Kind.SURVIVAL, Kind.CONDITIONAL}


def label(row: Convention) -> str:
    return f"{row.engine}, {row.name}, {row.versions}"


SINGLE = [row for row in CONVENTIONS if row.kind not in {*BY_POSITION, Kind.HISTOGRAM}]
POSITIONS = [row for row in CONVENTIONS if row.kind in BY_POSITION]
HISTOGRAMS = [row for row in CONVENTIONS if row.kind is Kind.HISTOGRAM]


# What each means, by hand for a chain of k = 5 whose cycles accept 1.25 drafts: accept_len 2.25.
@pytest.mark.parametrize(
    ("engine", "name", "version", "printed", "bonus"),
    [
        ("SGLang", "accept len", "0.4.6.post5", 2.25, True),
        ("SGLang", "accept len", "0.5.9", 2.25, True),
        ("SGLang", "spec_accept_length", "0.5.23", 2.25, True),
        ("SGLang", "num_accepted_tokens", "0.5.9", 1.25, False),
        ("SGLang", "num_correct_drafts_per_req", "0.5.15", 1.25, False),
        ("SGLang", "ema_accept_len", None, 1.25, False),
        ("SGLang", "accept rate", "0.5.3.post3", 2.25 / 6, True),
        ("SGLang", "accept rate", "0.5.6.post2", 2.25 / 6, True),
        ("SGLang", "accept rate", "0.5.10.post1", 2.25 / 6, True),
        ("SGLang", "accept rate", "0.5.12.post1", 1.25 / 5, False),
        ("SGLang", "spec_accept_rate", "0.5.23", 1.25 / 5, False),
        ("vLLM", "Mean acceptance length", "0.8.5.post1", 1.25, False),
        ("vLLM", "Mean acceptance length", "0.10.2", 2.25, True),
        ("vLLM", "Mean acceptance length", "0.33.0", 2.25, True),
        ("vLLM", "Draft acceptance rate", "0.8.5", 1.25 / 5, False),
        ("vLLM", "Avg Draft acceptance rate", "0.24.0", 1.25 / 5, False),
        ("llama.cpp", "mean length", None, 2.25, True),
        ("TensorRT-LLM", "acceptance_rate_threshold", None, 1.25 / 5, False),
        ("NeMo AutoModel", "acceptance_rate", None, 1.25 / 5, False),
        ("AIPerf", "acceptance length", None, 2.25, True),
        ("Hugging Face model card", "AccLen", None, 2.25, True),
        ("Hugging Face model card", "AccRate", None, 1.25 / 5, False),
        ("EAGLE papers", "tau", None, 2.25, True),
    ],
)
def test_what_each_name_means(
    engine: str, name: str, version: str | None, printed: float, bonus: bool
) -> None:
    row = find_convention(engine, name, version)
    assert to_accept_len(row, printed, draft_tokens=5) == pytest.approx(2.25)
    assert from_accept_len(row, 2.25, draft_tokens=5) == pytest.approx(printed)
    assert row.bonus_included is bonus
    assert not any("not read in" in note for note in row.notes)
    assert row.source
    assert conversion_of(row)


@pytest.mark.parametrize("row", SINGLE, ids=label)
@examples(0.2)
@given(k=st.integers(1, 16), more=st.integers(0, 48), share=st.floats(0, 1))
def test_a_length_comes_back(row: Convention, k: int, more: int, share: float) -> None:
    length = 1 + share * k
    shape = {"draft_tokens": k, "verified_tokens": k + 1 + more}
    printed = from_accept_len(row, length, **shape)
    assert to_accept_len(row, printed, **shape) == pytest.approx(length, rel=1e-12)


@pytest.mark.parametrize("row", POSITIONS, ids=label)
@examples(0.3)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_survival_comes_back(row: Convention, shares: list[float]) -> None:
    survival = tuple(sorted(shares, reverse=True))
    printed = from_survival(row, survival)
    assert to_survival(row, printed) == pytest.approx(survival, rel=1e-12)


@pytest.mark.parametrize("row", HISTOGRAMS, ids=label)
@examples(0.2)
@given(st.lists(st.integers(0, 50), min_size=2, max_size=9).filter(any))
def test_a_histogram_comes_back(row: Convention, histogram: list[int]) -> None:
    counts = to_counts(row, histogram, len(histogram) - 1)
    assert counts.histogram() == tuple(histogram)


def test_the_two_meanings_of_per_position() -> None:
    counts = AcceptanceCounts.from_histogram(3, [4, 3, 2, 1])
    survival = find_convention("vLLM", "Per-position acceptance rate", "0.24.0")
    conditional = find_convention("NeMo-Skills", "per-position acceptance rate")
    assert from_survival(survival, counts.survival()) == pytest.approx([0.6, 0.3, 0.1])
    assert from_survival(conditional, counts.survival()) == pytest.approx([0.6, 1 / 2, 1 / 3])


def test_sglang_counted_the_bonus_twice_under_overlap_in_one_version() -> None:
    twice = find_convention("SGLang", "accept len", "0.5.3.post3", overlap=True)
    assert to_accept_len(twice, 3.25) == 2.25
    for version, overlap in (("0.5.3", False), ("0.5.6", True), ("0.5.9", True), ("0.4.9", True)):
        row = find_convention("SGLang", "accept len", version, overlap=overlap)
        assert to_accept_len(row, 2.25) == 2.25
    unsure = find_convention("SGLang", "accept len", "0.5.3")
    assert any("counted twice" in note for note in unsure.notes)
    assert not find_convention("SGLang", "accept len", "0.5.3", overlap=False).notes


def test_sglang_rates_tell_trees_apart() -> None:
    """Five steps whose tree verifies 16 tokens, with 2.25 tokens committed."""
    shape = {"draft_tokens": 5, "verified_tokens": 16}
    for version, printed in (("0.5.3", 2.25 / 6), ("0.5.9", 2.25 / 16), ("0.5.15", 1.25 / 15)):
        row = find_convention("SGLang", "accept rate", version)
        assert to_accept_len(row, printed, **shape) == pytest.approx(2.25)


def test_published_pairs_agree() -> None:
    llama = find_convention("llama.cpp", "mean length")
    assert round(to_accept_len(llama, 1 + 167 / 87), 2) == 2.92
    reach = to_survival(
        find_convention("llama.cpp", "per-position acceptance rate"), [0.805, 0.632, 0.483]
    )
    assert accept_len_from_survival(reach) == pytest.approx(1 + 167 / 87, abs=0.001)
    rate = find_convention("Hugging Face model card", "AccRate")
    assert to_accept_len(rate, 0.4484, draft_tokens=3) == pytest.approx(2.345, abs=0.0005)
    request = find_convention("SGLang", "spec_accept_rate")
    assert to_accept_len(request, 63 / 215, draft_tokens=5) == pytest.approx(106 / 43)
    histogram = find_convention("SGLang", "spec_accept_histogram")
    assert to_counts(histogram, [11, 14, 11, 4, 0, 3], 5).accept_len == pytest.approx(106 / 43)


def test_an_unknown_version_is_read_as_the_newest_and_says_so() -> None:
    row = find_convention("vLLM", "mean acceptance length")
    assert row.kind is Kind.LENGTH
    assert any("version unknown" in note and "bonus left out" in note for note in row.notes)
    assert not find_convention("AIPerf", "acceptance length").notes


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("0.5.4", Kind.SHARE_OF_SLOTS),
        ("0.5.11", Kind.SHARE_OF_DRAFTS),
        ("0.5.1", Kind.SHARE_OF_STEPS_AND_BONUS),
    ],
)
def test_a_version_that_was_not_read_is_marked(version: str, kind: Kind) -> None:
    row = find_convention("SGLang", "accept rate", version)
    assert row.kind is kind
    assert any(f"not read in {version}" in note for note in row.notes)


def test_names_are_found_however_they_are_written() -> None:
    wanted = find_convention("SGLang", "accept len", "0.5.9")
    for engine, name, version in (
        ("sglang", "Accept_Len", "v0.5.9"),
        (" SGLANG ", "accept-len", "0.5.9rc1+cu128"),
    ):
        assert find_convention(engine, name, version) == wanted


@pytest.mark.parametrize(
    ("engine", "name", "version", "says"),
    [
        ("Exllama", "accept len", None, "no acceptance numbers of Exllama"),
        ("SGLang", "luck", None, "no acceptance number called luck"),
        ("SGLang", "accept len", "main", "is no version"),
    ],
)
def test_the_unknown_is_refused(engine: str, name: str, version: str | None, says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        find_convention(engine, name, version)
    assert caught.value.next_step


def test_what_cannot_be_converted_is_refused() -> None:
    rate = find_convention("vLLM", "acceptance rate")
    with pytest.raises(InputError, match="how many"):
        to_accept_len(rate, 0.25)
    with pytest.raises(InputError, match="how many"):
        to_accept_len(rate, 0.25, draft_tokens=0)
    with pytest.raises(InputError, match="cannot be"):
        to_accept_len(rate, 44.84, draft_tokens=3)
    with pytest.raises(InputError, match="cannot be"):
        to_accept_len(find_convention("AIPerf", "acceptance length"), float("nan"))
    positions = find_convention("vLLM", "per-position acceptance rate")
    with pytest.raises(InputError, match="a position"):
        to_accept_len(positions, 0.5, draft_tokens=3)
    with pytest.raises(InputError, match="0 to 1"):
        to_survival(positions, [80.5])
    for convert in (to_survival, from_survival):
        with pytest.raises(InputError, match="not one share a position"):
            convert(rate, [0.5])
    with pytest.raises(InputError, match="not a histogram"):
        to_counts(rate, [1, 2], 1)


def test_impossible_lengths_say_why() -> None:
    below = impossible(0.98, 5)
    assert below is not None
    assert "leaves the bonus token out (1.98 with it)" in below
    above = impossible(6.5, 5)
    assert above is not None
    assert "above 6" in above
    assert "5.5 without" in above
    assert impossible(1 - 1e-12, 5) is None  # a quotient's last digit
    assert impossible(6 + 1e-12, 5) is None
    for never in (float("nan"), float("inf"), -0.5):
        assert impossible(never, None) is not None


@examples(0.3)
@given(st.integers(1, 16), st.floats(0, 1))
def test_possible_lengths_pass(k: int, share: float) -> None:
    assert impossible(1 + share * k, k) is None
    assert impossible(1 + share * k, None) is None


@pytest.mark.parametrize("version", ["9" * 5000, "newest", "", "."])
def test_what_is_no_version_is_told(version: str) -> None:
    with pytest.raises(InputError, match="is no version"):
        find_convention("SGLang", "accept len", version)
