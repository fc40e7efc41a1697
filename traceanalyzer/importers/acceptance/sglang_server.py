"""Which SGLang server wrote a log, and with what settings: version, draft tokens, rank, format."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, TypeVar

from traceanalyzer.errors import InputError

ONE_SERVER: Final = "Give the log of one server, with one set of settings."
_RATE_OF_DRAFTS: Final = (0, 5, 11)  # seen: of verified tokens up to 0.5.10, of drafts from 0.5.12
_MOST_DRAFT_TOKENS: Final = 128
_ROUNDED: Final = 0.005 + 1e-9  # both are printed with two decimals

_VERSION: Final = re.compile(
    r"\bsglang(?:\s++version)?[\s=:_@]++v?(\d{1,6}\.\d{1,6}\.\d{1,6}(?:\.?(?:post|rc|dev)\d+)?)",
    re.IGNORECASE,
)
_SETTING: Final = re.compile(
    r"\b(speculative_num_draft_tokens|speculative_num_steps|decode_log_interval)=(\d{1,9})\b"
)
_OVERLAP: Final = re.compile(r"\benable_beta_spec=(True|False)\b")
_STAMP: Final = re.compile(r"\[\d{4}-\d\d-\d\d ([^\]]{,60})\]")
_RANK: Final = re.compile(r"\b([A-Z]{2})(\d+)\b")
_CONTAINER: Final = re.compile(r"\s*(?:\[pod/([^\]\s]+)\]|([\w.-]+)\s+\|\s)")

_Value = TypeVar("_Value")
Fitting = frozenset[tuple[str, int]]
"""Pairs of what the accept rate is a share of ("verified tokens", "drafts") and k."""

_ALL_FITTING: Final[Fitting] = frozenset(
    (share_of, k)
    for share_of in ("verified tokens", "drafts")
    for k in range(1, _MOST_DRAFT_TOKENS + 1)
)


def release_of(version: str | None) -> tuple[int, ...] | None:
    """The numbers of a version ("0.5.9.post1" -> (0, 5, 9)); None when it starts with none."""
    found = re.match(r"v?(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?", version or "")
    return tuple(int(each or 0) for each in found.groups()) if found else None


def draft_tokens_fitting(accept_len: float, accept_rate: float, before: Fitting | None) -> Fitting:
    """The (meaning of the rate, k) pairs with which a line's two figures agree, of those before.

    Up to 0.5.10 the rate is accept_len / (k + 1), from 0.5.12 on (accept_len - 1) / k: 0.5.9
    `scheduler_metrics_mixin.py`, 0.5.15 `metrics_reporter.py`.
    """
    fitting = set()
    for share_of, k in _ALL_FITTING if before is None else before:
        parts, whole = (accept_len - 1, k) if share_of == "drafts" else (accept_len, k + 1)
        if abs(parts / whole - accept_rate) <= _ROUNDED + _ROUNDED / whole:
            fitting.add((share_of, k))
    return frozenset(fitting)


@dataclass(slots=True)
class Server:
    """What a log says of the server that wrote it.

    Attributes:
        version: What the caller says, else the log.
        settings: From the `server_args=` line.
        overlap: Its `enable_beta_spec` (0.5.3); None when it has none.
        other_rank_lines: Decode lines left out because another rank wrote the same.
    """

    version: str | None = None
    settings: dict[str, int] = field(default_factory=dict)
    overlap: bool | None = None
    other_rank_lines: int = 0
    _version_said: str | None = None
    _ranks: dict[str, str] = field(default_factory=dict)
    _format: tuple[int, str, bool] | None = None
    _container: str | None = None

    def read(self, number: int, line: str) -> None:
        """Take version and settings from any line but a decode line.

        Raises:
            InputError: They differ from those before.
        """
        if "sglang" in line or "SGLang" in line:
            self._read_version(number, line)
        if "server_args=" not in line:
            return
        for name, text in _SETTING.findall(line):
            self.settings[name] = _same(name, self.settings.get(name), int(text), number)
        if (found := _OVERLAP.search(line)) is not None:
            self.overlap = _same("enable_beta_spec", self.overlap, found[1] == "True", number)

    def _read_version(self, number: int, line: str) -> None:
        found = _VERSION.search(line)
        if found is not None and self._version_said is None:
            self._version_said = found[1]
            self.version = self.version or found[1]
        elif found is not None and self.version == self._version_said:
            _same("version", release_of(self._version_said), release_of(found[1]), number)

    def is_other_rank(self, line: str) -> bool:
        """Whether a decode line repeats what another rank of its data-parallel group wrote.

        The first rank seen stands for its group; requests are split over groups only.
        """
        stamp = _STAMP.search(line)
        ranks = dict(_RANK.findall(stamp[1])) if stamp else {}
        group = ranks.pop("DP", "")
        member = " ".join(f"{name}{rank}" for name, rank in sorted(ranks.items()))
        is_other = self._ranks.setdefault(group, member) != member
        self.other_rank_lines += is_other
        return is_other

    @property
    def groups(self) -> int:
        """Data-parallel groups seen."""
        return len(self._ranks)

    def same_format(self, number: int, line: str, stop: str, has_rate: bool) -> None:
        """Hold a decode line against the first one.

        Raises:
            InputError: Another version, or another container, wrote it.
        """
        if self._format is None:
            self._format = (number, stop, has_rate)
        if self._format[1:] != (stop, has_rate):
            raise InputError(
                f"the decode lines {self._format[0]} and {number} have the formats of two SGLang "
                "versions",
                next_step=ONE_SERVER,
            )
        found = _CONTAINER.match(line)
        if found is not None:
            name = found[1] or found[2]
            self._container = _same("container", self._container, name, number)

    @property
    def version_by_format(self) -> str | None:
        """A version whose decode lines look like these; None before the first one."""
        if self._format is None:
            return None
        _, stop, has_rate = self._format
        return "0.5.6" if stop == "," else "0.5.3" if has_rate else "0.4.9"

    @property
    def may_count_finished(self) -> bool:
        """Whether the lines are of versions that verify a finished request once more, in overlap.

        Seen in 0.5.23: its lines hold two rows more than its requests own.
        """
        return self._format is not None and self._format[1] == ","

    def draft_tokens(self, version: str | None, fitting: Fitting | None) -> int | None:
        """The draft tokens k of a request and cycle: settings first, else what the rates tell."""
        if (verified := self.settings.get("speculative_num_draft_tokens")) is not None:
            return max(0, verified - 1)  # it counts the bonus token's slot
        if (steps := self.settings.get("speculative_num_steps")) is not None:
            return steps
        release = release_of(version)
        meanings = {"verified tokens", "drafts"}
        if release is not None:
            meanings = {"drafts"} if release >= _RATE_OF_DRAFTS else {"verified tokens"}
        lengths = {k for share_of, k in fitting or () if share_of in meanings}
        return lengths.pop() if len(lengths) == 1 else None


def _same(name: str, before: _Value | None, now: _Value, number: int) -> _Value:
    if before is not None and before != now:
        raise InputError(
            f"line {number} says {name} {now}, an earlier line {before}: several servers",
            next_step=ONE_SERVER,
        )
    return now
