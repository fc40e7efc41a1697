"""Hooks for a pipeline of one's own: a TOML file of dotted targets, or `phase` and `cycle` in code.

The TOML file has one `[[hook]]` table a function; its values say where that function keeps its
numbers, as short paths such as `result.accepted` or `len(self.batch)`. Code uses the decorators,
which are context managers too, and `report_step` and `report_accepted`; all of them do nothing
while hooks are not installed.
"""

from __future__ import annotations

import re
import threading
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Self, TypeVar

from nvtx_hooks import installation, patching, vocabulary
from nvtx_hooks.advice import TAG, Advice, Opened
from nvtx_hooks.observations import Acceptance, Padding, Ranks, Row, Step
from nvtx_hooks.readings import Unreadable, boolean, integer, integers, length, text
from nvtx_hooks.targets import Target
from nvtx_hooks.vocabulary import Flags

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from os import PathLike

    from nvtx_hooks.observations import Observation
    from nvtx_hooks.recording import Recorder
    from nvtx_hooks.targets import Call

_P = ParamSpec("_P")
_R = TypeVar("_R")

STEP_RANGES: Final = (vocabulary.CYCLE, vocabulary.DECODE, vocabulary.PREFILL, vocabulary.MIXED)
"""Ranges that make a hook a step, which gets a number."""

_STEP_FIELDS: Final = (
    "requests",
    "drafted",
    "verified",
    "prompt_requests",
    "prompt_tokens",
    "k",
    "padded",
)
_RANK_FIELDS: Final = ("tp_rank", "tp_size", "dp_rank", "dp_size", "pp_rank", "pp_size")
_ROW_FIELDS: Final = ("accepted", "overshoot", "request_ids")
_PATHS: Final = (*_STEP_FIELDS, *_RANK_FIELDS, *_ROW_FIELDS, "idle", "late")
_KEYS: Final = {"target", "range", "tag", "everywhere", *_PATHS}
_AFTER: Final = ("accepted", "overshoot", "late")
"""Read when the call is over; the other paths before it, unless they begin at `result`."""

_TARGET: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_PATH: Final = re.compile(r"(?P<root>[^\W\d]\w*)(?P<steps>(\.[^\W\d]\w*|\[-?\d+\])*)")
_PATH_STEP: Final = re.compile(r"\.(?P<name>\w+)|\[(?P<index>-?\d+)\]")


class InvalidTargets(ValueError):
    """The TOML file cannot be used; the text says where and why."""


@dataclass(frozen=True, slots=True)
class ValuePath:
    """Where a call keeps a value: a root, then attributes and indices.

    Attributes:
        root: `result`, `self`, or a parameter's name.
        steps: Attribute names and list indices.
        counted: Whether the value is a container whose length is meant.
    """

    root: str
    steps: tuple[str | int, ...]
    counted: bool

    @classmethod
    def parse(cls, written: str) -> ValuePath:
        """Read `root.name[0]` or `len(root.name)`.

        Raises:
            ValueError: It is no such path.
        """
        inner = written.strip()
        counted = inner.startswith("len(") and inner.endswith(")")
        match = _PATH.fullmatch(inner[4:-1].strip() if counted else inner)
        if match is None:
            raise ValueError(f"not a path like self.batch[0] or len(self.batch): {written!r}")
        steps = tuple(
            step["name"] or int(step["index"]) for step in _PATH_STEP.finditer(match["steps"])
        )
        return cls(match["root"], steps, counted)

    def read(self, call: Call) -> Any:
        """The value in one call; never a tensor's data, since only ints leave an extractor."""
        if self.root == "result":
            value = call.result
        else:
            value = call.owner if self.root == "self" else call.argument(self.root)
        for step in self.steps:
            value = getattr(value, step) if isinstance(step, str) else _item(value, step)
        return length(value) if self.counted else value


def _item(value: Any, index: int) -> Any:
    """One item of a list or tuple: indexing a tensor would launch work."""
    if isinstance(value, (list, tuple)):
        return value[index]
    raise Unreadable(f"not a list: {type(value).__name__}")


@dataclass(frozen=True, slots=True)
class _Reader:
    """`before` and `observe` of one TOML hook."""

    paths: Mapping[str, ValuePath | int]

    def before(self, call: Call) -> dict[str, Any]:
        early = [field for field, path in self.paths.items() if _early(field, path)]
        return {field: self._read(field, call) for field in early}

    def observe(self, call: Call) -> Sequence[Observation]:
        values = dict(call.before)
        for field, path in self.paths.items():
            if not _early(field, path):
                values[field] = self._read(field, call)
        seen: list[Observation] = []
        if any(field in values for field in _RANK_FIELDS):
            seen.append(Ranks(**{f: integer(values.get(f, 0)) for f in _RANK_FIELDS}))
        if "padded" in values:
            seen.append(Padding(integer(values["padded"])))
        if "requests" in values:
            seen.append(_step(values))
        if "accepted" in values:
            seen.append(_acceptance(values))
        return seen

    def _read(self, field: str, call: Call) -> Any:
        path = self.paths[field]
        return path if isinstance(path, int) else path.read(call)


def _early(field: str, path: ValuePath | int) -> bool:
    return isinstance(path, int) or (field not in _AFTER and path.root != "result")


def _step(values: Mapping[str, Any]) -> Step:
    fields = {field: integer(values.get(field, 0)) for field in _STEP_FIELDS if field != "padded"}
    idle = "idle" in values and boolean(values["idle"])
    return Step(**fields, flags=Flags.IDLE if idle else Flags.NONE)


def _acceptance(values: Mapping[str, Any]) -> Acceptance:
    accepted = integers(values["accepted"])
    cycle, k, flags = None, values.get("k", 0), int(Flags.NONE)
    if "late" in values:
        cycle, k, flags = getattr(values["late"], TAG)
    return Acceptance(
        _rows(accepted, integer(k), values.get("request_ids"), values.get("overshoot"), flags),
        cycle,
    )


def _rows(
    accepted: Sequence[int],
    k: int | Sequence[int],
    request_ids: Sequence[str] | None,
    overshoot: Sequence[int] | None,
    flags: int,
) -> tuple[Row, ...]:
    """Rows of one cycle; every sequence has one item a request."""
    count = len(accepted)
    ks = [integer(k)] * count if isinstance(k, int) else integers(k)
    over = [0] * count if overshoot is None else integers(overshoot)
    ids = (
        [0] * count
        if request_ids is None
        else [vocabulary.request_hash(text(request)) for request in request_ids]
    )
    return tuple(
        Row(request, depth, integer(number), flags | (Flags.OVERSHOOT if lost else 0), lost)
        for request, depth, number, lost in zip(ids, ks, accepted, over, strict=True)
    )


def read_targets(path: str | PathLike[str]) -> tuple[Target, ...]:
    """The targets of a TOML file.

    Args:
        path: A file of `[[hook]]` tables. Each has `target = "package.module:Class.method"`, and
            may have `range` (a name or a list of names, outermost first), `everywhere` (also in
            modules that imported the function by name), `tag` (mark the result with its cycle),
            and paths: requests, drafted, verified, prompt_requests, prompt_tokens, k, padded,
            idle, accepted, overshoot, request_ids, late (a tagged object), tp_rank, tp_size,
            dp_rank, dp_size, pp_rank, pp_size.

    Raises:
        InvalidTargets: It cannot be read, or a table has an unknown key or a wrong value.
    """
    try:
        tables = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidTargets(f"{path}: cannot be read: {error}") from None
    hooks = tables.get("hook")
    if not isinstance(hooks, list) or not hooks or set(tables) != {"hook"}:
        raise InvalidTargets(f"{path}: has to hold [[hook]] tables, and nothing else")
    targets = []
    for position, hook in enumerate(hooks, 1):
        try:
            targets.append(_target(hook))
        except ValueError as error:
            raise InvalidTargets(f"{path}: [[hook]] number {position}: {error}") from None
    return tuple(targets)


def _target(hook: Mapping[str, Any]) -> Target:
    """One table as a Target.

    Raises:
        ValueError: A key or value is wrong.
    """
    unknown = sorted(set(hook) - _KEYS)
    if unknown:
        raise ValueError(f"unknown key {unknown[0]!r}; known: {', '.join(sorted(_KEYS))}")
    written = hook.get("target")
    if not isinstance(written, str) or not _TARGET.fullmatch(written):
        raise ValueError('target has to read "package.module:Class.method"')
    for switch in ("tag", "everywhere"):
        if not isinstance(hook.get(switch, False), bool):
            raise ValueError(f"{switch} has to be true or false")
    names = _range_names(hook.get("range", []))
    reader = _Reader({key: _path(key, hook[key]) for key in _PATHS if key in hook})
    module, _, attribute = written.partition(":")
    return Target(
        module,
        attribute,
        opens=names,
        step=any(name in STEP_RANGES for name in names),
        before=reader.before if reader.paths else None,
        observe=reader.observe if reader.paths else None,
        tags=hook.get("tag", False),
        everywhere=hook.get("everywhere", False),
    )


def _range_names(ranges: Any) -> tuple[str, ...]:
    names = [ranges] if isinstance(ranges, str) else ranges
    if not isinstance(names, list):
        raise ValueError("range has to be a name or a list of names")
    for name in names:
        if name not in vocabulary.RANGES:
            raise ValueError(f"unknown range {name!r}; known: {', '.join(vocabulary.RANGES)}")
    return tuple(names)


def _path(key: str, value: Any) -> ValuePath | int:
    if isinstance(value, int) and not isinstance(value, bool) and key not in (*_ROW_FIELDS, "late"):
        return value
    if not isinstance(value, str):
        raise ValueError(f"{key} has to be a path such as self.{key} or result.{key}")
    return ValuePath.parse(value)


_entered: Final = threading.local()
"""Blocks of `phase` and `cycle` that are open on each thread, innermost last."""


class Range:
    """A range as a decorator of a function, or as a context manager around a block.

    A decorated generator or coroutine has one range for each time it runs. A `with` block must
    not contain a yield or an await that lets other blocks of the thread begin.
    """

    def __init__(self, name: str, *, step: bool) -> None:
        self._target = Target("decorated", name, opens=(name,), step=step)
        self._advice: tuple[Recorder, Advice] | None = None

    def enter(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[Advice, Opened] | None:
        """Open the range; part of `patching.Around`."""
        recorder = installation.recorder()
        if recorder is None:
            return None
        if self._advice is None or self._advice[0] is not recorder:
            self._advice = recorder, Advice(self._target, recorder, {})
        advice = self._advice[1]
        opened = advice.enter(args, kwargs)
        return None if opened is None else (advice, opened)

    def leave(self, opened: tuple[Advice, Opened] | None, result: Any, *, finished: bool) -> Any:
        """Close the range; part of `patching.Around`."""
        if opened is not None:
            opened[0].leave(opened[1], result, finished=finished)
        return result

    def __call__(self, function: Callable[_P, _R]) -> Callable[_P, _R]:
        """Decorate a function."""
        return patching.wrap(function, self)

    def __enter__(self) -> Self:
        """Open the range around a block."""
        blocks: list[Any] = _entered.__dict__.setdefault("blocks", [])
        blocks.append(self.enter((), {}))
        return self

    def __exit__(self, *raised: object) -> None:
        """Close it."""
        self.leave(_entered.blocks.pop(), None, finished=raised[0] is None)


def phase(name: str) -> Range:
    """A range for one phase of a pipeline.

    Args:
        name: One of `vocabulary.RANGES`, such as "draft", "verify" or "draft_extend".

    Raises:
        ValueError: No such range.
    """
    if name not in vocabulary.RANGES:
        raise ValueError(f"unknown range {name!r}; known: {', '.join(vocabulary.RANGES)}")
    return Range(name, step=name in STEP_RANGES)


def cycle() -> Range:
    """A range for one draft-verify round; it gets the next cycle number."""
    return phase(vocabulary.CYCLE)


def current_cycle() -> int:
    """Number of the cycle that runs on this thread, `vocabulary.NO_CYCLE` outside one."""
    recorder = installation.recorder()
    return vocabulary.NO_CYCLE if recorder is None else recorder.thread().cycle


def report_step(
    requests: int,
    *,
    drafted: int = 0,
    verified: int = 0,
    prompt_requests: int = 0,
    prompt_tokens: int = 0,
    padded: int = 0,
) -> None:
    """Say what the running cycle carries. Never raises; `status` counts what it cannot use.

    Args:
        requests: Requests in the target's forward.
        drafted: Draft tokens judged, over all requests.
        verified: Tokens forwarded, prompts left out.
        prompt_requests: Requests that bring prompt tokens.
        prompt_tokens: Prompt tokens forwarded.
        padded: Batch size of the CUDA graph, 0 when eager.
    """
    _report(
        lambda: (
            Padding(integer(padded)),
            Step(
                integer(requests),
                integer(drafted),
                integer(verified),
                integer(prompt_requests),
                integer(prompt_tokens),
            ),
        )
    )


def report_accepted(
    accepted: Sequence[int],
    *,
    k: int | Sequence[int],
    request_ids: Sequence[str] | None = None,
    overshoot: Sequence[int] | None = None,
    cycle: int | None = None,
) -> None:
    """Say how many drafts of each request were accepted. Never raises.

    Args:
        accepted: Drafts accepted, the bonus token excluded, one a request. A list of ints that
            are on the CPU already: nothing else is read.
        k: Longest accepted run possible, for all or for each.
        request_ids: The requests' ids.
        overshoot: Tokens of accepted + 1 past each request's end.
        cycle: The cycle they belong to, from `current_cycle`; None: the one that is running.
    """
    _report(
        lambda: (
            Acceptance(
                _rows(integers(accepted), k, request_ids, overshoot, int(Flags.NONE)), cycle
            ),
        )
    )


def _report(observe: Callable[[], Sequence[Observation]]) -> None:
    recorder = installation.recorder()
    if recorder is None or not recorder.active:
        return
    try:
        recorder.observe(recorder.thread(), observe())
    except Exception as error:
        recorder.failed("reported", error)
