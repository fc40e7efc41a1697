"""A recording as the JSON that torch.profiler (Kineto) writes for one process.

Ranges and marks become user annotations, and those of a domain carry it and their payload in the
name (`eagle:verify:12`), since torch.profiler has neither. Start/end ranges are left out.
"""

from __future__ import annotations

import gzip
import json
import re
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from traceanalyzer.errors import InputError
from traceanalyzer.simulation.marks import MARK_NS
from traceanalyzer.simulation.recording import (
    DTOH,
    HTOD,
    SYNC_CONTEXT,
    SYNC_EVENT,
    SYNC_STREAM,
    SYNC_STREAM_WAIT,
    ApiCall,
    Mark,
    Op,
    Process,
    Range,
    Recording,
    Sync,
    Thread,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Event = dict[str, Any]

_BASE_STEP_NS = 7_889_238_000_000_000
"""Kineto floors its base time to steps of three months, so that ranks compare directly."""

_COPY_NAMES: Final = {
    HTOD: "Memcpy HtoD (Pinned -> Device)",
    DTOH: "Memcpy DtoH (Device -> Pinned)",
}
_SYNC_NAMES: Final = {
    SYNC_EVENT: "Event Sync",
    SYNC_STREAM_WAIT: "Stream Wait Event",
    SYNC_STREAM: "Stream Sync",
    SYNC_CONTEXT: "Context Sync",
}
_SPELLING: Final = (
    (r"\((?:unsigned int|unsigned long)\)(\d+)", r"\1u"),
    (r"\(long\)(\d+)", r"\1l"),
    (r"\(int\)(\d+)", r"\1"),
    (r"\(bool\)0", "false"),
    (r"\(bool\)1", "true"),
    (r"\((?:\w+::)+\w+\)(\d+)", r"\1"),
    (r"<unnamed>", "(anonymous namespace)"),
    (r" \*", "*"),
)


def write_kineto(recording: Recording, path: str | Path, process: Process | None = None) -> None:
    """Write one process's trace, gzipped when the name ends in `.gz`.

    Args:
        recording: Any recording without whole-graph rows.
        path: File to write; one already there is replaced.
        process: Which process; needed when the recording holds several.

    Raises:
        InputError: The process is not named, or the recording holds whole-graph rows, which
            Kineto does not write.
    """
    chosen = process or _only_process(recording)
    if any(op.kind == "graph" for op in recording.ops):
        raise InputError(
            "torch.profiler writes no whole-graph rows",
            where="graph mode",
            next_step="Use graph mode node or eager.",
        )
    text = _document(_KinetoEvents(recording, chosen))
    target = Path(path)
    data = text.encode()
    target.write_bytes(gzip.compress(data, mtime=0) if target.suffix == ".gz" else data)


def _only_process(recording: Recording) -> Process:
    if len(recording.processes) != 1:
        raise InputError(
            f"a Kineto trace holds one process, this recording {len(recording.processes)}",
            where="process",
            next_step="Name the process to write.",
        )
    return recording.processes[0]


def _document(events: _KinetoEvents) -> str:
    gpu = events.recording.gpu
    head: Event = {
        "schemaVersion": 1,
        "deviceProperties": [
            {
                "id": events.process.device_id,
                "name": gpu.name,
                "totalGlobalMem": gpu.memory_bytes,
                "computeMajor": gpu.compute_capability[0],
                "computeMinor": gpu.compute_capability[1],
                "numSms": gpu.multiprocessors,
                "warpSize": 32,
            }
        ],
        "distributedInfo": {
            "backend": "nccl",
            "rank": events.recording.processes.index(events.process),
            "world_size": len(events.recording.processes),
        },
        "simulation": events.recording.description,
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": events.base_ns,
    }
    lines = ",\n".join(_event_text(event) for event in events)
    opening = json.dumps(head, indent=2)[:-2]
    return f'{opening},\n  "traceEvents": [\n{lines}\n  ],\n  "traceName": "simulated"\n}}\n'


def _event_text(event: Event) -> str:
    """One event over several lines, as Kineto lays it out."""
    return "  " + json.dumps(event, indent=2).replace("\n", "\n  ")


class _KinetoEvents:
    """Iterates over the events of one process, in Kineto's kinds and units."""

    def __init__(self, recording: Recording, process: Process) -> None:
        self.recording = recording
        self.process = process
        self.base_ns = recording.start_utc_ns // _BASE_STEP_NS * _BASE_STEP_NS
        self._shift_ns = recording.start_utc_ns - self.base_ns
        self._calls = {
            call.correlation_id: call for call in recording.calls if call.thread.process is process
        }
        self._ops = [op for op in recording.ops if op.process is process]
        self._ranges = _annotations(recording, process)

    def __iter__(self) -> Iterator[Event]:
        yield from self._user_annotations()
        yield from self._gpu_annotations()
        yield from self._api_calls()
        yield from (self._gpu_work(op) for op in self._ops)
        yield from self._synchronisations()
        yield from self._flows()
        yield from self._names()
        yield from self._spans()

    def _complete(
        self,
        category: str,
        name: str,
        place: tuple[int, int],
        row: _Annotation | ApiCall | Op | Sync,
        args: Event,
    ) -> Event:
        return {
            "ph": "X",
            "cat": category,
            "name": name,
            "pid": place[0],
            "tid": place[1],
            "ts": self._microseconds(row.start_ns),
            "dur": (row.end_ns - row.start_ns) / 1000,
            "args": args,
        }

    def _microseconds(self, time_ns: int) -> float:
        return max(0, time_ns + self._shift_ns) / 1000

    def _host(self, row: _Annotation | ApiCall) -> tuple[int, int]:
        return self.process.process_id, row.thread.thread_id

    def _device(self, stream_id: int) -> tuple[int, int]:
        return self.process.device_id, stream_id

    def _user_annotations(self) -> Iterator[Event]:
        for place, row in enumerate(self._ranges):
            args = {"External id": place + 1, "Record function id": 0, "Ev Idx": place}
            yield self._complete("user_annotation", row.name, self._host(row), row, args)

    def _gpu_annotations(self) -> Iterator[Event]:
        """Per stream, the span of the work that each annotation launched as the innermost one."""
        spans: dict[tuple[int, int], tuple[int, int]] = {}
        owners = self._innermost()
        for op in self._ops:
            owner = owners.get(op.correlation_id)
            if owner is not None:
                key = owner, op.stream_id
                start_ns, end_ns = spans.get(key, (op.start_ns, op.end_ns))
                spans[key] = min(start_ns, op.start_ns), max(end_ns, op.end_ns)
        for (owner, stream_id), (start_ns, end_ns) in spans.items():
            device_id, stream = self._device(stream_id)
            yield {
                "ph": "X",
                "cat": "gpu_user_annotation",
                "name": self._ranges[owner].name,
                "pid": device_id,
                "tid": stream,
                "ts": self._microseconds(start_ns - 1),
                "dur": (end_ns - start_ns + 2) / 1000,
                "args": {"External id": owner + 1},
            }

    def _innermost(self) -> dict[int, int]:
        """The annotation open at each call's start, by correlation id, as its place in order."""
        owners: dict[int, int] = {}
        for thread in self.recording.threads:
            waiting = [place for place, row in enumerate(self._ranges) if row.thread is thread]
            calls = (call for call in self._calls.values() if call.thread is thread)
            open_places: list[int] = []
            for call in sorted(calls, key=lambda call: call.start_ns):
                while waiting and self._ranges[waiting[0]].start_ns <= call.start_ns:
                    open_places.append(waiting.pop(0))
                while open_places and self._ranges[open_places[-1]].end_ns <= call.start_ns:
                    open_places.pop()
                if open_places:
                    owners[call.correlation_id] = open_places[-1]
        return owners

    def _api_calls(self) -> Iterator[Event]:
        for call in self._calls.values():
            category = "cuda_driver" if call.driver else "cuda_runtime"
            name = re.sub(r"_v\d+$", "", call.name)
            args = {"correlation": call.correlation_id}
            yield self._complete(category, name, self._host(call), call, args)

    def _gpu_work(self, op: Op) -> Event:
        args: Event = {
            "device": self.process.device_id,
            "context": 1,
            "stream": op.stream_id,
            "correlation": op.correlation_id,
        }
        place = self._device(op.stream_id)
        if op.kind == "kernel":
            return self._complete("kernel", _kernel_name(op), place, op, _kernel_args(op, args))
        seconds = (op.end_ns - op.start_ns) / 1e9
        args |= {"bytes": op.bytes, "memory bandwidth (GB/s)": op.bytes / seconds / 1e9}
        if op.kind == "memset":
            return self._complete("gpu_memset", "Memset (Device)", place, op, args)
        name = _COPY_NAMES.get(op.copy_kind, "Memcpy DtoD (Device -> Device)")
        return self._complete("gpu_memcpy", name, place, op, args)

    def _synchronisations(self) -> Iterator[Event]:
        for row in self.recording.syncs:
            if row.process is self.process:
                name = _SYNC_NAMES[row.sync_type]
                stream_id = -1 if row.stream_id is None else row.stream_id
                args = {
                    "cuda_sync_kind": name,
                    "stream": stream_id,
                    "correlation": row.correlation_id,
                    "device": self.process.device_id,
                    "context": 1,
                }
                yield self._complete("cuda_sync", name, self._device(stream_id), row, args)

    def _flows(self) -> Iterator[Event]:
        for correlation_id in dict.fromkeys(op.correlation_id for op in self._ops):
            call = self._calls.get(correlation_id)
            if call is not None:
                yield self._flow("s", correlation_id, self._host(call), call.start_ns)
        for op in self._ops:
            place = self._device(op.stream_id)
            yield {**self._flow("f", op.correlation_id, place, op.start_ns), "bp": "e"}

    def _flow(self, shape: str, correlation_id: int, place: tuple[int, int], time_ns: int) -> Event:
        return {
            "ph": shape,
            "id": correlation_id,
            "pid": place[0],
            "tid": place[1],
            "ts": self._microseconds(time_ns),
            "cat": "ac2g",
            "name": "ac2g",
        }

    def _names(self) -> Iterator[Event]:
        own = self.process.process_id, self.process.device_id
        for place, name in zip(own, (self.process.name, "python"), strict=True):
            yield self._metadata("process_name", place, 0, name)
        for thread in self.recording.threads:
            if thread.process is self.process:
                title = f"thread {thread.thread_id} ({thread.name})"
                yield self._metadata("thread_name", own[0], thread.thread_id, title)
        for stream_id in sorted({op.stream_id for op in self._ops}):
            yield self._metadata("thread_name", own[1], stream_id, f"stream {stream_id} ")

    def _metadata(self, name: str, process_id: int, thread_id: int, value: str) -> Event:
        return {
            "name": name,
            "ph": "M",
            "ts": self._microseconds(0),
            "pid": process_id,
            "tid": thread_id,
            "args": {"name": value},
        }

    def _spans(self) -> Iterator[Event]:
        """Events whose process and thread are words: real traces hold them too."""
        start, length = self._microseconds(0), self.recording.end_ns / 1000
        yield {
            "ph": "X",
            "cat": "Trace",
            "ts": start,
            "dur": length,
            "pid": "Spans",
            "tid": "PyTorch Profiler",
            "name": "PyTorch Profiler (0)",
            "args": {"Op count": 0},
        }
        for name, pid, tid, time in (
            (
                "Iteration Start: PyTorch Profiler",
                "Traces",
                "Trace PyTorch Profiler",
                start,
            ),
            ("Record Window End", "", "", start + length),
        ):
            yield {"name": name, "ph": "i", "s": "g", "pid": pid, "tid": tid, "ts": time}


class _Annotation(NamedTuple):
    name: str
    thread: Thread
    start_ns: int
    end_ns: int


def _annotations(recording: Recording, process: Process) -> list[_Annotation]:
    """Push/pop ranges and marks of a process, outer before inner.

    A range that never ended ends with the session; a mark is a short annotation.
    """
    ranges = (
        _Annotation(
            _annotation_name(row),
            row.thread,
            row.start_ns,
            recording.end_ns if row.end_ns is None else row.end_ns,
        )
        for row in recording.ranges
        if row.thread.process is process and row.style == "push_pop"
    )
    marks = (
        _Annotation(_annotation_name(row), row.thread, row.time_ns, row.time_ns + MARK_NS)
        for row in recording.marks
        if row.thread.process is process
    )
    return sorted(chain(ranges, marks), key=lambda row: (row.start_ns, -row.end_ns))


def _annotation_name(row: Range | Mark) -> str:
    if row.domain is None:
        return row.name
    return ":".join((row.domain, row.name, *(() if row.payload is None else (str(row.payload),))))


def _kernel_name(op: Op) -> str:
    """The kernel's name as the C++ runtime demangles it, which is not how nsys does."""
    assert op.kernel is not None
    name = op.kernel.demangled
    for pattern, spelling in _SPELLING:
        name = re.sub(pattern, spelling, name)
    return name


def _kernel_args(op: Op, args: Mapping[str, Any]) -> Event:
    kernel = op.kernel
    assert kernel is not None
    return {
        "queued": 0,
        **args,
        "registers per thread": kernel.registers,
        "shared memory": kernel.shared_bytes,
        "grid": [kernel.grid, 1, 1],
        "block": [kernel.block, 1, 1],
        "graph id": op.graph_id or 0,
        "graph node id": op.graph_node_id or 0,
    }
