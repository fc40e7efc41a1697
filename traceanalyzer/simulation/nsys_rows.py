"""A recording as rows of the tables that an Nsight Systems export holds.

Ids follow the real export: a process is hardware 8 bits, VM 8, pid 24, thread 24; domain and range
ids count up per process; texts are interned in StringIds.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from traceanalyzer.errors import InputError
from traceanalyzer.simulation.recording import DTOH, HTOD

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from traceanalyzer.simulation.nsys_schema import Flavour
    from traceanalyzer.simulation.recording import Graph, Op, Process, Recording, Thread

Row = dict[str, Any]
"""One row by column name; columns left out are NULL."""

VIRTUAL_MACHINE: Final = 1 << 48
"""hwId 0 and vmId 1, as on the machines whose exports were read."""

_MARK, _PUSH_POP, _START_END, _DOMAIN_CREATE = 34, 59, 60, 75
_RUNTIME, _DRIVER, _BACKTRACE, _NODE_CREATION, _EXEC_CREATION, _GRAPH_CREATION = (
    0,
    1,
    67,
    77,
    94,
    95,
)
_NO_ID = 0xFFFFFFFF
_CONTEXT = 1
_BOOT_NS = 28_254_349_605
_BACKTRACE_MARGIN_NS = 400


class NsysRows:
    """Row by row, the tables of one export.

    Args:
        recording: What to export.
        flavour: The schema to export it in.

    Raises:
        InputError: The recording breaks its own rules, or holds whole-graph rows that this
            schema has no table for.
    """

    def __init__(self, recording: Recording, flavour: Flavour) -> None:
        recording.check()
        if not flavour.whole_graph_rows and any(op.kind == "graph" for op in recording.ops):
            raise InputError(
                f"nsys {flavour.name} has no table for whole-graph rows",
                where="flavour",
                next_step="Use flavour 2025.5, or graph mode node.",
            )
        self._recording = recording
        self._flavour = flavour
        self._nvtx_columns = flavour.columns("NVTX_EVENTS")
        self._strings: dict[str, int] = {}
        self._domains = _domain_ids(recording)

    def tables(self) -> Iterator[tuple[str, Iterable[Row]]]:
        """Tables that have rows, each to be read out before the next; StringIds comes last."""
        flavour = self._flavour
        yield flavour.meta_table, self._meta()
        yield from ((table, _enum_rows(rows)) for table, rows in flavour.enums.items())
        yield from (
            (table, rows)
            for table, rows in (
                ("PROCESSES", self._processes()),
                ("ThreadNames", self._threads()),
                ("ANALYSIS_DETAILS", self._session_length()),
                ("TARGET_INFO_SESSION_START_TIME", self._session_start()),
                ("TARGET_INFO_GPU", self._gpus()),
                ("TARGET_INFO_CUDA_DEVICE", self._devices()),
                ("TARGET_INFO_CUDA_NULL_STREAM", self._null_streams()),
                ("TARGET_INFO_CUDA_CONTEXT_INFO", self._contexts()),
                ("TARGET_INFO_CUDA_STREAM", self._streams()),
                ("TARGET_INFO_SYSTEM_ENV", self._environment()),
                ("DIAGNOSTIC_EVENT", self._diagnostics()),
                ("PROFILER_OVERHEAD", self._overheads()),
                ("NVTX_EVENTS", self._nvtx()),
                ("CUPTI_ACTIVITY_KIND_RUNTIME", self._calls()),
                ("CUPTI_ACTIVITY_KIND_KERNEL", self._kernels()),
                ("CUPTI_ACTIVITY_KIND_MEMCPY", self._copies()),
                ("CUPTI_ACTIVITY_KIND_MEMSET", self._memsets()),
                ("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", self._graph_rows()),
                ("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", self._syncs()),
                (flavour.node_table, self._graph_nodes()),
                (flavour.graph_table, self._graphs()),
            )
            if table is not None and table in flavour.tables
        )
        yield "StringIds", ({"id": place, "value": text} for text, place in self._strings.items())

    def _string(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))

    def _meta(self) -> Iterator[Row]:
        flavour = self._flavour
        for name, value in (
            ("EXPORT_PRODUCT_NAME", "NVIDIA Nsight Systems (simulated by traceanalyzer)"),
            ("EXPORT_PRODUCT_VERSION", flavour.product_version),
            ("EXPORT_SCHEMA_VERSION", flavour.schema_version),
            *zip(
                (
                    "EXPORT_SCHEMA_VERSION_MAJOR",
                    "EXPORT_SCHEMA_VERSION_MINOR",
                    "EXPORT_SCHEMA_VERSION_MICRO",
                ),
                flavour.schema_version.split("."),
                strict=True,
            ),
            ("SIMULATION", self._recording.description),
        ):
            yield {"name": name, "value": value}

    def _processes(self) -> Iterator[Row]:
        for process in self._recording.processes:
            yield {
                "globalPid": _global_pid(process),
                "pid": process.process_id,
                "name": self._recording.program or process.name,
            }

    def _threads(self) -> Iterator[Row]:
        for thread in self._recording.threads:
            yield {
                "nameId": self._string(thread.name),
                "priority": 20,
                "globalTid": _global_tid(thread),
            }

    def _session_length(self) -> Iterator[Row]:
        duration_ns = self._recording.end_ns
        yield {
            "globalVid": VIRTUAL_MACHINE,
            "duration": duration_ns,
            "startTime": _BOOT_NS,
            "stopTime": _BOOT_NS + duration_ns,
        }

    def _session_start(self) -> Iterator[Row]:
        start_ns = self._recording.start_utc_ns
        text = datetime.fromtimestamp(start_ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        yield {"utcEpochNs": start_ns, "utcTime": text, "localTime": text}

    def _gpus(self) -> Iterator[Row]:
        gpu = self._recording.gpu
        for gpu_id in sorted({op.process.gpu_id for op in self._recording.ops}):
            yield {
                "vmId": VIRTUAL_MACHINE,
                "id": gpu_id,
                "name": gpu.name,
                "busLocation": f"0000:{16 * gpu_id + 3:02x}:00.0",
                "isDiscrete": 1,
                "l2CacheSize": gpu.cache_bytes,
                "totalMemory": gpu.memory_bytes,
                "memoryBandwidth": gpu.bytes_per_s,
                "clockRate": gpu.clock_hz,
                "smCount": gpu.multiprocessors,
                "chipName": gpu.chip,
                "cuDevice": gpu_id,
                "threadsPerWarp": 32,
                "computeMajor": gpu.compute_capability[0],
                "computeMinor": gpu.compute_capability[1],
            }

    def _devices(self) -> Iterator[Row]:
        for process in self._gpu_processes():
            yield {
                "gpuId": process.gpu_id,
                "cudaId": process.device_id,
                "pid": process.process_id,
            }

    def _null_streams(self) -> Iterator[Row]:
        for process in self._gpu_processes():
            yield {**_context(process), "streamId": 7, "deviceId": process.device_id}

    def _contexts(self) -> Iterator[Row]:
        for process in self._gpu_processes():
            yield {
                **_context(process),
                "nullStreamId": 7,
                "deviceId": process.device_id,
                "parentContextId": 0,
                "isGreenContext": 0,
            }

    def _streams(self) -> Iterator[Row]:
        streams: dict[Process, set[int]] = defaultdict(set)
        for op in self._recording.ops:
            streams[op.process].add(op.stream_id)
        for process in self._gpu_processes():
            for stream_id in sorted(streams[process]):
                yield {**_context(process), "streamId": stream_id, "priority": 0, "flag": 2}

    def _gpu_processes(self) -> list[Process]:
        used = {op.process for op in self._recording.ops}
        return [process for process in self._recording.processes if process in used]

    def _diagnostics(self) -> Iterator[Row]:
        for row in self._recording.diagnostics:
            yield {
                "timestamp": row.time_ns,
                "timestampType": 1,
                "source": 1,
                "severity": row.severity,
                "text": row.text,
                "globalPid": None if row.process is None else _global_pid(row.process),
            }

    def _environment(self) -> Iterator[Row]:
        """The environment in one value, as real exports have it: assignments parted by NUL."""
        block = "\0".join(f"{name}={value}" for name, value in self._recording.environment.items())
        host = self._recording.host
        for name, number, value in (
            ("DeviceEnvironment", 610, block or None),
            ("Hostname", 619, host),
        ):
            if value is not None:
                yield {
                    "globalVid": VIRTUAL_MACHINE,
                    "devStateName": "Local (CLI)",
                    "name": name,
                    "nameEnum": number,
                    "value": value,
                }

    def _overheads(self) -> Iterator[Row]:
        for row in sorted(self._recording.overheads, key=lambda row: row.start_ns):
            yield {
                "start": row.start_ns,
                "end": row.end_ns,
                "globalTid": _global_tid(row.thread),
                "nameId": self._string(row.name),
                "returnValue": 0,
            }

    def _nvtx(self) -> Iterator[Row]:
        rows = chain(self._domain_rows(), self._range_rows(), self._mark_rows())
        yield from sorted(rows, key=lambda row: int(row["start"]))

    def _domain_rows(self) -> Iterator[Row]:
        for domain in self._recording.domains:
            yield {
                **self._named(domain.name, registered=False),
                "start": domain.time_ns,
                "end": None,
                "eventType": _DOMAIN_CREATE,
                "globalTid": _global_tid(domain.thread),
                "domainId": self._domains[domain.thread.process, domain.name],
            }

    def _range_rows(self) -> Iterator[Row]:
        range_ids: dict[Process, int] = defaultdict(int)
        stop_ns = self._recording.end_ns
        for row in self._recording.ranges:
            process = row.thread.process
            handle = None
            if row.style == "start_end":
                range_ids[process] += 1
                handle = range_ids[process]
            yield {
                **self._named(row.name, registered=row.registered),
                "start": row.start_ns,
                "end": stop_ns if row.end_ns is None else row.end_ns,
                "eventType": _PUSH_POP if row.style == "push_pop" else _START_END,
                "rangeId": handle,
                "globalTid": _global_tid(row.thread),
                "endGlobalTid": None if row.end_thread is None else _global_tid(row.end_thread),
                "domainId": self._domain(process, row.domain),
                "int64Value": row.payload,
            }

    def _mark_rows(self) -> Iterator[Row]:
        for row in self._recording.marks:
            yield {
                **self._named(row.name, registered=row.registered),
                "start": row.time_ns,
                "end": None,
                "eventType": _MARK,
                "globalTid": _global_tid(row.thread),
                "domainId": self._domain(row.thread.process, row.domain),
                "int64Value": row.payload,
            }

    def _named(self, text: str, *, registered: bool) -> Row:
        row: Row = dict.fromkeys(self._nvtx_columns)
        if registered:
            return {**row, "textId": self._string(text)}
        return {**row, "text": text}

    def _domain(self, process: Process, name: str | None) -> int:
        return 0 if name is None else self._domains[process, name]

    def _calls(self) -> Iterator[Row]:
        calls = sorted(self._recording.calls, key=lambda call: call.start_ns)
        for place, call in enumerate(calls):
            row = {
                "start": call.start_ns,
                "end": call.end_ns,
                "eventClass": _DRIVER if call.driver else _RUNTIME,
                "globalTid": _global_tid(call.thread),
                "correlationId": call.correlation_id,
                "nameId": self._string(call.name),
                "returnValue": 0,
                "callchainId": None,
            }
            if call.backtrace:
                # The twin comes first and is a little wider, as in a real export of 2022.2.
                yield {
                    **row,
                    "start": call.start_ns - _BACKTRACE_MARGIN_NS,
                    "end": call.end_ns + _BACKTRACE_MARGIN_NS,
                    "eventClass": _BACKTRACE,
                    "callchainId": place,
                }
            yield row

    def _kernels(self) -> Iterator[Row]:
        graph_ids = "graphId" in self._flavour.columns("CUPTI_ACTIVITY_KIND_KERNEL")
        for place, op in enumerate(self._ops("kernel")):
            kernel = op.kernel
            assert kernel is not None
            row = {
                **_work(op),
                "demangledName": self._string(kernel.demangled),
                "shortName": self._string(kernel.short),
                "launchType": 1,
                "cacheConfig": 1,
                "registersPerThread": kernel.registers,
                **dict.fromkeys(("gridY", "gridZ", "blockY", "blockZ"), 1),
                "gridX": kernel.grid,
                "blockX": kernel.block,
                "staticSharedMemory": 0,
                "dynamicSharedMemory": kernel.shared_bytes,
                "localMemoryPerThread": 0,
                "localMemoryTotal": 0,
                "gridId": place + 1,
                "sharedMemoryExecuted": 65_536,
                "graphNodeId": op.graph_node_id,
                "sharedMemoryLimitConfig": 0,
            }
            if graph_ids:
                row["graphId"] = op.graph_id
            yield row

    def _copies(self) -> Iterator[Row]:
        for op in self._ops("memcpy"):
            yield {
                **_work(op),
                "bytes": op.bytes,
                "copyKind": op.copy_kind,
                "srcKind": 1 if op.copy_kind == HTOD else 2,
                "dstKind": 1 if op.copy_kind == DTOH else 2,
                "graphNodeId": op.graph_node_id,
            }

    def _memsets(self) -> Iterator[Row]:
        for op in self._ops("memset"):
            yield {
                **_work(op),
                "value": 0,
                "bytes": op.bytes,
                "graphNodeId": op.graph_node_id,
                "memKind": 2,
            }

    def _graph_rows(self) -> Iterator[Row]:
        for op in self._ops("graph"):
            yield {**_work(op), "graphId": op.graph_id, "graphExecId": op.graph_exec_id}

    def _ops(self, kind: str) -> list[Op]:
        own = (op for op in self._recording.ops if op.kind == kind)
        return sorted(own, key=lambda op: op.start_ns)

    def _syncs(self) -> Iterator[Row]:
        for row in sorted(self._recording.syncs, key=lambda row: row.start_ns):
            yield {
                "start": row.start_ns,
                "end": row.end_ns,
                "deviceId": row.process.device_id,
                "contextId": _CONTEXT,
                "streamId": _NO_ID if row.stream_id is None else row.stream_id,
                "correlationId": row.correlation_id,
                "globalPid": _global_pid(row.process),
                "syncType": row.sync_type,
                "eventId": _NO_ID if row.event_id is None else row.event_id,
            }

    def _graph_nodes(self) -> Iterator[Row]:
        for row in sorted(self._recording.graph_nodes, key=lambda row: row.time_ns):
            yield {
                "start": row.time_ns,
                "end": row.time_ns,
                "eventClass": _NODE_CREATION,
                "globalTid": _global_tid(row.thread),
                "nameId": self._string("Graph Node Creation"),
                "graphNodeId": row.node_id,
                "originalGraphNodeId": row.original_id,
            }

    def _graphs(self) -> Iterator[Row]:
        for row in sorted(self._recording.graphs, key=lambda row: row.time_ns):
            yield self._graph(row)

    def _graph(self, row: Graph) -> Row:
        created = row.exec_id is None
        return {
            "start": row.time_ns,
            "end": row.time_ns,
            "eventClass": _GRAPH_CREATION if created else _EXEC_CREATION,
            "globalTid": _global_tid(row.thread),
            "nameId": self._string("Graph Creation" if created else "GraphExec Creation"),
            "graphId": row.graph_id,
            "originalGraphId": None,
            "graphExecId": row.exec_id,
        }


def _enum_rows(rows: Iterable[tuple[int, str, str]]) -> Iterator[Row]:
    for number, name, label in rows:
        yield {"id": number, "name": name, "label": label}


def _domain_ids(recording: Recording) -> dict[tuple[Process, str], int]:
    ids: dict[tuple[Process, str], int] = {}
    for domain in recording.domains:
        process = domain.thread.process
        used = sum(owner is process for owner, _name in ids)
        ids.setdefault((process, domain.name), used + 1)
    return ids


def _global_pid(process: Process) -> int:
    return VIRTUAL_MACHINE | (process.process_id & 0xFFFFFF) << 24


def _global_tid(thread: Thread) -> int:
    return _global_pid(thread.process) | thread.thread_id & 0xFFFFFF


def _context(process: Process) -> Row:
    return {"hwId": 0, "vmId": 1, "processId": process.process_id, "contextId": _CONTEXT}


def _work(op: Op) -> Row:
    return {
        "start": op.start_ns,
        "end": op.end_ns,
        "deviceId": op.process.device_id,
        "contextId": _CONTEXT,
        "streamId": op.stream_id,
        "correlationId": op.correlation_id,
        "globalPid": _global_pid(op.process),
    }
