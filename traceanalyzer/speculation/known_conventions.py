"""What each engine means by its acceptance numbers, version by version: the table.

A row is read in the named source; `traceanalyzer.speculation.conventions` looks rows up.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """What a number counts; A is accept_len, k the draft steps, n the verified tokens."""

    LENGTH = "A"
    DRAFTS = "A - 1"
    BONUS_TWICE = "A + 1"
    SHARE_OF_SLOTS = "A / n"
    SHARE_OF_STEPS_AND_BONUS = "A / (k + 1)"
    SHARE_OF_DRAFTS = "(A - 1) / (n - 1)"
    SHARE_OF_STEPS = "(A - 1) / k"
    SURVIVAL = "P(accepted >= i) by position"
    CONDITIONAL = "P(accepted >= i given accepted >= i - 1) by position"
    HISTOGRAM = "cycles by accepted drafts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Convention:
    """What one engine means by one name, in some of its versions.

    Attributes:
        engine: Who prints it.
        name: What it is called there.
        kind: What it counts.
        read_as: The same in words.
        source: Where that was read.
        other_names: Further names of the same number.
        oldest: The oldest version in which it was read; "" when versions do not matter.
        newest: The newest version in which it was read; "" when it still holds.
        overlap: True when it holds under the overlap scheduler only.
        notes: What a reader should know of its weaknesses.
    """

    engine: str
    name: str
    kind: Kind
    read_as: str
    source: str
    other_names: tuple[str, ...] = ()
    oldest: str = ""
    newest: str = ""
    overlap: bool = False
    notes: tuple[str, ...] = ()

    @property
    def versions(self) -> str:
        """The versions it was read in, as a text."""
        if self.oldest == self.newest:
            span = self.oldest or "all"
        else:
            span = f"{self.oldest} to {self.newest}" if self.newest else f"{self.oldest} and later"
        return f"{span}, overlap scheduler" if self.overlap else span

    @property
    def bonus_included(self) -> bool:
        """Whether the bonus token is counted in it (twice, for one of them)."""
        return self.kind in _WITH_BONUS


_WITH_BONUS: Final = frozenset(
    {Kind.LENGTH, Kind.BONUS_TWICE, Kind.SHARE_OF_SLOTS, Kind.SHARE_OF_STEPS_AND_BONUS}
)
_PAST_THE_END: Final = (
    "drafts accepted behind the end of a sequence are counted: too high on short answers",
)
_SGLANG_METRICS: Final = "update_spec_metrics and log_decode_stats"

CONVENTIONS: Final[tuple[Convention, ...]] = (
    Convention(
        engine="SGLang",
        name="accept len",
        other_names=("spec_accept_length", "avg_spec_accept_length"),
        kind=Kind.LENGTH,
        read_as="tokens a verify, bonus included, prefill batches counted as verifies",
        source=f"SGLang 0.4.6.post5 and 0.4.9.post6, scheduler.py: {_SGLANG_METRICS}",
        oldest="0.4.6",
        newest="0.4.9",
        notes=("prefill batches count as verifies that accepted nothing: a little too low",),
    ),
    Convention(
        engine="SGLang",
        name="accept len",
        other_names=("spec_accept_length", "avg_spec_accept_length"),
        kind=Kind.LENGTH,
        read_as="tokens a verify, bonus included",
        source=f"SGLang 0.5.3.post3 to 0.5.23, metrics mixin and reporter: {_SGLANG_METRICS}",
        oldest="0.5.3",
    ),
    Convention(
        engine="SGLang",
        name="accept len",
        other_names=("spec_accept_length", "avg_spec_accept_length"),
        kind=Kind.BONUS_TWICE,
        read_as="tokens a verify, bonus counted twice",
        source="SGLang 0.5.3.post3, eagle_info_v2.py: accept_length.add_(1), then + bs in the log",
        oldest="0.5.3",
        newest="0.5.3",
        overlap=True,
    ),
    Convention(
        engine="SGLang",
        name="accepted drafts",
        other_names=(
            "num_accepted_tokens",
            "num_correct_drafts_per_req",
            "accept_length_per_req_cpu",
            "ema_accept_len",
        ),
        kind=Kind.DRAFTS,
        read_as="accepted drafts a verify, bonus left out, inside the scheduler",
        source="SGLang, adaptive_spec_params.py; 0.5.9 eagle_info.py",
    ),
    Convention(
        engine="SGLang",
        name="accept rate",
        kind=Kind.SHARE_OF_STEPS_AND_BONUS,
        read_as="tokens with the bonus, over draft steps + 1",
        source="SGLang 0.5.3.post3, scheduler_metrics_mixin.py",
        oldest="0.5.3",
        newest="0.5.3",
    ),
    Convention(
        engine="SGLang",
        name="accept rate",
        kind=Kind.SHARE_OF_SLOTS,
        read_as="tokens with the bonus, over verified tokens (num_draft_tokens)",
        source="SGLang 0.5.6.post2 to 0.5.10.post1, scheduler metrics mixin",
        oldest="0.5.6",
        newest="0.5.10",
    ),
    Convention(
        engine="SGLang",
        name="accept rate",
        kind=Kind.SHARE_OF_DRAFTS,
        read_as="accepted drafts over drafts verified (num_draft_tokens - 1)",
        source="SGLang 0.5.12.post1, metrics mixin; 0.5.15, metrics_reporter.py",
        oldest="0.5.12",
    ),
    Convention(
        engine="SGLang",
        name="spec_accept_rate",
        kind=Kind.SHARE_OF_DRAFTS,
        read_as="accepted drafts over proposed drafts, of one request",
        source="SGLang pull request 33518",
        notes=("read in pull request 33518 only: earlier versions may have divided otherwise",),
    ),
    Convention(
        engine="SGLang",
        name="spec_accept_histogram",
        kind=Kind.HISTOGRAM,
        read_as="verifies of one request by accepted drafts, bonus left out",
        source="SGLang 0.5.9, tokenizer_manager.py; pull request 33518",
    ),
    Convention(
        engine="vLLM",
        name="mean acceptance length",
        kind=Kind.DRAFTS,
        read_as="accepted drafts a verify, bonus left out",
        source="vLLM 0.8.5.post1, v1/spec_decode/metrics.py",
        oldest="0.8.5",
        newest="0.8.5",
        notes=_PAST_THE_END,
    ),
    Convention(
        engine="vLLM",
        name="mean acceptance length",
        kind=Kind.LENGTH,
        read_as="1 + accepted drafts over verifies, bonus included",
        source="vLLM pull request 17908 (May 2025); 0.10.2 to 0.33.0, v1/spec_decode/metrics.py",
        oldest="0.10.2",
        notes=_PAST_THE_END,
    ),
    Convention(
        engine="vLLM",
        name="draft acceptance rate",
        other_names=("avg draft acceptance rate", "acceptance rate"),
        kind=Kind.SHARE_OF_STEPS,
        read_as="accepted drafts over drafted tokens (printed in per cent)",
        source="vLLM 0.8.5.post1 to 0.33.0, v1/spec_decode/metrics.py",
        notes=_PAST_THE_END,
    ),
    Convention(
        engine="vLLM",
        name="per-position acceptance rate",
        kind=Kind.SURVIVAL,
        read_as="share of verifies that accepted position i: survival, not conditional",
        source="vLLM 0.8.5.post1 to 0.33.0, v1/spec_decode/metrics.py",
        notes=_PAST_THE_END,
    ),
    Convention(
        engine="llama.cpp",
        name="mean length",
        kind=Kind.LENGTH,
        read_as="1 + accepted drafts over draft rounds, bonus included",
        source="llama.cpp pull request 24536",
    ),
    Convention(
        engine="llama.cpp",
        name="per-position acceptance rate",
        kind=Kind.SURVIVAL,
        read_as="share of draft rounds that accepted position i: survival",
        source="llama.cpp pull request 24536",
    ),
    Convention(
        engine="TensorRT-LLM",
        name="acceptance rate",
        other_names=("acceptance_rate_threshold",),
        kind=Kind.SHARE_OF_STEPS,
        read_as="accepted drafts over drafted tokens",
        source="TensorRT-LLM, LLM API reference",
    ),
    Convention(
        engine="NeMo AutoModel",
        name="acceptance rate",
        kind=Kind.SHARE_OF_STEPS,
        read_as="(SGLang's accept length - 1) over draft steps",
        source="NeMo AutoModel documentation, bench_sglang",
    ),
    Convention(
        engine="NeMo-Skills",
        name="per-position acceptance rate",
        kind=Kind.CONDITIONAL,
        read_as="share that accepted position i of those that accepted all before: conditional",
        source="NeMo-Skills documentation",
    ),
    Convention(
        engine="AIPerf",
        name="acceptance length",
        kind=Kind.LENGTH,
        read_as="1 + accepted drafts over steps, bonus included",
        source="AIPerf, spec-decode-acceptance.md",
    ),
    Convention(
        engine="AIPerf",
        name="accepted drafts histogram",
        kind=Kind.HISTOGRAM,
        read_as="steps by accepted drafts, bonus left out",
        source="AIPerf, spec-decode-acceptance.md",
    ),
    Convention(
        engine="Hugging Face model card",
        name="AccLen",
        kind=Kind.LENGTH,
        read_as="tokens a verify, bonus included",
        source="Model card of the Kimi-K2.7 coder's draft model, k = 3",
    ),
    Convention(
        engine="Hugging Face model card",
        name="AccRate",
        kind=Kind.SHARE_OF_STEPS,
        read_as="accepted drafts over drafted tokens",
        source="Model card of the Kimi-K2.7 coder's draft model, k = 3",
    ),
    Convention(
        engine="EAGLE papers",
        name="average acceptance length",
        other_names=("tau",),
        kind=Kind.LENGTH,
        read_as="tokens a cycle, bonus included",
        source="EAGLE, EAGLE-2 and EAGLE-3, their tau",
    ),
)
