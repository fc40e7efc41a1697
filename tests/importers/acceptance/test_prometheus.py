"""Prometheus dumps of vLLM and SGLang, written from known counts."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import examples
from traceanalyzer.errors import InputError
from traceanalyzer.importers.acceptance.log import parse_acceptance, read_acceptance
from traceanalyzer.importers.acceptance.prometheus import sample_in
from traceanalyzer.speculation.acceptance import AcceptanceCounts

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

K = 4


def _dump(
    accepted: Sequence[int], *, total: str = "_total", engine: int = 0, model: str = "m"
) -> str:
    """What an engine exports after drafts of K tokens that accepted these."""
    labels = f'engine="{engine}",model_name="{model}"'
    counters = {
        "drafts": len(accepted),
        "draft_tokens": K * len(accepted),
        "accepted_tokens": sum(accepted),
    }
    lines = ["# HELP vllm:num_requests_running Requests.", "vllm:num_requests_running 3.0"]
    for name, value in counters.items():
        lines += [
            f"# TYPE vllm:spec_decode_num_{name}{total} counter",
            f"vllm:spec_decode_num_{name}{total}{{{labels}}} {float(value)}",
            f"vllm:spec_decode_num_{name}_created{{{labels}}} 1.7e+09",
        ]
    lines += [
        f'vllm:spec_decode_num_accepted_tokens_per_pos{total}{{{labels},position="{at}"}} '
        f"{float(sum(each > at for each in accepted))}"
        for at in range(K)
    ]
    return "\n".join(lines) + "\n"


def _counts(accepted: Sequence[int]) -> AcceptanceCounts:
    return AcceptanceCounts(Counter((K, each) for each in accepted))


_accepted = st.lists(st.integers(0, K), min_size=1, max_size=200)


@given(_accepted, st.sampled_from(("_total", "")))
@examples(0.5)
def test_a_dump_reads_back_to_its_counts(accepted: list[int], total: str) -> None:
    reading = parse_acceptance(_dump(accepted, total=total))
    counts = _counts(accepted)
    assert reading.counts == counts
    assert reading.accept_len == pytest.approx(counts.accept_len)
    assert reading.survival == pytest.approx(counts.survival())
    assert reading.committed_tokens == sum(accepted) + len(accepted)
    assert any("since the server's start" in note for note in reading.notes)


@given(_accepted, _accepted)
@examples(0.3)
def test_two_dumps_give_what_came_between(before: list[int], between: list[int]) -> None:
    text = _dump(before) + _dump([*before, *between])
    reading = parse_acceptance(text)
    assert reading.counts == _counts(between)
    assert any("between the first and the last of 2 dumps" in note for note in reading.notes)


def test_an_earlier_dump_may_lie_in_its_own_file(tmp_path: Path) -> None:
    earlier, later = tmp_path / "a.txt", tmp_path / "b.txt"
    earlier.write_text(_dump([0, 1]))
    later.write_text(_dump([0, 1, 4, 2]))
    assert read_acceptance(later, since=earlier).counts == _counts([4, 2])
    with pytest.raises(InputError, match="fell between dumps") as caught:
        read_acceptance(earlier, since=later)
    assert caught.value.where == str(earlier)
    earlier.write_text("nothing here\n")
    with pytest.raises(InputError, match="no acceptance figure") as caught:
        read_acceptance(later, since=earlier)
    assert caught.value.where == str(earlier)
    earlier.write_text("sglang:spec_accept_length 2.5\n")
    with pytest.raises(InputError, match="not counters"):
        read_acceptance(later, since=earlier)


def test_engines_add_up_and_models_do_not() -> None:
    both = _dump([0, 4], engine=0) + _dump([2], engine=1)
    assert parse_acceptance(both).counts == _counts([0, 4, 2])
    with pytest.raises(InputError, match="several models: m, other"):
        parse_acceptance(_dump([1]) + _dump([1], model="other"))


def test_counters_of_shorter_drafts_give_no_counts() -> None:
    text = _dump([1, 2, 0]).replace("draft_tokens_total{", 'draft_tokens_total{x="",', 1)
    shorter = text.replace(f"}} {float(3 * K)}", f"}} {float(3 * K - 2)}")
    assert shorter != text
    reading = parse_acceptance(shorter)
    assert (reading.counts, reading.draft_tokens) == (None, None)
    assert reading.accept_len == 2.0
    assert any("shorter ones" in note for note in reading.notes)


def test_counters_by_position_that_do_not_add_up_give_no_counts() -> None:
    text = _dump([1, 2, 0]).replace("accepted_tokens_total{", 'accepted_tokens_total{x="",')
    wrong = text.replace("} 3.0\nvllm:spec_decode_num_accepted_tokens_created", "} 2.0\nvllm:")
    assert wrong != text
    reading = parse_acceptance(wrong)
    assert reading.counts is None
    assert any("do not add up" in note for note in reading.notes)


@pytest.mark.parametrize("value", ["NaN", "+Inf", "abc", ""])
def test_a_value_that_is_no_number_is_named(value: str) -> None:
    with pytest.raises(InputError, match=r"line 2: .*num_drafts"):
        parse_acceptance(f"# HELP x\nvllm:spec_decode_num_drafts {value}".rstrip() + "\n")


def test_no_drafts_and_half_drafts_are_errors() -> None:
    with pytest.raises(InputError, match="no draft was counted"):
        parse_acceptance(_dump([]))
    with pytest.raises(InputError, match="no count"):
        parse_acceptance("vllm:spec_decode_num_drafts 2.5")


_label_text = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"])).map(
    lambda text: text.replace("\\", "\\\\").replace('"', '\\"')
)


@given(
    st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), _label_text), st.floats(0, 1e9)
)
@examples(0.3)
def test_samples_read_back(labels: dict[str, str], value: float) -> None:
    inside = ",".join(f'{name}="{text}"' for name, text in labels.items())
    found = sample_in(f"a:b_total{{{inside}}} {value!r} 1700000000000")
    assert found == ("a:b", tuple(sorted(labels.items())), value)


def _gauge(value: float, *, dp: str = "0", tp: str = "0", name: str = "spec_accept_length") -> str:
    return f'sglang:{name}{{dp_rank="{dp}",model_name="m",tp_rank="{tp}"}} {value}\n'


def test_gauges_are_averaged_over_groups_and_dumps() -> None:
    first = _gauge(2.0) + _gauge(2.0, tp="1") + _gauge(3.0, dp="1", tp="2")
    later = _gauge(0.0) + _gauge(9.0, name="spec_block_accept_length") + _gauge(4.0, dp="1", tp="2")
    text = first + later + _gauge(4, name="spec_num_draft_tokens")
    reading = parse_acceptance(text, version="0.5.23")
    assert reading.accept_len == pytest.approx(3.0)
    assert reading.draft_tokens == 3
    assert reading.source == "SGLang Prometheus gauge, 3 samples"
    assert any("last log interval only" in note for note in reading.notes)


def test_gauges_that_are_all_zero_are_an_error() -> None:
    with pytest.raises(InputError, match="nothing was decoded with speculation"):
        parse_acceptance(_gauge(0.0))
