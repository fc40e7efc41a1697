"""What SGLang's answers say of acceptance: `meta_info` of each request, and `/get_server_info`.

A request's `spec_accept_length` is completion_tokens / spec_verify_ct, and one of those tokens came
from the prompt's forward; without it the ratio is the tokens committed a cycle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar, Final

from traceanalyzer.errors import InputError
from traceanalyzer.importers.acceptance.lines import MOST_DRAFT_TOKENS, Known, plural, shown
from traceanalyzer.importers.acceptance.numbers import convert, is_overlap
from traceanalyzer.importers.acceptance.values import count_of, counts_of, real_of
from traceanalyzer.speculation.acceptance import AcceptanceCounts, AcceptanceReading
from traceanalyzer.speculation.conventions import find_convention

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Object = Mapping[str, Any]

_DIVIDED: Final = "0.5.3"  # a request's own ratio never counts the bonus twice or prefills
# The newer name first: 0.5.23, 0.5.9 `tokenizer_manager.py`.
_ACCEPTED: Final = ("spec_num_correct_drafts", "spec_accept_token_num")
_PROPOSED: Final = ("spec_num_proposed_drafts", "spec_draft_token_num")
_HISTOGRAM: Final = ("spec_correct_drafts_histogram", "spec_accept_histogram")


@dataclass(frozen=True, slots=True)
class Answer:
    """One request's figures; None where its answer lacks them.

    Attributes:
        verifies: Cycles in which the target judged its drafts.
        completion_tokens: Tokens it got, the first one from the prompt's forward.
        accept_len: completion_tokens / verifies as the engine divided them.
        drafts: Drafts a verify.
        histogram: Verifies by accepted drafts, before the end of the answer cut some off.
    """

    verifies: int | None
    completion_tokens: int | None
    accept_len: float | None
    drafts: int | None
    histogram: tuple[int, ...] | None


def answer_in(meta: Object) -> Answer | None:
    """Read a `meta_info`, or None when it says nothing of acceptance.

    Raises:
        InputError: A figure is no number, or figures contradict one another.
    """
    verifies = count_of(meta, "spec_verify_ct") or None  # 0: the request was never verified
    accept_len = real_of(meta, "spec_accept_length") or None
    histogram = next((counts_of(meta, name) for name in _HISTOGRAM if meta.get(name)), None)
    if histogram is not None and verifies is None:
        verifies = sum(histogram) or None
    if verifies is None and accept_len is None:
        return None
    completion_tokens = count_of(meta, "completion_tokens")
    if verifies is None and accept_len is not None and completion_tokens is not None:
        verifies = max(1, round(completion_tokens / accept_len))
    return Answer(verifies, completion_tokens, accept_len, _drafts(meta, verifies), histogram)


def _drafts(meta: Object, verifies: int | None) -> int | None:
    proposed = next((found for name in _PROPOSED if (found := count_of(meta, name))), None)
    if verifies is None or proposed is None or proposed % verifies:
        return None
    drafts = proposed // verifies
    return drafts if drafts <= MOST_DRAFT_TOKENS else None


@dataclass(slots=True)
class _Sums:
    """All answers together."""

    answers: int = 0
    verifies: int = 0
    committed: int = 0
    without_counts: list[float] = field(default_factory=list)
    without_tokens: int = 0
    without_histogram: int = 0
    drafts: set[int | None] = field(default_factory=set)
    cells: Counter[tuple[int | None, int]] = field(default_factory=Counter)
    engine_tokens: float = 0.0

    def add(self, answer: Answer) -> None:
        self.answers += 1
        self.drafts.add(answer.drafts)
        if answer.verifies is None:
            self.without_counts.append(answer.accept_len or 0.0)
            return
        self.verifies += answer.verifies
        if answer.completion_tokens is None:
            self.without_tokens += 1
            self.engine_tokens += (answer.accept_len or 0.0) * answer.verifies
        else:
            self.committed += max(0, answer.completion_tokens - 1)
            self.engine_tokens += answer.completion_tokens
        if answer.histogram is None:
            self.without_histogram += 1
        for accepted, count in enumerate(answer.histogram or ()):
            self.cells[answer.drafts, accepted] += count


class SglangAnswers:
    """Collects the answers of SGLang in JSON; see `log` for how it is driven.

    Args:
        known: What the caller knows.
    """

    engine: ClassVar[str] = "sglang"
    kind: ClassVar[str] = "SGLang answers"
    looked_for: ClassVar[str] = (
        "JSON answers of SGLang with 'meta_info' or 'avg_spec_accept_length'"
    )

    def __init__(self, known: Known) -> None:
        self.used: int | None = None
        self.unusable: tuple[int, str] | None = None
        self._known = known
        self._sums = _Sums()
        self._server: Object = {}
        self._averages: list[float] = []

    def offer_object(self, number: int, value: Object) -> None:
        """Take one JSON object; one that is none of SGLang's is passed over.

        Raises:
            InputError: It is SGLang's, and a figure in it cannot be.
        """
        for meta in _metas(value):
            answer = answer_in(meta)
            if answer is None:
                self.unusable = self.unusable or (number, shown(str(dict(meta))))
            else:
                self._sums.add(answer)
                self.used = self.used or number
        for state in _states(value):
            average = real_of(state, "avg_spec_accept_length")
            if average:
                self._averages.append(average)
                self._server = value
                self.used = self.used or number

    def reading(self) -> AcceptanceReading:
        """The mean over all answers, weighted by verifies; else the server's own average."""
        return self._of_answers() if self._sums.answers else self._of_server()

    def _of_answers(self) -> AcceptanceReading:
        sums = self._sums
        draft_tokens = self._draft_tokens()
        counts = self._counts(draft_tokens)
        by_tokens = not sums.without_counts and not sums.without_tokens
        value = self._value(by_tokens)
        convention = find_convention(self.engine, "spec_accept_length", _DIVIDED, overlap=False)
        converted = convert(convention, value, draft_tokens=draft_tokens)
        first_token = ", the prompt's own token left out" if by_tokens else ""
        return AcceptanceReading(
            source=f"SGLang meta_info, {plural(sums.answers, 'request')}",
            read_as=f"completion tokens over verifies{first_token}",
            conversion="- 1 token a request: the prompt's forward made it" if by_tokens else "none",
            accept_len=converted.accept_len,
            draft_tokens=draft_tokens,
            survival=counts.survival() if counts else (),
            counts=counts,
            request_cycles=sums.verifies if not sums.without_counts else None,
            committed_tokens=sums.committed if by_tokens else None,
            notes=(*converted.notes, *self._notes(by_tokens, counts)),
        )

    def _value(self, by_tokens: bool) -> float:
        """Tokens a verify; every answer counts alike where one lacks its number of verifies."""
        sums = self._sums
        if by_tokens:
            return sums.committed / sums.verifies
        if not sums.without_counts:
            return sums.engine_tokens / sums.verifies
        if sums.verifies:
            raise InputError(
                "some answers lack spec_verify_ct and completion_tokens, others have them",
                next_step="Keep the answers that have them.",
            )
        return fmean(sums.without_counts)

    def _counts(self, draft_tokens: int | None) -> AcceptanceCounts | None:
        """The histograms together; where k is not known it is the longest acceptance seen."""
        sums = self._sums
        if not sums.cells or sums.without_histogram or sums.without_counts:
            return None
        longest = max(accepted for _, accepted in sums.cells)
        return AcceptanceCounts.from_rows(
            (draft_tokens or drafts or longest, accepted, count)
            for (drafts, accepted), count in sums.cells.items()
            if count
        )

    def _draft_tokens(self) -> int | None:
        if self._known.draft_tokens is not None:
            return self._known.draft_tokens
        return next(iter(self._sums.drafts)) if len(self._sums.drafts) == 1 else None

    def _notes(self, by_tokens: bool, counts: AcceptanceCounts | None) -> Iterator[str]:
        sums = self._sums
        if sums.without_counts:
            yield "the answers do not say how many verifies they took: they count alike"
        elif by_tokens:
            yield f"SGLang's own spec_accept_length is {sums.engine_tokens / sums.verifies:.4g}"
        if by_tokens and counts is not None:
            past = counts.accepted_drafts + counts.request_cycles - sums.committed
            if past > 0:
                yield f"{past} accepted tokens lie past the ends of answers: in the counts only"
        if counts is not None and counts.request_cycles != sums.verifies:
            yield (
                f"the histograms count {counts.request_cycles} verifies, the answers "
                f"{sums.verifies}"
            )
        if counts is not None and self._draft_tokens() is None and None in sums.drafts:
            yield f"draft tokens not known: the counts take the longest seen, {counts.longest}"

    def _of_server(self) -> AcceptanceReading:
        version = self._known.version or shown(str(self._server.get("version") or "")) or None
        draft_tokens = self._known.draft_tokens
        verified = count_of(self._server, "speculative_num_draft_tokens")
        if draft_tokens is None and verified:
            draft_tokens = verified - 1  # it counts the bonus token's slot
        convention = find_convention(
            self.engine, "avg_spec_accept_length", version, overlap=is_overlap(version)
        )
        converted = convert(convention, fmean(self._averages), draft_tokens=draft_tokens)
        groups = len(self._averages)
        pooled = (f"mean of {groups} schedulers, alike however much they ran",)
        return AcceptanceReading(
            source=f"SGLang{f' {version}' if version else ''} server info",
            read_as=f"{converted.read_as}, since the server's start",
            conversion=converted.conversion,
            accept_len=converted.accept_len,
            draft_tokens=draft_tokens,
            notes=(*converted.notes, *pooled[: groups > 1], "warm-up included"),
        )


def _metas(value: Object) -> Iterator[Object]:
    """The `meta_info`s in an object: its own, or the object itself when it is one."""
    meta = value.get("meta_info")
    if isinstance(meta, Mapping):
        yield meta
    elif isinstance(meta, list):
        yield from (each for each in meta if isinstance(each, Mapping))
    elif any(name in value for name in ("spec_accept_length", "spec_verify_ct", *_HISTOGRAM)):
        yield value


def _states(value: Object) -> Sequence[Object]:
    """The schedulers' states in `/get_server_info`: one a data-parallel group."""
    states = value.get("internal_states")
    if isinstance(states, list):
        return [each for each in states if isinstance(each, Mapping)]
    return [value] if "avg_spec_accept_length" in value else []
