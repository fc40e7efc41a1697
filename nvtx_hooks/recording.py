"""The ranges a process has open and the numbers it counts: one `Recorder` a process.

Every range that is opened is closed, innermost first, whatever the host raises; a child made by
`os.fork` starts with nothing open.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Final

from nvtx_hooks import vocabulary
from nvtx_hooks.observations import Acceptance, Padding, Ranks, Row, Signature, Step

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nvtx_hooks.emit import Backend
    from nvtx_hooks.observations import Observation

_RANKS_EVERY: Final = 64
"""Steps between two `ranks` marks: a capture that starts late must still see one."""

_SILENT: Final = object()
"""Handle of a span that has no range."""


class Thread:
    """What one thread has open.

    Attributes:
        open: Names of its pushed ranges, innermost last.
        cycle: Number of the step that is running, or `NO_CYCLE`.
        kind: Name of that step's phase.
        steps: How deep in steps it is.
        forwards: Draft forwards since the last proposal began; None outside one.
        padding: Batch size of the graph that the running step's target forward replayed.
        spanning: Handles of ranges that outlive a call, by name, in the order they were started.
        notes: What extractors keep from one call for a later one.
    """

    __slots__ = ("cycle", "forwards", "kind", "notes", "open", "padding", "spanning", "steps")

    def __init__(self) -> None:
        self.open: list[str] = []
        self.cycle = vocabulary.NO_CYCLE
        self.kind = ""
        self.steps = 0
        self.forwards: int | None = None
        self.padding = 0
        self.spanning: dict[str, object] = {}
        self.notes: dict[str, int] = {}

    def forget(self) -> None:
        """Drop what is open without closing it."""
        self.open.clear()
        self.spanning.clear()
        self.forwards = None


class Recorder:
    """Emits what the hooks see, balanced on every thread.

    Args:
        backend: Where ranges and marks go.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.active = backend.records
        self.failures: Counter[str] = Counter()
        self.first_failure: dict[str, str] = {}
        self._local = threading.local()
        self._numbering = threading.Lock()
        self._number = vocabulary.NO_CYCLE
        self._ranks: Ranks | None = None
        self._ranks_payload = 0
        self._marks = True
        self._steps = 0

    def stop(self) -> None:
        """Emit nothing from now on."""
        self.active = False

    def forked(self) -> None:
        """Forget what the parent had open, in a child made by `os.fork`.

        Only the forking thread lives on, so its state is the only one to clear. The lock may
        have been held by another thread of the parent.
        """
        self.thread().forget()
        self._numbering = threading.Lock()

    def thread(self) -> Thread:
        """The calling thread's state."""
        try:
            thread: Thread = self._local.thread
        except AttributeError:
            thread = self._local.thread = Thread()
        return thread

    def next_number(self) -> int:
        """Count one step of this process."""
        with self._numbering:
            self._number = vocabulary.next_cycle(self._number)
            return self._number

    def begin_step(self, thread: Thread, number: int | None, kind: str) -> None:
        """Make a step the running one of a thread.

        Args:
            thread: The calling thread.
            number: The number the host gave it; None: the next one of this process.
            kind: Name of its phase.
        """
        if self._ranks is not None and self._steps % _RANKS_EVERY == 0:
            self.backend.mark(vocabulary.RANKS, self._ranks_payload)
        self._steps += 1
        thread.cycle = self.next_number() if number is None else number
        thread.kind = kind
        thread.padding = 0
        thread.steps += 1

    def open(self, thread: Thread, name: str) -> None:
        """Open a range, unless the innermost one has that name already.

        A method that calls its `super()`, or an eager loop that is hooked beside the method
        around it, is one range.
        """
        if thread.open and thread.open[-1] == name:
            return
        self.backend.push(name, thread.cycle)
        thread.open.append(name)

    def close_to(self, thread: Thread, depth: int) -> None:
        """Close the innermost ranges until `depth` are left."""
        while len(thread.open) > depth:
            thread.open.pop()
            self.backend.pop()

    def become(self, thread: Thread, name: str) -> None:
        """Close the innermost range and open another in its place."""
        if thread.open and thread.open[-1] != name:
            thread.open.pop()
            self.backend.pop()
            self.backend.push(name, thread.cycle)
            thread.open.append(name)

    def span(self, thread: Thread, name: str, *, silent: bool = False) -> None:
        """Open a range that stays open when the call returns.

        Args:
            thread: The calling thread.
            name: The range.
            silent: Keep the step running until `end_span`, without a range.
        """
        self.end_span(thread, name)
        thread.spanning[name] = _SILENT if silent else self.backend.start(name, thread.cycle)

    def end_span(self, thread: Thread, name: str) -> None:
        """Close a range that `span` opened on this thread, and those started after it."""
        if name not in thread.spanning:
            return
        for started in reversed(list(thread.spanning)):
            handle = thread.spanning.pop(started)
            if handle is not _SILENT:
                self.backend.end(handle)
            if started == name:
                return

    def observe(self, thread: Thread, observations: Iterable[Observation]) -> None:
        """Turn what an extractor saw into marks."""
        for seen in observations:
            if isinstance(seen, Step):
                self._mark_step(thread, seen)
            elif isinstance(seen, Acceptance):
                self._mark_acceptance(thread.cycle if seen.cycle is None else seen.cycle, seen.rows)
            elif isinstance(seen, Padding):
                thread.padding = seen.requests
            elif isinstance(seen, Signature):
                self._mark(
                    vocabulary.SIGNATURE,
                    vocabulary.pack_signature(seen.requests, seen.scheduled, seen.drafted),
                )
            else:
                self._take_ranks(seen)

    def failed(self, where: str, error: Exception) -> None:
        """Count an error of a hook, which the host never sees."""
        self.failures[where] += 1
        if where not in self.first_failure:
            self.first_failure[where] = f"{type(error).__name__}: {error}"

    def _mark(self, name: str, payload: int) -> None:
        """Emit a mark, on the one rank of a tensor-parallel group that does."""
        if self._marks:
            self.backend.mark(name, payload)

    def _take_ranks(self, ranks: Ranks) -> None:
        if self._ranks is not None and not ranks.tp_size:
            # A scheduler beside its only worker in one process knows the data-parallel rank alone.
            ranks = self._ranks._replace(dp_rank=ranks.dp_rank, dp_size=ranks.dp_size)
        payload = vocabulary.pack_ranks(
            ranks.tp_rank,
            ranks.tp_size,
            ranks.dp_rank,
            ranks.dp_size,
            ranks.pp_rank,
            ranks.pp_size,
        )
        self._ranks, self._ranks_payload = ranks, payload
        self._marks = ranks.tp_rank == 0
        self.backend.mark(vocabulary.RANKS, payload)

    def _mark_step(self, thread: Thread, step: Step) -> None:
        number = thread.cycle
        self._mark(
            vocabulary.BATCH,
            vocabulary.pack_batch(number, step.requests, thread.padding, step.flags),
        )
        if step.verified or step.drafted:
            self._mark(
                vocabulary.TOKENS, vocabulary.pack_tokens(number, step.drafted, step.verified)
            )
        if step.prompt_tokens:
            self._mark(
                vocabulary.PROMPT,
                vocabulary.pack_prompt(number, step.prompt_requests, step.prompt_tokens),
            )

    def _mark_acceptance(self, cycle: int, rows: tuple[Row, ...]) -> None:
        if not self._marks:
            return
        mark, pack = self.backend.mark, vocabulary.pack_accept
        if len(rows) <= vocabulary.ACCEPT_MARKS_LIMIT:
            for request, k, accepted, flags, _ in rows:
                mark(vocabulary.ACCEPT, pack(cycle, request, k, accepted, flags))
        else:
            counts = Counter((row.k, row.accepted, row.flags) for row in rows)
            for (k, accepted, flags), count in counts.items():
                mark(
                    vocabulary.ACCEPT_COUNT,
                    vocabulary.pack_accept_count(cycle, count, k, accepted, flags),
                )
        for row in rows:
            if row.overshoot:
                mark(
                    vocabulary.OVERSHOOT,
                    vocabulary.pack_overshoot(cycle, row.request, row.overshoot),
                )
