"""Two small captures whose every figure can be worked out on paper. Simulated; times in us.

`two_ranks`: three whole cycles of 1,000 us on each of two ranks, with overlap and gaps of four
causes. `graphs`: cycles of two CUDA graphs, one of them interrupted by a prefill, with work that
no range or launch explains.
"""

from __future__ import annotations

from tests.exports import GRAPH_TRACE, SYNC, Export, global_pid, global_tid

US = 1_000
TARGET, SIDE, DRAFT_SIDE = 7, 13, 21  # streams


class Rank:
    """One process, written in microseconds."""

    def __init__(self, export: Export, process_id: int, name: str) -> None:
        self.export = export
        self.thread, self.process = global_tid(process_id), global_pid(process_id)
        self.id = 0
        export.add("PROCESSES", globalPid=self.process, pid=process_id, name=name)
        export.domain("eagle", 1, self.thread)

    def call(self, start: int, name: str, length: int = 5) -> int:
        """A CUDA call; returns its correlation id."""
        self.id += 1
        self.export.call(start * US, (start + length) * US, self.thread, self.id, name)
        return self.id

    def kernel(self, called: int, start: int, end: int, name: str, stream: int = TARGET) -> None:
        id_ = self.call(called, "cudaLaunchKernel_v7000")
        times = start * US, end * US
        self.export.kernel(*times, self.process, id_, name=name, streamId=stream)

    def range(self, name: str, start: int, end: int) -> None:
        self.export.range(name, start * US, end * US, self.thread, domainId=1)


def two_ranks() -> Export:
    """Of 1,000 us on rank 0: draft 330 (160 of them idle), verify 540 (140 idle), draft extend 50,
    sample 50, and 30 in which draft and sample overlap. Rank 1 verifies 20 us faster."""
    export = Export()
    export.add("TARGET_INFO_GPU", vmId=0, id=0, cuDevice=0, name="NVIDIA H200")
    export.add("TARGET_INFO_GPU", vmId=0, id=1, cuDevice=1, name="NVIDIA H200")
    for number, verify in ((0, 400), (1, 380)):
        rank = Rank(export, 4100 + number, f"sglang::scheduler_TP{number}")
        for cycle in range(4):
            _step(rank, 10_000 + 1_000 * cycle, verify)
    return export


def _step(rank: Rank, begin: int, verify: int) -> None:
    rank.range("verify", begin - 95, begin - 80)
    rank.kernel(begin - 90, begin, begin + verify, "verify_kernel")
    rank.range("draft_extend", begin + 99, begin + 106)
    rank.kernel(begin + 100, begin + 400, begin + 450, "extend_kernel")
    rank.range("draft", begin + 475, begin + 699)
    rank.kernel(begin + 480, begin + 500, begin + 600, "draft_kernel")  # host late
    rank.kernel(begin + 490, begin + 550, begin + 650, "draft_kernel", SIDE)
    rank.range("sample", begin + 499, begin + 506)
    rank.kernel(begin + 500, begin + 620, begin + 700, "sample_kernel", SIDE)
    rank.kernel(begin + 680, begin + 760, begin + 800, "draft_kernel")  # launch latency
    waits = rank.call(begin + 686, "cudaStreamWaitEvent_v3020", 1)
    wait = {"syncType": 2, "streamId": DRAFT_SIDE}
    rank.export.op(SYNC, (begin + 686) * US, (begin + 687) * US, rank.process, waits, **wait)
    rank.kernel(begin + 690, begin + 850, begin + 860, "draft_kernel", DRAFT_SIDE)  # dependency
    rank.call(begin + 700, "cudaStreamSynchronize_v3020", 200)  # until 900: synchronisation


def graphs() -> Export:
    """Verifies by whole-graph rows of two graphs in turn, drafts by nodes of a third."""
    export = Export()
    rank = Rank(export, 900, "VLLM::Worker_TP0")
    for cycle in range(7):
        begin = 10_000 + 1_000 * cycle
        rank.range("cycle", begin - 60, begin + 900)
        rank.range("verify", begin - 50, begin - 30)
        id_ = rank.call(begin - 45, "cudaGraphLaunch_v10000")
        graph = {"graphId": 2 + cycle % 2, "graphExecId": 4 + cycle % 2}
        times = begin * US, (begin + 600) * US
        export.op(GRAPH_TRACE, *times, rank.process, id_, **graph)
        rank.range("draft", begin + 50, begin + 70)
        id_ = rank.call(begin + 55, "cudaGraphLaunch_v10000")
        for node in range(3):
            start = begin + 700 + 50 * node
            times = start * US, (start + 50) * US
            export.kernel(
                *times, rank.process, id_, name=f"node_{node}", graphNodeId=77 + node, graphId=6
            )
    rank.range("prefill", 13_600, 13_620)
    rank.kernel(13_605, 13_860, 13_900, "prefill_kernel")
    rank.kernel(12_300, 12_870, 12_880, "stray_kernel")  # in no phase, but in a cycle
    lost = 14_900 * US, 14_910 * US
    export.kernel(*lost, rank.process, 1_000_000, name="orphan_kernel")  # no launch row
    export.kernel(0, 0, rank.process, 1, name="not_collected")
    lines = ("Not all NVTX events might have been collected.", "Profiling has started.")
    for text in lines:
        export.add("DIAGNOSTIC_EVENT", source=1, severity=2, text=text)
    return export
