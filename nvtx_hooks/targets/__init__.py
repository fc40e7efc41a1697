"""Where the hooks attach, as data: one `Target` a function, one module of targets an engine.

A target names features, not versions: the ones an installed engine lacks are skipped. `seen`
tells in which versions each was found and is checked against the engines' own code by tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nvtx_hooks.observations import Observation

_MISSING: Final = object()


class Call:
    """One call of a hooked function, as an extractor sees it.

    Args:
        positions: Position of each parameter by name.
        args: Positional arguments, `self` included.
        kwargs: Keyword arguments.
        inside: Name of the innermost open range when the call began, "" when there is none.
        in_step: Whether a step was running when the call began.
        kind: Phase of the running step.
        notes: What extractors keep on this thread from one call for a later one.

    Attributes:
        result: What the function returned; None before it does.
        before: What the target's `before` returned.
    """

    __slots__ = (
        "_positions",
        "args",
        "before",
        "in_step",
        "inside",
        "kind",
        "kwargs",
        "notes",
        "result",
    )

    def __init__(
        self,
        positions: Mapping[str, int],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        *,
        inside: str = "",
        in_step: bool = False,
        kind: str = "",
        notes: dict[str, int] | None = None,
    ) -> None:
        self._positions = positions
        self.args = args
        self.kwargs = kwargs
        self.inside = inside
        self.in_step = in_step
        self.kind = kind
        self.notes = {} if notes is None else notes
        self.result: Any = None
        self.before: Any = None

    @property
    def owner(self) -> Any:
        """`self` of the hooked method."""
        return self.args[0]

    def argument(self, name: str, default: Any = _MISSING) -> Any:
        """The argument bound to parameter `name`.

        Raises:
            KeyError: It was not passed and there is no `default`.
        """
        if name in self.kwargs:
            return self.kwargs[name]
        position = self._positions.get(name)
        if position is not None and position < len(self.args):
            return self.args[position]
        if default is _MISSING:
            raise KeyError(name)
        return default


if TYPE_CHECKING:
    Names = tuple[str, ...]
    Namer = Callable[[Call], Names | None]
    Observe = Callable[[Call], Sequence[Observation]]


@dataclass(frozen=True, slots=True)
class Target:
    """One function to hook, and what a call of it means.

    Attributes:
        module: Module that holds it.
        attribute: `function` or `Class.method` in that module.
        opens: Ranges around the call, outermost first, or a function of the call that gives
            them; None from it leaves the call alone.
        step: A call is one step of the engine and gets the next number, unless it runs inside
            another step.
        number: Gives the step's number where the host carries one.
        spans: Range that a step starts and that stays open when the call returns.
        ends: Range from `spans` that is closed after the call.
        ends_when: Condition for `ends`.
        ends_first: Ranges from `then_spans` that are closed before the call.
        then_spans: Gives the range that a step starts after the call and that stays open.
        becomes: Range that takes the innermost one's place when the call begins.
        becomes_from: Innermost ranges for which it does.
        proposal: Draft forwards are counted from this call's begin to its end.
        forward: A call is one draft forward; from the second on the range is `draft`, not
            `draft_extend` or `draft_prefill`.
        context: The call returns a context manager, and its body is the draft forward.
        before: Reads what the call is about to change.
        observe: What the finished call showed.
        tags: The result is tagged with the step's number, for whoever handles it later.
        everywhere: Also replace it in modules that imported it by name.
        parameters: Leading parameters that the readers rely on, with `a|b` for either name.
        seen: First and last version it was found in; "" when it is still there in the newest.
    """

    module: str
    attribute: str
    opens: Names | Namer = ()
    step: bool = False
    number: Callable[[Call], int | None] | None = None
    spans: str = ""
    ends: str = ""
    ends_when: Callable[[Call], bool] | None = None
    ends_first: Names = ()
    then_spans: Callable[[Call], str] | None = None
    becomes: str = ""
    becomes_from: Names = ()
    proposal: bool = False
    forward: bool = False
    context: bool = False
    before: Callable[[Call], Any] | None = None
    observe: Observe | None = None
    tags: bool = False
    everywhere: bool = False
    parameters: Names = ()
    seen: tuple[str, str] = ("", "")

    @property
    def name(self) -> str:
        """`module:attribute`."""
        return f"{self.module}:{self.attribute}"


ENGINES: Final = {
    "sglang": "nvtx_hooks.targets.sglang",
    "vllm": "nvtx_hooks.targets.vllm",
    "tensorrt_llm": "nvtx_hooks.targets.tensorrt_llm",
    "eagle": "nvtx_hooks.targets.eagle",
    "transformers": "nvtx_hooks.targets.transformers",
}
"""Module of targets for each engine, by the engine's top-level package."""


def engine_targets(engine: str) -> tuple[Target, ...]:
    """The targets of one engine.

    Raises:
        KeyError: No such engine.
    """
    targets: tuple[Target, ...] = import_module(ENGINES[engine]).TARGETS
    return targets
