"""The torch.profiler form of a recording: the same work, in Kineto's words and units."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from nvtx_hooks import vocabulary
from tests.simulation.conftest import SERVERS, SMALL
from traceanalyzer.errors import InputError
from traceanalyzer.simulation import Recording, eagle3_server, write_kineto

if TYPE_CHECKING:
    from pathlib import Path

Event = dict[str, Any]


@pytest.fixture(scope="module")
def recording() -> Recording:
    return eagle3_server(replace(SMALL, ranks=1))


@pytest.fixture(scope="module")
def document(recording: Recording, tmp_path_factory: pytest.TempPathFactory) -> Event:
    path = tmp_path_factory.mktemp("kineto") / "trace.json.gz"
    write_kineto(recording, path)
    return json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)


def of_kind(document: Event, *categories: str) -> list[Event]:
    return [event for event in document["traceEvents"] if event.get("cat") in categories]


def start_ns(document: Event, recording: Recording, event: Event) -> int:
    utc = document["baseTimeNanoseconds"] + Decimal(event["ts"]) * 1000
    return int(utc - recording.start_utc_ns)


def spans(document: Event, recording: Recording, *categories: str) -> list[tuple[Any, ...]]:
    return sorted(
        (
            start_ns(document, recording, event),
            int(Decimal(event["dur"]) * 1000),
            event["args"]["stream"],
            event["args"]["correlation"],
        )
        for event in of_kind(document, *categories)
    )


def test_gpu_work_is_the_recordings_to_the_nanosecond(document, recording):
    for kind in ("kernel", "memcpy", "memset"):
        category = kind if kind == "kernel" else f"gpu_{kind}"
        assert spans(document, recording, category) == sorted(
            (op.start_ns, op.end_ns - op.start_ns, op.stream_id, op.correlation_id)
            for op in recording.ops
            if op.kind == kind
        )


def test_api_calls_are_the_recordings(document, recording):
    found = {
        event["args"]["correlation"]: (event["cat"], event["tid"], event["name"])
        for event in of_kind(document, "cuda_runtime", "cuda_driver")
    }
    assert found == {
        call.correlation_id: (
            "cuda_driver" if call.driver else "cuda_runtime",
            call.thread.thread_id,
            call.name.split("_v")[0],
        )
        for call in recording.calls
    }


def test_ranges_and_marks_are_annotations_in_the_hooks_words(document, recording):
    found = [
        vocabulary.read_annotation(event["name"]) for event in of_kind(document, "user_annotation")
    ]
    ours = sorted((note.name, note.payload) for note in found if note is not None)
    rows = [
        *(row for row in recording.ranges if row.style == "push_pop"),
        *recording.marks,
    ]
    assert ours == sorted((row.name, row.payload) for row in rows if row.domain == "eagle")
    bare = {
        event["name"] for event in of_kind(document, "user_annotation") if ":" not in event["name"]
    }
    assert bare == {"scheduler.run_batch", "scheduler.process_batch_result", "kv_offload"}


def test_flows_lead_from_each_call_to_its_work(document, recording):
    flows = of_kind(document, "ac2g")
    sources = {event["id"] for event in flows if event["ph"] == "s"}
    calls = {call.correlation_id for call in recording.calls}
    used = {op.correlation_id for op in recording.ops}
    assert sources == used & calls
    assert sum(event["ph"] == "f" for event in flows) == len(recording.ops)


def test_gpu_annotations_span_what_their_annotation_launched(document, recording):
    annotations = {
        event["args"]["External id"]: event for event in of_kind(document, "user_annotation")
    }
    calls = {call.correlation_id: call for call in recording.calls}
    reach: dict[tuple[int, int], tuple[int, int]] = {}
    for op in recording.ops:
        call = calls.get(op.correlation_id)
        if call is None:
            continue
        around = [
            number
            for number, event in annotations.items()
            if event["tid"] == call.thread.thread_id
            and start_ns(document, recording, event)
            <= call.start_ns
            < start_ns(document, recording, event) + int(event["dur"] * 1000)
        ]
        if around:
            key = max(around), op.stream_id
            low, high = reach.get(key, (op.start_ns, op.end_ns))
            reach[key] = min(low, op.start_ns), max(high, op.end_ns)
    assert reach
    assert reach == {
        (event["args"]["External id"], event["tid"]): (
            start_ns(document, recording, event) + 1,
            start_ns(document, recording, event) + int(event["dur"] * 1000) - 1,
        )
        for event in of_kind(document, "gpu_user_annotation")
    }


def test_names_are_spelled_as_the_cxx_runtime_does(document):
    names = {event["name"] for event in of_kind(document, "kernel")}
    assert any("FusedAddRMSNormKernel<8u, __nv_bfloat16>" in name for name in names)
    assert not any("(int)" in name or "<unnamed>" in name for name in names)


def test_graph_work_carries_its_node(document, recording):
    nodes = sorted(event["args"]["graph node id"] for event in of_kind(document, "kernel"))
    assert nodes == sorted(op.graph_node_id or 0 for op in recording.ops if op.kind == "kernel")
    assert nodes[-1] > 0


def test_the_document_says_that_it_is_simulated(document):
    assert document["simulation"].startswith("simulated EAGLE-3 server")
    assert document["schemaVersion"] == 1
    assert document["baseTimeNanoseconds"] % 7_889_238_000_000_000 == 0


def test_a_process_of_several_can_be_chosen(small, tmp_path):
    second = small.processes[1]
    write_kineto(small, tmp_path / "trace.json", second)
    document = json.loads((tmp_path / "trace.json").read_text())
    assert document["distributedInfo"] == {"backend": "nccl", "rank": 1, "world_size": 2}
    assert len(of_kind(document, "kernel")) == sum(
        op.kind == "kernel" and op.process is second for op in small.ops
    )


def test_several_processes_need_a_choice(small, tmp_path):
    with pytest.raises(InputError, match="holds one process, this recording 2"):
        write_kineto(small, tmp_path / "trace.json")


def test_whole_graph_rows_are_refused(tmp_path):
    with pytest.raises(InputError, match="no whole-graph rows"):
        write_kineto(
            eagle3_server(replace(SERVERS["graph rows"], ranks=1)), tmp_path / "trace.json"
        )


def test_the_same_recording_gives_the_same_bytes(recording, tmp_path: Path):
    for name in ("a.json.gz", "b.json.gz"):
        write_kineto(recording, tmp_path / name)
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()
