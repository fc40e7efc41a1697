"""What a hook does around one call: open, number, read, close; and never raise.

`Advice` is the only place where a target's data meets the recorder. `enter` and `leave` come in
pairs on one thread; an error inside them is counted and the host never sees it.
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from nvtx_hooks import vocabulary
from nvtx_hooks.observations import Step
from nvtx_hooks.targets import Call, Target

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nvtx_hooks.observations import Observation
    from nvtx_hooks.recording import Recorder, Thread

TAG: Final = "_eagle_cycle"
"""Attribute of a result that is handled later: (cycle, k, flags), plain ints that pickle."""

_EXTENDING: Final = (vocabulary.DRAFT_EXTEND, vocabulary.DRAFT_PREFILL)


def parameter_positions(function: Callable[..., Any]) -> dict[str, int]:
    """Position of each named parameter of a function, decorators seen through."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return {}
    return {name: position for position, name in enumerate(code.co_varnames[: code.co_argcount])}


class Opened(Call):
    """One call between its `enter` and its `leave`, which extractors see as the `Call` it is.

    `reads` says whether the target's readers take part: not when the call is part of another
    step, and no more when one of them has failed. The ranges do not depend on it.
    """

    __slots__ = ("cycle", "depth", "reads", "step", "thread")

    def __init__(
        self,
        positions: Mapping[str, int],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        thread: Thread,
    ) -> None:
        # Every wrapped call makes one of these, and super().__init__ would cost 0.5 us.
        stack = thread.open
        self._positions = positions
        self.args = args
        self.kwargs = kwargs
        self.inside = stack[-1] if stack else ""
        self.in_step = thread.steps > 0
        self.kind = thread.kind
        self.notes = thread.notes
        self.result = self.before = None
        self.thread = thread
        self.depth = len(stack)
        self.cycle = thread.cycle
        self.reads = True
        self.step = False


class Advice:
    """The hook of one target.

    Args:
        target: What its calls mean.
        recorder: Where they are recorded.
        positions: `parameter_positions` of the function.
    """

    def __init__(self, target: Target, recorder: Recorder, positions: Mapping[str, int]) -> None:
        self.target = target
        self._recorder = recorder
        self._positions = positions

    def enter(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Opened | None:
        """Open what a call of the target opens.

        Returns:
            What `leave` needs, or None when the call is left alone.
        """
        recorder = self._recorder
        if not recorder.active:
            return None
        try:
            thread = recorder.thread()
            opened = Opened(self._positions, args, kwargs, thread)
        except Exception as error:
            recorder.failed(self.target.name, error)
            return None
        try:
            return opened if self._open(thread, opened) else None
        except Exception as error:
            recorder.failed(self.target.name, error)
            self._close(opened, finished=False)
            return None

    def leave(self, opened: Opened | None, result: Any, *, finished: bool) -> Any:
        """Read a finished call and close what `enter` opened.

        Args:
            opened: What `enter` returned.
            result: What the function returned.
            finished: Whether it returned at all.

        Returns:
            What the host gets: `result`, or a stand-in for the context manager that it is.
        """
        if opened is None:
            return result
        try:
            if finished and opened.reads:
                self._read(opened, result)
        except Exception as error:
            self._recorder.failed(self.target.name, error)
        self._close(opened, finished=finished)
        if self.target.context and (opened.thread.forwards or 0) > 1:
            return DraftForward(result, self._recorder)
        return result

    def _open(self, thread: Thread, opened: Opened) -> bool:
        """Open the ranges of a call; False when the call is left alone."""
        target, recorder = self.target, self._recorder
        names = target.opens if isinstance(target.opens, tuple) else target.opens(opened)
        if names is None:
            return False
        for name in target.ends_first:
            recorder.end_span(thread, name)
        if target.step and not thread.steps:
            self._begin_step(thread, opened, names)
        if target.proposal:
            thread.forwards = 0
        if target.becomes and opened.inside in target.becomes_from:
            recorder.become(thread, target.becomes)
        for name in names:
            recorder.open(thread, name)
        if target.forward:
            self._count_forward(thread)
        opened.reads = opened.step or not target.step
        if target.before is not None and opened.reads:
            try:
                opened.before = target.before(opened)
            except Exception as error:
                recorder.failed(target.name, error)
                opened.reads = False
        return True

    def _begin_step(self, thread: Thread, opened: Opened, names: Sequence[str]) -> None:
        target, recorder = self.target, self._recorder
        number = None
        if target.number is not None:
            try:
                number = target.number(opened)
            except Exception as error:
                recorder.failed(target.name, error)
        recorder.begin_step(thread, number, names[-1] if names else "")
        opened.step = True
        if target.spans:
            # A prefill is no draft-verify round, but its number holds until its last call.
            recorder.span(thread, target.spans, silent=thread.kind == vocabulary.PREFILL)

    def _count_forward(self, thread: Thread) -> None:
        """The first forward of a proposal extends the draft's cache, the others draft."""
        if thread.forwards is None:
            return
        thread.forwards += 1
        if thread.forwards < 2:
            return
        if thread.open and thread.open[-1] in _EXTENDING:
            self._recorder.become(thread, vocabulary.DRAFT)
        if not self.target.context:
            self._recorder.open(thread, vocabulary.DRAFT_STEP)

    def _read(self, opened: Opened, result: Any) -> None:
        target, thread = self.target, opened.thread
        opened.result = result
        seen: Sequence[Observation] = ()
        if target.observe is not None:
            seen = target.observe(opened)
            self._recorder.observe(thread, seen)
        if target.tags and result is not None:
            step = next((item for item in seen if isinstance(item, Step)), None)
            facts = (step.k, int(step.flags)) if step else (0, 0)
            setattr(result, TAG, (thread.cycle, *facts))

    def _keeps(self, call: Call) -> bool:
        """Whether a finished call leaves the range of `ends` open."""
        ends_when = self.target.ends_when
        return ends_when is not None and not ends_when(call)

    def _close(self, opened: Opened, *, finished: bool) -> None:
        thread, target, recorder = opened.thread, self.target, self._recorder
        try:
            recorder.close_to(thread, opened.depth)
            if target.proposal:
                thread.forwards = None
            if target.ends and not (finished and self._keeps(opened)):
                recorder.end_span(thread, target.ends)
            if target.then_spans and finished and opened.step:
                recorder.span(thread, target.then_spans(opened))
        except Exception as error:
            recorder.failed(target.name, error)
        if opened.step:
            thread.steps -= 1
            if target.spans not in thread.spanning:
                thread.cycle, thread.kind = opened.cycle, opened.kind
        if not thread.steps and not thread.spanning:
            thread.cycle, thread.kind = vocabulary.NO_CYCLE, ""


class RangeAdvice:
    """The hook of a target that only opens one range: no call is looked at.

    Args:
        target: What its calls mean.
        recorder: Where they are recorded.
    """

    def __init__(self, target: Target, recorder: Recorder) -> None:
        self.target = target
        (self._name,) = target.opens if isinstance(target.opens, tuple) else ()
        self._recorder = recorder

    def enter(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Thread, int] | None:
        """Open the range, unless the innermost one has its name already."""
        recorder = self._recorder
        if not recorder.active:
            return None
        try:
            thread = recorder.thread()
            depth = len(thread.open)
            recorder.open(thread, self._name)
        except Exception as error:
            recorder.failed(self.target.name, error)
            return None
        return thread, depth

    def leave(self, opened: tuple[Thread, int] | None, result: Any, *, finished: bool) -> Any:
        """Close it."""
        if opened is not None:
            try:
                self._recorder.close_to(*opened)
            except Exception as error:
                self._recorder.failed(self.target.name, error)
        return result


def advice_for(
    target: Target, recorder: Recorder, positions: Mapping[str, int]
) -> Advice | RangeAdvice:
    """The hook of a target, the lighter one where that is enough.

    Args:
        target: What its calls mean.
        recorder: Where they are recorded.
        positions: `parameter_positions` of the function.
    """
    only_range = Target(target.module, target.attribute, target.opens)
    plain = replace(target, everywhere=False, parameters=(), seen=("", "")) == only_range
    if plain and isinstance(target.opens, tuple) and len(target.opens) == 1:
        return RangeAdvice(target, recorder)
    return Advice(target, recorder, positions)


class DraftForward:
    """A context manager of the host with a `draft.step` range around its body.

    Args:
        context: The host's own context manager.
        recorder: Where the range is recorded.
    """

    __slots__ = ("_context", "_depth", "_recorder", "_thread")

    def __init__(self, context: Any, recorder: Recorder) -> None:
        self._context = context
        self._recorder = recorder
        self._thread: Thread | None = None
        self._depth = 0

    def __enter__(self) -> Any:
        try:
            thread = self._recorder.thread()
            self._depth = len(thread.open)
            self._recorder.open(thread, vocabulary.DRAFT_STEP)
            self._thread = thread
        except Exception as error:
            self._recorder.failed(vocabulary.DRAFT_STEP, error)
        return self._context.__enter__()

    def __exit__(self, *raised: Any) -> Any:
        try:
            return self._context.__exit__(*raised)
        finally:
            if self._thread is not None:
                try:
                    self._recorder.close_to(self._thread, self._depth)
                except Exception as error:
                    self._recorder.failed(vocabulary.DRAFT_STEP, error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)
