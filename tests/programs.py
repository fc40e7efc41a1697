"""Programs of threads, and the machine that runs them and writes down a trace's rows.

A program is a list of tokens: open a range, close one, call the API. Times advance by a few
nanoseconds a token, zero included, so that equal times, crossing ranges and calls that straddle
a range's end happen all the time; the GPU follows with streams of its own.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

PHASE_NAMES = ("draft", "verify", "sample", "draft_extend", "decode", "prefill", "draft_prefill")
OTHER_NAMES = ("mixed", "propose", "forward", "verify bs=4", "idle verify", "cycle", "known")
INFERRED_NAMES = ("target?", "decode?")
FLAG_NAMES = ("warm-up", "capture", "dummy")
UNKNOWN_NAMES = ("stranger", "dom:draft")
DOMAINS = (None, "eagle", "quiet")

Closer = Literal["owner", "other", "nobody"]
Ids = Literal["own", "of the call before", "none", "lost row", "twice"]

_CLOSERS: tuple[Closer, ...] = ("owner", "owner", "owner", "other", "nobody")
_IDS: tuple[Ids, ...] = (*(("own",) * 12), "of the call before", "none", "lost row", "twice")
_STEPS = (0, 0, 1, 1, 2, 5)
_DURATIONS = (0, 0, 1, 2, 4, 9)
_LAGS = (0, 0, 1, 3, 8, 20, -2)
_STREAMS = (7, 7, 7, 13)


@dataclass(frozen=True)
class Open:
    """Open a range; `step_ns` passes before."""

    name: str
    domain: str | None = None
    style: str = "push_pop"
    step_ns: int = 1


@dataclass(frozen=True)
class Close:
    """Close an open range: the innermost, or the outermost, which then crosses the inner ones.

    With a negative `step_ns` it closes before the call before it has returned, as other threads
    and clocks of two sources have it.
    `by` says which thread closes it; "nobody" leaves it open until the recording ends.
    """

    outer: bool = False
    by: Closer = "owner"
    step_ns: int = 1


@dataclass(frozen=True)
class Work:
    """An op of a call: it starts `lag_ns` after the call, or later when its stream is taken."""

    lag_ns: int = 2
    duration_ns: int = 4
    stream: int = 7
    kind: str = "kernel"
    name: str = "kernel_a"
    device: int = 0
    node: int | None = None
    graph: int | None = None
    graph_exec: int | None = None
    queued: bool = True


@dataclass(frozen=True)
class Call:
    """A CUDA call; `ids` says how its ops find it, `waits_for` which stream waits for an event."""

    name: str = "cudaLaunchKernel"
    work: tuple[Work, ...] = ()
    step_ns: int = 1
    duration_ns: int = 2
    ids: Ids = "own"
    waits_for: int | None = None
    says_device: bool = False


Token = Open | Close | Call


def block(rng: random.Random) -> list[Token]:
    """One token, or one round of decoding as an engine writes it."""
    kind = rng.random()
    if kind < 0.65:
        return _round(rng)
    if kind < 0.75:
        return _crossing(rng)
    return [rng.choice((_open, _close, _call, _call, _replay, _idle_call, _wait))(rng)]


def _open(rng: random.Random) -> Token:
    names = (*PHASE_NAMES, *OTHER_NAMES, *INFERRED_NAMES, *FLAG_NAMES, *UNKNOWN_NAMES)
    style = rng.choice(("push_pop", "push_pop", "start_end", "annotation"))
    return Open(rng.choice(names), rng.choice((None, None, *DOMAINS)), style, rng.choice(_STEPS))


def _close(rng: random.Random) -> Token:
    return Close(rng.random() < 0.4, rng.choice(_CLOSERS), rng.choice((*_STEPS, -1, -3)))


def _crossing(rng: random.Random) -> list[Token]:
    """Two ranges of different domains, of which the first ends inside the second."""
    first, second = rng.sample((*PHASE_NAMES, "mixed", "cycle"), 2)
    outer, inner = rng.sample(DOMAINS, 2)
    return [
        Open(first, outer),
        _call(rng),
        Open(second, inner, step_ns=rng.choice(_STEPS)),
        _call(rng),
        Close(outer=True, step_ns=rng.choice((*_STEPS, -1))),
        _call(rng),
        Close(step_ns=rng.choice(_STEPS)),
    ]


def _work(rng: random.Random) -> Work:
    return Work(
        lag_ns=rng.choice(_LAGS),
        duration_ns=rng.choice(_DURATIONS),
        stream=rng.choice(_STREAMS),
        kind=rng.choice(("kernel", "kernel", "kernel", "memcpy", "memset", "graph")),
        name=rng.choice(("kernel_a", "kernel_b")),
        device=rng.choice((0, 0, 0, 1)),
        node=rng.choice((None, None, 1, 2)),
        graph=rng.choice((None, None, 5)),
        graph_exec=rng.choice((None, None, 6)),
        queued=rng.random() < 0.7,
    )


def _call(rng: random.Random) -> Call:
    return Call(
        rng.choice(("cudaLaunchKernel_v7000", "cuLaunchKernel", "cudaMemcpyAsync", "cudaMemcpy")),
        tuple(_work(rng) for _ in range(rng.choice((1, 1, 2)))),
        rng.choice(_STEPS),
        rng.choice(_DURATIONS),
        rng.choice(_IDS),
    )


def _idle_call(rng: random.Random) -> Token:
    """A call that launches nothing: it waits for the GPU, or its op was lost."""
    waits = ("StreamSynchronize_v3020", "EventSynchronize", "StreamSynchronize_ptsz_v7000")
    name = rng.choice(("LaunchKernel", *waits))
    return Call(f"cuda{name}", (), rng.choice(_STEPS), rng.choice((0, 2, 9, 30)))


def _wait(rng: random.Random) -> Token:
    return Call(
        "cudaStreamWaitEvent",
        step_ns=rng.choice(_STEPS),
        duration_ns=1,
        waits_for=rng.choice(_STREAMS),
        says_device=rng.random() < 0.5,
    )


def _replay(rng: random.Random) -> Call:
    """A graph launch: a whole-graph row, or one op a node on one or two streams."""
    lag, which = rng.choice(_LAGS), rng.choice((1, 1, 2))
    if rng.random() < 0.3:
        durations = [rng.choice(_DURATIONS)]
        work = [Work(lag, durations[0], kind="graph", graph=which, graph_exec=10 + which)]
    else:
        work = [
            Work(
                lag + 4 * place,
                rng.choice(_DURATIONS),
                rng.choice(_STREAMS),
                node=100 * which + place,
                graph=rng.choice((None, which)),
                queued=rng.random() < 0.6,
            )
            for place in range(rng.choice((1, 2, 3)))
        ]
    return Call("cudaGraphLaunch_v10000", tuple(work), rng.choice(_STEPS), rng.choice(_DURATIONS))


def _around(name: str, *inside: Token, step_ns: int, early: bool = False) -> list[Token]:
    """A range around tokens; an early one closes halfway through its last call."""
    last = inside[-1]
    half = last.duration_ns // 2 if early and isinstance(last, Call) else 0
    return [Open(name, step_ns=step_ns), *inside, Close(step_ns=-half if half else step_ns)]


def _round(rng: random.Random) -> list[Token]:
    """A draft-verify round with sampling inside, or one forward of a baseline."""
    step, call, replay = rng.choice(_STEPS), _call(rng), _replay(rng)
    early = rng.random() < 0.3
    if rng.random() < 0.3:
        name = rng.choice(("decode", "mixed", "forward"))
        return _around(name, replay, call, step_ns=step, early=early)
    target = rng.choice(("verify", "verify", "verify bs=4", "verify bs=4", "idle verify"))
    inner = rng.choice(("sample", "sample", "verify", "prefill", "known", "target?", "decode?"))
    drafting = rng.choice(("draft", "draft", "draft", "propose"))
    extra = rng.choice((_call, _wait, _idle_call, _replay))
    return _around(
        rng.choice((*["cycle"] * 5, "decode", "decode", *FLAG_NAMES)),
        *_around(drafting, replace(call, step_ns=step), step_ns=step, early=early),
        *rng.choice(((), (), (_wait(rng),), (_idle_call(rng),))),
        *_around(target, replay, *_around(inner, _call(rng), step_ns=step), step_ns=step),
        *rng.choice(
            (
                (),
                (extra(rng),),
                (Open("draft_extend"), call, Close()),
                *[(Open("prefill"), call, Close())] * 2,
                (Open("verify", style="start_end"), call, Close(by="other")),
                (Open("draft"), Open(rng.choice(INFERRED_NAMES)), call, Close(), Close()),
            )
        ),
        step_ns=step,
    )


@dataclass
class Machine:
    """Runs programs and keeps the rows; `threads` holds the process of each thread."""

    threads: tuple[int, ...]
    devices: int
    ops: list[dict[str, Any]] = field(default_factory=list)
    launches: list[dict[str, Any]] = field(default_factory=list)
    ranges: list[dict[str, Any]] = field(default_factory=list)
    syncs: list[dict[str, Any]] = field(default_factory=list)
    _free: dict[tuple[int, int, int], int] = field(default_factory=lambda: defaultdict(int))
    _last_id: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    def run(self, thread: int, program: Sequence[Token], clock: int) -> None:
        """Run one thread's program from a time on."""
        opened: list[dict[str, Any]] = []
        for token in program:
            clock += token.step_ns
            if isinstance(token, Open):
                opened.append(self._open(thread, token, clock))
            elif isinstance(token, Call):
                self._call(thread, token, clock)
                clock += token.duration_ns
            elif opened:
                row = opened.pop(0 if token.outer else -1)
                if token.by != "nobody":
                    row |= {"end_ns": max(clock, row["start_ns"]), "closed": True}
                if token.by == "other":
                    row |= {"end_thread": (thread + 1) % len(self.threads), "style": "start_end"}

    def stop(self, origin_ns: int) -> None:
        """End the recording: open ranges get its end, and all times their origin."""
        timed = (*self.ops, *self.launches, *self.ranges, *self.syncs)
        last = max((row["end_ns"] for row in timed if row["end_ns"] is not None), default=0)
        for row in timed:
            end = max(last, row["start_ns"]) if row["end_ns"] is None else row["end_ns"]
            row |= {"start_ns": row["start_ns"] + origin_ns, "end_ns": end + origin_ns}

    def _open(self, thread: int, token: Open, clock: int) -> dict[str, Any]:
        row = {
            "start_ns": clock,
            "end_ns": None,
            "thread": thread,
            "end_thread": None,
            "style": token.style,
            "domain": token.domain,
            "name": token.name,
            "closed": False,
        }
        self.ranges.append(row)
        return row

    def _call(self, thread: int, token: Call, clock: int) -> None:
        process = self.threads[thread]
        if token.ids != "of the call before":
            self._last_id[process] += 1
        number = None if token.ids == "none" else self._last_id[process]
        row = {
            "start_ns": clock,
            "end_ns": clock + token.duration_ns,
            "thread": thread,
            "correlation_id": number,
            "name": token.name,
        }
        if token.ids != "lost row":
            self.launches.append(row)
        if token.ids == "twice":
            self.launches.append(row | {"start_ns": row["end_ns"]})
        for work in token.work:
            self._queue(process, work, number, clock)
        if token.waits_for is not None:
            self.syncs.append(
                {
                    "start_ns": clock,
                    "end_ns": clock,
                    "process": process,
                    "device_id": 0 if token.says_device else None,
                    "stream_id": token.waits_for,
                }
            )

    def _queue(self, process: int, work: Work, number: int | None, clock: int) -> None:
        device = work.device % self.devices
        stream = process, device, work.stream
        start = clock + work.lag_ns
        if work.queued:
            start = max(start, self._free[stream])
        self._free[stream] = max(self._free[stream], start + work.duration_ns)
        self.ops.append(
            {
                "start_ns": start,
                "end_ns": start + work.duration_ns,
                "kind": work.kind,
                "process": process,
                "device_id": device,
                "stream_id": work.stream,
                "correlation_id": number,
                "name": work.name,
                "graph_node_id": work.node,
                "graph_id": work.graph,
                "graph_exec_id": work.graph_exec,
            }
        )
