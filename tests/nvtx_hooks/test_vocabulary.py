from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nvtx_hooks import vocabulary
from nvtx_hooks.vocabulary import LAYOUTS, Flags

PACKERS = {
    vocabulary.BATCH: vocabulary.pack_batch,
    vocabulary.TOKENS: vocabulary.pack_tokens,
    vocabulary.PROMPT: vocabulary.pack_prompt,
    vocabulary.ACCEPT: vocabulary.pack_accept,
    vocabulary.ACCEPT_COUNT: vocabulary.pack_accept_count,
    vocabulary.OVERSHOOT: vocabulary.pack_overshoot,
    vocabulary.RANKS: vocabulary.pack_ranks,
    vocabulary.SIGNATURE: vocabulary.pack_signature,
}


def test_every_mark_has_a_packer() -> None:
    assert tuple(PACKERS) == vocabulary.MARKS


@settings(deadline=None)
@given(st.sampled_from(vocabulary.MARKS), st.data())
def test_pack_and_unpack_are_inverse_and_fit_an_int64(mark: str, data: st.DataObject) -> None:
    values = {
        field.name: data.draw(st.integers(0, field.mask), field.name) for field in LAYOUTS[mark]
    }
    payload = PACKERS[mark](**values)
    assert type(payload) is int
    assert 0 <= payload < 2**63
    assert vocabulary.unpack(mark, payload) == values


@settings(deadline=None)
@given(st.sampled_from(vocabulary.MARKS), st.data())
def test_large_counts_stop_instead_of_wrapping(mark: str, data: st.DataObject) -> None:
    field = data.draw(st.sampled_from([f for f in LAYOUTS[mark] if f.name != "cycle"]))
    values = {f.name: 1 for f in LAYOUTS[mark]}
    values[field.name] = data.draw(st.integers(field.mask, 2**70))
    unpacked = vocabulary.unpack(mark, PACKERS[mark](**values))
    assert unpacked == values | {field.name: field.mask}


@settings(deadline=None)
@given(st.sampled_from(vocabulary.MARKS), st.data())
def test_negative_values_are_refused(mark: str, data: st.DataObject) -> None:
    field = data.draw(st.sampled_from(LAYOUTS[mark]))
    values = {f.name: 1 for f in LAYOUTS[mark]} | {field.name: -1}
    with pytest.raises(ValueError, match=f"not a {field.name}: -1"):
        PACKERS[mark](**values)


def test_a_number_that_is_no_cycle_is_refused() -> None:
    with pytest.raises(ValueError, match="not a cycle: 16777216"):
        vocabulary.pack_tokens(2**24, 0, 0)


def test_flags_do_not_leak_into_the_payload_type() -> None:
    payload = vocabulary.pack_batch(1, 2, 3, Flags.IDLE | Flags.STALE)
    assert type(payload) is int
    assert vocabulary.unpack("batch", payload)["flags"] == 24


def test_flags_have_six_bits() -> None:
    assert max(Flags) == Flags.OVERSHOOT == 1 << 5
    assert sum(Flags) == 0x3F


def test_cycle_numbers_wrap_past_zero() -> None:
    assert vocabulary.next_cycle(vocabulary.NO_CYCLE) == 1
    assert vocabulary.next_cycle(1) == 2
    assert vocabulary.next_cycle(2**24 - 1) == 1


@pytest.mark.parametrize("payload", [-1, 1 << 62, 1 << 80])
def test_unpack_refuses_what_no_packer_makes(payload: int) -> None:
    with pytest.raises(ValueError, match="not a payload of accept"):
        vocabulary.unpack("accept", payload)


def test_unpack_knows_only_its_marks() -> None:
    with pytest.raises(KeyError):
        vocabulary.unpack("draft", 0)


@settings(deadline=None)
@given(st.text())
def test_request_hash_is_16_bits_and_never_the_unknown_one(request_id: str) -> None:
    assert 0 < vocabulary.request_hash(request_id) < 2**16


def test_request_hash_is_the_same_in_every_process() -> None:
    program = "from nvtx_hooks.vocabulary import request_hash; print(request_hash('cmpl-7'))"
    printed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert int(printed) == vocabulary.request_hash("cmpl-7")


def test_every_phase_has_a_range_and_conditions_have_no_phase() -> None:
    assert set(vocabulary.RANGE_PHASES.values()) == set(vocabulary.PHASES)
    assert not set(vocabulary.CONDITIONS) & set(vocabulary.RANGE_PHASES)
    assert len(set(vocabulary.RANGES)) == len(vocabulary.RANGES)
    assert not set(vocabulary.RANGES) & set(vocabulary.MARKS)


def test_fused_names_phases_in_order() -> None:
    assert vocabulary.fused("draft_extend", "draft") == "fused(draft_extend, draft)"
    for wrong in (("draft",), ("draft", "cycle"), ()):
        with pytest.raises(ValueError, match="not phases to fuse"):
            vocabulary.fused(*wrong)


@settings(deadline=None)
@given(
    st.sampled_from([*vocabulary.RANGES, *vocabulary.MARKS, "fused(draft_extend, draft)"]),
    st.none() | st.integers(0, 2**63 - 1),
)
def test_annotations_are_read_back(name: str, payload: int | None) -> None:
    text = vocabulary.annotation(name, payload)
    assert vocabulary.read_annotation(text) == (name, payload)


@pytest.mark.parametrize(
    "text", ["", "eagle", "eagle:", "verify:3", "eagle:verify:", "eagle:verify:x", "eagle:a:-1"]
)
def test_other_texts_are_not_annotations(text: str) -> None:
    assert vocabulary.read_annotation(text) is None
