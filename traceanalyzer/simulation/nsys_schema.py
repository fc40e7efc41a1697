"""Tables and columns of two Nsight Systems SQLite exports, as their own exporters declare them.

`2022.4` is what `nsys export` 2022.4.2 writes; `2025.5` adds what real files of 2024.6, 2025.1 and
2026.2 and the documented schema 3.24 hold. The table of the environment is written only where a
recording makes one up: real ones carry secrets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_SPAN = "start INTEGER NOT NULL, end INTEGER NOT NULL"
_PLACE = "deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL"
_GREEN = "greenContextId INTEGER"
_WORK = "streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER"

_KERNEL = (
    "demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER, "
    "launchType INTEGER, cacheConfig INTEGER, registersPerThread INTEGER NOT NULL, "
    "gridX INTEGER NOT NULL, gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL, "
    "blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL, "
    "staticSharedMemory INTEGER NOT NULL, dynamicSharedMemory INTEGER NOT NULL, "
    "localMemoryPerThread INTEGER NOT NULL, localMemoryTotal INTEGER NOT NULL, "
    "gridId INTEGER NOT NULL, sharedMemoryExecuted INTEGER, graphNodeId INTEGER, "
    "sharedMemoryLimitConfig INTEGER"
)
_KERNEL_2025 = (
    "qmdBulkReleaseDone INTEGER, qmdPreexitDone INTEGER, qmdLastCtaDone INTEGER, "
    "graphId INTEGER, clusterX INTEGER, clusterY INTEGER, clusterZ INTEGER, "
    "clusterSchedulingPolicy INTEGER, maxPotentialClusterSize INTEGER, maxActiveClusters INTEGER"
)
_MEMCPY = (
    "bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL, deprecatedSrcId INTEGER, "
    "srcKind INTEGER, dstKind INTEGER, srcDeviceId INTEGER, srcContextId INTEGER, "
    "dstDeviceId INTEGER, dstContextId INTEGER, migrationCause INTEGER, graphNodeId INTEGER, "
    "virtualAddress INTEGER"
)
_MEMSET = "value INTEGER NOT NULL, bytes INTEGER NOT NULL, graphNodeId INTEGER, memKind INTEGER"
_RANGE = (
    "start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, "
    "category INTEGER, color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, "
    "textId INTEGER, domainId INTEGER, uint64Value INTEGER, int64Value INTEGER, "
    "doubleValue REAL, uint32Value INTEGER, int32Value INTEGER, floatValue REAL, "
    "jsonTextId INTEGER, jsonText TEXT"
)
_GPU = (
    "vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT, busLocation TEXT, "
    "isDiscrete INTEGER, l2CacheSize INTEGER, totalMemory INTEGER, memoryBandwidth INTEGER, "
    "clockRate INTEGER, smCount INTEGER, pwGpuId INTEGER, uuid TEXT, luid INTEGER, "
    "chipName TEXT, cuDevice INTEGER, ctxswDevPath TEXT, ctrlDevPath TEXT, revision INTEGER, "
    "nodeMask INTEGER, constantMemory INTEGER, maxIPC INTEGER, maxRegistersPerBlock INTEGER, "
    "maxShmemPerBlock INTEGER, maxShmemPerBlockOptin INTEGER, maxShmemPerSm INTEGER, "
    "maxRegistersPerSm INTEGER, threadsPerWarp INTEGER, asyncEngines INTEGER, "
    "maxWarpsPerSm INTEGER, maxBlocksPerSm INTEGER, maxThreadsPerBlock INTEGER, "
    "maxBlockDimX INTEGER, maxBlockDimY INTEGER, maxBlockDimZ INTEGER, maxGridDimX INTEGER, "
    "maxGridDimY INTEGER, maxGridDimZ INTEGER, computeMajor INTEGER, computeMinor INTEGER, "
    "smMajor INTEGER, smMinor INTEGER"
)
_ENUM = "id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT"
_META = "name TEXT NOT NULL, value TEXT"

_COMMON: Final = {
    "StringIds": "id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL",
    "PROCESSES": "globalPid INTEGER, pid INTEGER, name TEXT",
    "ThreadNames": "nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER",
    "ANALYSIS_DETAILS": (
        "globalVid INTEGER NOT NULL, duration INTEGER NOT NULL, "
        "startTime INTEGER NOT NULL, stopTime INTEGER NOT NULL"
    ),
    "TARGET_INFO_GPU": _GPU,
    "TARGET_INFO_CUDA_STREAM": (
        "streamId INTEGER NOT NULL, hwId INTEGER NOT NULL, vmId INTEGER NOT NULL, "
        "processId INTEGER NOT NULL, contextId INTEGER NOT NULL, priority INTEGER NOT NULL, "
        "flag INTEGER NOT NULL"
    ),
    "TARGET_INFO_SYSTEM_ENV": (
        "globalVid INTEGER NOT NULL, devStateName TEXT NOT NULL, name TEXT NOT NULL, "
        "nameEnum INTEGER NOT NULL, value TEXT NOT NULL"
    ),
    "PROFILER_OVERHEAD": (
        f"{_SPAN}, globalTid INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL"
    ),
    "CUPTI_ACTIVITY_KIND_RUNTIME": (
        f"{_SPAN}, eventClass INTEGER NOT NULL, globalTid INTEGER, correlationId INTEGER, "
        "nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER"
    ),
}
_NODE_CREATION = (
    f"{_SPAN}, eventClass INTEGER NOT NULL, globalTid INTEGER, nameId INTEGER NOT NULL, "
    "graphNodeId INTEGER NOT NULL, originalGraphNodeId INTEGER"
)

_COMMON_ENUMS: Final = {
    "ENUM_NSYS_EVENT_TYPE": (
        (33, "NvtxCategory", "NvtxCategory"),
        (34, "NvtxMark", "NvtxMark"),
        (39, "NvtxThread", "NvtxThread"),
        (59, "NvtxPushPopRange", "NvtxPushPopRange"),
        (60, "NvtxStartEndRange", "NvtxStartEndRange"),
        (75, "NvtxDomainCreate", "NvtxDomainCreate"),
        (76, "NvtxDomainDestroy", "NvtxDomainDestroy"),
    ),
    "ENUM_NSYS_EVENT_CLASS": (
        (0, "TRACE_PROCESS_EVENT_CUDA_RUNTIME", "CUDA runtime"),
        (1, "TRACE_PROCESS_EVENT_CUDA_DRIVER", "CUDA driver"),
        (67, "TRACE_PROCESS_EVENT_CUDABACKTRACE", "CUDA backtrace"),
        (77, "TRACE_PROCESS_EVENT_CUDA_GRAPH_NODE_CREATION", "CUDA graph node creation"),
        (94, "TRACE_PROCESS_EVENT_CUDA_GRAPHEXEC_CREATION", "CUDA graph exec creation"),
        (95, "TRACE_PROCESS_EVENT_CUDA_GRAPH_CREATION", "CUDA graph creation"),
    ),
    "ENUM_CUDA_MEMCPY_OPER": (
        (1, "CUDA_MEMCPY_KIND_HTOD", "Host-to-Device"),
        (2, "CUDA_MEMCPY_KIND_DTOH", "Device-to-Host"),
        (8, "CUDA_MEMCPY_KIND_DTOD", "Device-to-Device"),
        (10, "CUDA_MEMCPY_KIND_PTOP", "Peer-to-Peer"),
    ),
    "ENUM_CUDA_MEM_KIND": (
        (0, "CUDA_MEMOPR_MEMORY_KIND_PAGEABLE", "Pageable"),
        (1, "CUDA_MEMOPR_MEMORY_KIND_PINNED", "Pinned"),
        (2, "CUDA_MEMOPR_MEMORY_KIND_DEVICE", "Device"),
    ),
    "ENUM_CUPTI_SYNC_TYPE": (
        (0, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_UNKNOWN", "Unknown"),
        (1, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE", "Event sync"),
        (2, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT", "Stream wait sync"),
        (3, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE", "Stream sync"),
        (4, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE", "Context sync"),
    ),
}
_LAUNCH_TYPES: Final = ((1, "CUDA_KERNEL_LAUNCH_TYPE_REGULAR", "Regular"),)
_DIAGNOSTIC_ENUMS: Final = {
    "ENUM_DIAGNOSTIC_SEVERITY_LEVEL": (
        (1, "Info", "Info"),
        (2, "Warning", "Warning"),
        (3, "Error", "Error"),
    ),
    "ENUM_DIAGNOSTIC_SOURCE_TYPE": ((1, "Injection", "Injection"), (3, "Analysis", "Analysis")),
    "ENUM_DIAGNOSTIC_TIMESTAMP_SOURCE": ((1, "TargetTimestamp", "Target timestamp"),),
}

EnumRows = tuple[tuple[int, str, str], ...]


@dataclass(frozen=True, slots=True)
class Flavour:
    """One export schema.

    Attributes:
        tables: Column declarations by table, in the order of the real export.
        enums: Rows of the tables that explain numbers.
        meta_table: Table that names the exporter and its schema.
        node_table: Table of graph node creations.
        graph_table: Table of graph creations; None where the exporter drops them.
        whole_graph_rows: Whether replays can be written as one row each.
    """

    name: str
    product_version: str
    schema_version: str
    tables: Mapping[str, str]
    enums: Mapping[str, EnumRows]
    meta_table: str
    node_table: str
    graph_table: str | None
    whole_graph_rows: bool

    def columns(self, table: str) -> tuple[str, ...]:
        """Column names of a table in order."""
        return tuple(column.split()[0] for column in self.tables[table].split(", "))


def _with_enums(tables: dict[str, str], enums: Mapping[str, EnumRows]) -> dict[str, str]:
    return {**tables, **dict.fromkeys(enums, _ENUM)}


_ENUMS_2022: Final = {**_COMMON_ENUMS, "ENUM_CUDA_KRENEL_LAUNCH_TYPE": _LAUNCH_TYPES}
_ENUMS_2025: Final = {
    **_COMMON_ENUMS,
    **_DIAGNOSTIC_ENUMS,
    "ENUM_CUDA_KERNEL_LAUNCH_TYPE": _LAUNCH_TYPES,
}

NSYS_2022_4: Final = Flavour(
    name="2022.4",
    product_version="2022.4.2.1",
    schema_version="3.0.0",
    tables=_with_enums(
        {
            **_COMMON,
            "EXPORT_META_DATA": _META,
            "TARGET_INFO_SESSION_START_TIME": ("utcEpochNs INTEGER, utcTime TEXT, localTime TEXT"),
            "TARGET_INFO_CUDA_NULL_STREAM": (
                "streamId INTEGER NOT NULL, hwId INTEGER NOT NULL, vmId INTEGER NOT NULL, "
                "processId INTEGER NOT NULL, deviceId INTEGER NOT NULL, "
                "contextId INTEGER NOT NULL"
            ),
            "NVTX_EVENTS": _RANGE,
            "CUPTI_ACTIVITY_KIND_KERNEL": f"{_SPAN}, {_PLACE}, {_WORK}, {_KERNEL}",
            "CUPTI_ACTIVITY_KIND_MEMCPY": f"{_SPAN}, {_PLACE}, {_WORK}, {_MEMCPY}",
            "CUPTI_ACTIVITY_KIND_MEMSET": f"{_SPAN}, {_PLACE}, {_WORK}, {_MEMSET}",
            "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": (
                f"{_SPAN}, {_PLACE}, {_WORK}, syncType INTEGER NOT NULL, eventId INTEGER NOT NULL"
            ),
            "CUDA_GRAPH_EVENTS": _NODE_CREATION,
        },
        _ENUMS_2022,
    ),
    enums=_ENUMS_2022,
    meta_table="EXPORT_META_DATA",
    node_table="CUDA_GRAPH_EVENTS",
    graph_table=None,
    whole_graph_rows=False,
)

NSYS_2025_5: Final = Flavour(
    name="2025.5",
    product_version="2025.5.2.266",
    schema_version="3.24.0",
    tables=_with_enums(
        {
            **_COMMON,
            "META_DATA_EXPORT": _META,
            "TARGET_INFO_SESSION_START_TIME": ("utcEpochNs INTEGER, utcTime TEXT, localTime TEXT"),
            "TARGET_INFO_CUDA_DEVICE": (
                "gpuId INTEGER, cudaId INTEGER NOT NULL, pid INTEGER NOT NULL"
            ),
            "TARGET_INFO_CUDA_CONTEXT_INFO": (
                "nullStreamId INTEGER NOT NULL, hwId INTEGER NOT NULL, vmId INTEGER NOT NULL, "
                "processId INTEGER NOT NULL, deviceId INTEGER NOT NULL, "
                "contextId INTEGER NOT NULL, parentContextId INTEGER, isGreenContext INTEGER"
            ),
            "NVTX_EVENTS": f"{_RANGE}, binaryData TEXT",
            "CUPTI_ACTIVITY_KIND_KERNEL": (
                f"{_SPAN}, {_PLACE}, {_GREEN}, {_WORK}, {_KERNEL}, {_KERNEL_2025}"
            ),
            "CUPTI_ACTIVITY_KIND_MEMCPY": (
                f"{_SPAN}, {_PLACE}, {_GREEN}, {_WORK}, {_MEMCPY}, copyCount INTEGER"
            ),
            "CUPTI_ACTIVITY_KIND_MEMSET": f"{_SPAN}, {_PLACE}, {_GREEN}, {_WORK}, {_MEMSET}",
            "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": (
                f"{_SPAN}, {_PLACE}, {_GREEN}, {_WORK}, graphId INTEGER NOT NULL, "
                "graphExecId INTEGER NOT NULL"
            ),
            "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": (
                f"{_SPAN}, {_PLACE}, {_GREEN}, {_WORK}, deprecatedSyncType INTEGER, "
                "syncType INTEGER NOT NULL, eventId INTEGER NOT NULL, eventSyncId INTEGER"
            ),
            "CUDA_GRAPH_NODE_EVENTS": _NODE_CREATION,
            "CUDA_GRAPH_EVENTS": (
                f"{_SPAN}, eventClass INTEGER NOT NULL, globalTid INTEGER, "
                "nameId INTEGER NOT NULL, graphId INTEGER, originalGraphId INTEGER, "
                "graphExecId INTEGER"
            ),
            "DIAGNOSTIC_EVENT": (
                "timestamp INTEGER NOT NULL, timestampType INTEGER NOT NULL, "
                "source INTEGER NOT NULL, severity INTEGER NOT NULL, text TEXT NOT NULL, "
                "globalPid INTEGER"
            ),
        },
        _ENUMS_2025,
    ),
    enums=_ENUMS_2025,
    meta_table="META_DATA_EXPORT",
    node_table="CUDA_GRAPH_NODE_EVENTS",
    graph_table="CUDA_GRAPH_EVENTS",
    whole_graph_rows=True,
)

FLAVOURS: Final = {flavour.name: flavour for flavour in (NSYS_2022_4, NSYS_2025_5)}
