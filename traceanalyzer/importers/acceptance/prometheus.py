"""What a Prometheus dump says of acceptance: vLLM's counters, SGLang's gauges.

Counters are totals since the server's start; of a series that comes several times, in dumps one
behind the other, the last minus the first counts. Gauges hold the last log interval only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, ClassVar, Final

from traceanalyzer.errors import InputError
from traceanalyzer.importers.acceptance.lines import (
    LARGEST_COUNT,
    MOST_DRAFT_TOKENS,
    Known,
    number_in,
    plural,
    shown,
    whole_number,
)
from traceanalyzer.importers.acceptance.numbers import convert, is_overlap
from traceanalyzer.speculation.acceptance import AcceptanceCounts, AcceptanceReading
from traceanalyzer.speculation.conventions import find_convention

if TYPE_CHECKING:
    from collections.abc import Iterable

_SAMPLE: Final = re.compile(r"\s*([A-Za-z_][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?\s*\Z")
_LABEL: Final = re.compile(r'(?<!\w)(\w++)\s*=\s*"((?:[^"\\]|\\.)*+)"')
_FORMULA: Final = "0.10.2"  # a version in whose source 1 + accepted / drafts was read
_ONE_MODEL: Final = "Keep the lines of one model."
_NEXT_DUMP: Final = "Take both dumps from one start of the server, the earlier one first."

Labels = tuple[tuple[str, str], ...]


def sample_in(line: str) -> tuple[str, Labels, float] | None:
    """Read a sample: its name without `_total`, its labels, its value.

    None stands for anything else, values that are not finite included.
    """
    found = _SAMPLE.match(line)
    value = number_in(found[3]) if found else None
    if found is None or value is None:
        return None
    labels = tuple(sorted(_LABEL.findall(found[2] or "")))
    return found[1].removesuffix("_total"), labels, value


@dataclass(slots=True)
class _Series:
    """One counter: its first and last value, and how often it came."""

    first: float
    last: float
    times: int = 1

    def gain(self, name: str) -> int:
        """What it counted: from its start, or from the first dump to the last.

        Raises:
            InputError: It fell, or is no whole number.
        """
        counted = self.last if self.times == 1 else self.last - self.first
        if counted < 0:
            raise InputError(f"{name} fell between dumps", next_step=_NEXT_DUMP)
        if not counted.is_integer() or counted > LARGEST_COUNT:
            raise InputError(
                f"{name} is {counted:g}, no count", next_step="Give the dump as it is."
            )
        return int(counted)


@dataclass(slots=True)
class _Counts:
    """vLLM's totals over its engines."""

    drafts: int = 0
    drafted: int = 0
    accepted: int = 0
    by_position: dict[int, int] = field(default_factory=dict)

    def survivors(self) -> list[int]:
        """Drafts that accepted position 1, 2, ... or more."""
        last = max(self.by_position, default=-1)
        return [self.by_position.get(at, 0) for at in range(last + 1)]


class VllmCounters:
    """Collects vLLM's speculative decoding counters (0.8.5 and later, `v1/spec_decode/metrics.py`).

    Args:
        known: What the caller knows.
    """

    engine: ClassVar[str] = "vllm"
    kind: ClassVar[str] = "vLLM Prometheus counters"
    looked_for: ClassVar[str] = "Prometheus samples of 'vllm:spec_decode_num_drafts'"

    _PREFIX: Final = "vllm:spec_decode_num_"

    def __init__(self, known: Known) -> None:
        self.used: int | None = None
        self.unusable: tuple[int, str] | None = None
        self._known = known
        self._series: dict[tuple[str, Labels], _Series] = {}

    def offer(self, number: int, line: str) -> None:
        """Take one sample; other lines are passed over."""
        if not line.lstrip().startswith(self._PREFIX):
            return
        found = sample_in(line)
        if found is None:
            self.unusable = self.unusable or (number, shown(line))
            return
        name, labels, value = found
        if name.endswith("_created"):  # prometheus_client's time of a counter's birth
            return
        self.used = self.used or number
        series = self._series.setdefault((name, labels), _Series(value, value, 0))
        series.last = value
        series.times += 1

    def reading(self) -> AcceptanceReading:
        """Exact counts where every draft has the same length, else the mean and survival.

        Raises:
            InputError: There is no draft, a counter fell, or figures contradict one another.
        """
        _one_model(labels for _, labels in self._series)
        counts = self._counts()
        if not counts.drafts:
            raise InputError(
                "no draft was counted (vllm:spec_decode_num_drafts)",
                next_step="Take the dump after requests have run with speculation on.",
            )
        draft_tokens, cells, notes = self._cells(counts)
        converted = convert(
            find_convention(self.engine, "mean acceptance length", _FORMULA),
            1 + counts.accepted / counts.drafts,
            draft_tokens=draft_tokens,
        )
        survivors = counts.survivors()
        times = max(series.times for series in self._series.values())
        return AcceptanceReading(
            source=f"vLLM Prometheus counters, {plural(counts.drafts, 'draft')}",
            read_as=converted.read_as,
            conversion=converted.conversion,
            accept_len=converted.accept_len,
            draft_tokens=draft_tokens,
            survival=tuple(each / counts.drafts for each in survivors),
            counts=cells,
            request_cycles=counts.drafts,
            committed_tokens=counts.accepted + counts.drafts,
            notes=(*converted.notes, _span(times), *notes),
        )

    def _counts(self) -> _Counts:
        counts = _Counts()
        for (name, labels), series in self._series.items():
            gain = series.gain(name)
            if name == self._PREFIX + "accepted_tokens_per_pos":
                at = whole_number(dict(labels).get("position"))
                if at is not None and at < MOST_DRAFT_TOKENS:
                    counts.by_position[at] = counts.by_position.get(at, 0) + gain
            elif name == self._PREFIX + "drafts":
                counts.drafts += gain
            elif name == self._PREFIX + "draft_tokens":
                counts.drafted += gain
            elif name == self._PREFIX + "accepted_tokens":
                counts.accepted += gain
        return counts

    def _cells(self, counts: _Counts) -> tuple[int | None, AcceptanceCounts | None, list[str]]:
        """K, the cells of equal drafts, and what to say of them."""
        survivors = counts.survivors()
        k = len(survivors) or self._known.draft_tokens or round(counts.drafted / counts.drafts)
        if counts.drafted != k * counts.drafts:
            return None, None, [f"drafts of {k} tokens and shorter ones are counted together"]
        if not survivors:
            return k, None, []
        histogram = [
            before - after
            for before, after in zip([counts.drafts, *survivors], [*survivors, 0], strict=True)
        ]
        if min(histogram) < 0 or sum(survivors) != counts.accepted:
            return k, None, ["the counters by position do not add up to the accepted tokens"]
        return k, AcceptanceCounts.from_histogram(k, histogram), []


class SglangGauges:
    """Collects SGLang's gauge `sglang:spec_accept_length` (0.4.9 `metrics/collector.py` and later).

    Args:
        known: What the caller knows.
    """

    engine: ClassVar[str] = "sglang"
    kind: ClassVar[str] = "SGLang Prometheus gauges"
    looked_for: ClassVar[str] = "Prometheus samples of 'sglang:spec_accept_length'"

    _LENGTH: Final = "sglang:spec_accept_length"
    _VERIFIED: Final = "sglang:spec_num_draft_tokens"

    def __init__(self, known: Known) -> None:
        self.used: int | None = None
        self.unusable: tuple[int, str] | None = None
        self._known = known
        self._values: dict[Labels, list[float]] = {}
        self._verified: set[float] = set()

    def offer(self, number: int, line: str) -> None:
        """Take one sample; other lines are passed over."""
        if not line.lstrip().startswith("sglang:spec_"):
            return
        found = sample_in(line)
        if found is None:
            self.unusable = self.unusable or (number, shown(line))
            return
        name, labels, value = found
        if name == self._LENGTH:
            self.used = self.used or number
            self._values.setdefault(labels, []).append(value)
        elif name == self._VERIFIED and value > 0:
            self._verified.add(value)

    def reading(self) -> AcceptanceReading:
        """The mean of the samples that are not zero, of one rank a data-parallel group.

        Raises:
            InputError: All are zero, or there are several models.
        """
        _one_model(self._values)
        samples = [each for values in self._of_groups() for each in values if each > 0]
        if not samples:
            raise InputError(
                "every sglang:spec_accept_length is 0: nothing was decoded with speculation",
                next_step="Take the dump while requests run with speculation on.",
            )
        version = self._known.version
        converted = convert(
            find_convention(self.engine, "accept len", version, overlap=is_overlap(version)),
            fmean(samples),
            draft_tokens=self._draft_tokens(),
        )
        return AcceptanceReading(
            source=f"SGLang Prometheus gauge, {plural(len(samples), 'sample')}",
            read_as=converted.read_as,
            conversion=converted.conversion,
            accept_len=converted.accept_len,
            draft_tokens=self._draft_tokens(),
            notes=(
                *converted.notes,
                "the gauge holds the last log interval only; samples count alike, however many "
                "requests ran",
            ),
        )

    def _of_groups(self) -> Iterable[list[float]]:
        """The samples of the first series seen of each data-parallel group."""
        groups: dict[str, list[float]] = {}
        for labels, values in self._values.items():
            groups.setdefault(dict(labels).get("dp_rank", ""), values)
        return groups.values()

    def _draft_tokens(self) -> int | None:
        if self._known.draft_tokens is not None or len(self._verified) != 1:
            return self._known.draft_tokens
        return int(next(iter(self._verified))) - 1  # it counts the bonus token's slot


def _one_model(all_labels: Iterable[Labels]) -> None:
    models = {dict(labels).get("model_name", "") for labels in all_labels}
    if len(models) > 1:
        raise InputError(
            f"the dump holds several models: {', '.join(sorted(models))}", next_step=_ONE_MODEL
        )


def _span(times: int) -> str:
    if times == 1:
        return "counted since the server's start, warm-up included"
    return f"counted between the first and the last of {times} dumps"
