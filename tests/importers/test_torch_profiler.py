"""The torch.profiler importer against a plain reading of the same JSON by the standard library."""

from __future__ import annotations

import gzip
import json
import random
from collections import Counter
from contextlib import contextmanager
from decimal import ROUND_HALF_EVEN, Decimal
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.harness import needs_shared, shared_folder
from tests.strategies import examples
from traceanalyzer import schema
from traceanalyzer.errors import InputError
from traceanalyzer.importers import kineto_columns, kineto_json, torch_profiler
from traceanalyzer.importers.kineto_text import TraceText
from traceanalyzer.progress import silent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from traceanalyzer.trace import Trace

# Writing: JSON whose numbers are given as text, in layouts that recorders and tools produce.


class Number(str):
    """A JSON number by its text."""

    __slots__ = ()


def written(value: object, comma: str = ", ", colon: str = ": ") -> str:
    """One JSON value on one line."""
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict):
        items = (json.dumps(k) + colon + written(v, comma, colon) for k, v in value.items())
        return "{" + comma.join(items) + "}"
    if isinstance(value, list):
        return "[" + comma.join(written(item, comma, colon) for item in value) + "]"
    return json.dumps(value)


def pretty(value: object, indent: str = "") -> str:
    """One JSON value with a line for each item."""
    inner = indent + "    "
    if isinstance(value, dict) and value:
        items = [f"{inner}{json.dumps(k)}: {pretty(v, inner)}" for k, v in value.items()]
        return "{\n" + ",\n".join(items) + f"\n{indent}}}"
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(inner + pretty(v, inner) for v in value) + f"\n{indent}]"
    return written(value)


def as_kineto(event: Any) -> str:
    """An event in the layout of Kineto's own writer."""
    if not isinstance(event, dict):
        return "  " + written(event)
    args = event.get("args")
    if not isinstance(args, dict):
        return "  {\n    " + written(event)[1:-1] + "\n  }"
    head = {key: value for key, value in event.items() if key != "args"}
    lines = written(head)[1:-1], '"args": {\n      ' + written(args)[1:-1] + "\n    }"
    return "  {\n    " + ",\n    ".join(lines) + "\n  }"


Events = list[dict[str, Any]]


def _object(metadata: Mapping[str, Any], events: str, last: bool = True) -> str:
    items = [f"{json.dumps(key)}: {written(value)}" for key, value in metadata.items()]
    items.insert(len(items) if last else 0, f'"traceEvents": [{events}]')
    return "{" + ", ".join(items) + "}"


LAYOUTS: dict[str, Callable[[Mapping[str, Any], Events], str]] = {
    "kineto": lambda metadata, events: _object(
        metadata, "\n" + ",\n".join(map(as_kineto, events)) + "\n  "
    ),
    "minified": lambda metadata, events: written({**metadata, "traceEvents": events}, ",", ":"),
    "json.dump": lambda metadata, events: written({**metadata, "traceEvents": events}),
    "events first": lambda metadata, events: written({"traceEvents": events, **metadata}),
    "pretty": lambda metadata, events: pretty({**metadata, "traceEvents": events}),
    "a line an event": lambda metadata, events: _object(
        metadata, "\n" + ",\n".join(map(written, events)) + "\n", last=False
    ),
    "windows lines": lambda metadata, events: pretty({"traceEvents": events, **metadata}).replace(
        "\n", "\r\n"
    ),
    "wide": lambda metadata, events: written(
        {**metadata, "traceEvents": events}, " \n\t, \r\n", "\t :\n "
    ),
}


# Reading, plainly: what the importer must say of well-formed text.

_KINDS = {
    "kernel": "kernel",
    "Kernel": "kernel",
    "gpu_memcpy": "memcpy",
    "Memcpy": "memcpy",
    "gpu_memset": "memset",
    "Memset": "memset",
}
_LAUNCHES = {"cuda_runtime", "cuda_driver", "Runtime"}


def _ns(microseconds: Any) -> int:
    return int((Decimal(microseconds) * 1000).to_integral_value(ROUND_HALF_EVEN))


def plainly(text: str | bytes) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of a trace, with names and thread ids in place of keys."""
    document = json.loads(text, parse_float=Decimal)
    events = document if isinstance(document, list) else document["traceEvents"]
    rows: dict[str, list[tuple[Any, ...]]] = {"ops": [], "launches": [], "ranges": [], "syncs": []}
    for event in events:
        if event.get("ph") != "X":
            continue
        category, args = event.get("cat"), event.get("args", {})
        times = _ns(event["ts"]), _ns(event["ts"]) + _ns(event["dur"])
        correlation = args.get("correlation") or None
        if category in _KINDS:
            place = args.get("device", event["pid"]), args.get("stream", event["tid"])
            nodes = args.get("graph node id") or None, args.get("graph id") or None
            name = event["name"]
            rows["ops"].append((*times, _KINDS[category], *place, correlation, name, *nodes))
        elif category in _LAUNCHES:
            rows["launches"].append((*times, int(event["tid"]), correlation, event["name"]))
        elif category == "user_annotation":
            closed = str(args.get("finished", True)).lower() != "false"
            rows["ranges"].append((*times, int(event["tid"]), event["name"], closed))
        elif category == "cuda_sync":
            kind = args["cuda_sync_kind"]
            rows["syncs"].append((*times, kind, args["device"], args["stream"], correlation))
    return rows


_SYNC_WORDS = {
    "stream_wait_event": "Stream Wait Event",
    "event": "Event Sync",
    "stream": "Stream Sync",
    "context": "Context Sync",
}


def rows_of(trace: Trace) -> dict[str, list[tuple[Any, ...]]]:
    """The imported trace in the form of `plainly`."""
    threads = dict(trace.threads.select("thread", "thread_id").iter_rows())
    names = dict(trace.names.select("name", "text").iter_rows())
    ops = trace.ops.select(
        "start_ns",
        "end_ns",
        "kind",
        "device_id",
        "stream_id",
        "correlation_id",
        "name",
        "graph_node_id",
        "graph_id",
    )
    launches = trace.launches.select("start_ns", "end_ns", "thread", "correlation_id", "name")
    ranges = trace.ranges.select("start_ns", "end_ns", "thread", "name", "closed")
    syncs = trace.syncs.select(
        "start_ns",
        "end_ns",
        "kind",
        pl.col("device_id").fill_null(-1),
        pl.col("stream_id").fill_null(-1),
        "correlation_id",
    )
    return {
        "ops": [(*row[:6], names[row[6]], *row[7:]) for row in ops.iter_rows()],
        "launches": [
            (*row[:2], threads[row[2]], row[3], names[row[4]]) for row in launches.iter_rows()
        ],
        "ranges": [
            (*row[:2], threads[row[2]], names[row[3]], row[4]) for row in ranges.iter_rows()
        ],
        "syncs": [(*row[:2], _SYNC_WORDS[row[2]], *row[3:]) for row in syncs.iter_rows()],
    }


def content(trace: Trace) -> dict[str, Any]:
    """All that a trace says except the path of its file and the diagnostics."""
    tables = {table.name: getattr(trace, table.name) for table in schema.TABLES}
    tables["files"] = tables["files"].drop("path")
    return {name: frame.rows() for name, frame in tables.items() if name != "diagnostics"}


def diagnostics(trace: Trace) -> dict[str, int]:
    return dict(trace.diagnostics.select("text", "count").iter_rows())


def noted(trace: Trace, words: str) -> int:
    """How often the diagnostics say something with these words."""
    return sum(number for text, number in diagnostics(trace).items() if words in text)


def span(category: str, start: object, duration: object, /, **more: Any) -> dict[str, Any]:
    """One complete event."""
    event = {"ph": "X", "cat": category, "name": f"a {category}", "pid": 7, "tid": 70}
    times = {"ts": Number(start), "dur": Number(duration)}
    return {**event, **times, **more}


def kernel(start: object, duration: object = 1, /, **args: Any) -> dict[str, Any]:
    args = {"device": 0, "stream": 7, "correlation": 1, **args}
    return span("kernel", start, duration, name="a kernel", pid=0, tid=7, args=args)


def launch(start: object, duration: object = 1, correlation: object = 1) -> dict[str, Any]:
    args = {"correlation": correlation}
    return span("cuda_runtime", start, duration, name="cudaLaunchKernel", args=args)


def annotation(start: object, duration: object = 1, name: str = "step") -> dict[str, Any]:
    return span("user_annotation", start, duration, name=name)


@pytest.fixture(name="reading")
def _reading(tmp_path: Path) -> Callable[..., Trace]:
    """Reads what is given: text, bytes, or events (with metadata), as a file."""

    def read(given: str | bytes | Events, **metadata: Any) -> Trace:
        if isinstance(given, list):
            given = LAYOUTS["json.dump"](metadata, given)
        path = tmp_path / "trace"
        path.write_bytes(given if isinstance(given, bytes) else given.encode())
        return torch_profiler.read(path, silent)

    return read


@pytest.fixture(name="small_pieces")
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kineto_json, "HEAD_BYTES", 300)
    monkeypatch.setattr(kineto_json, "PIECE_BYTES", 600)


def _real_traces() -> list[Path]:
    folder = shared_folder()
    return sorted((folder / "traces" / "kineto").iterdir()) if folder else [Path("none")]


def _text_of(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data


@pytest.fixture(name="real", params=_real_traces(), ids=lambda path: path.name.partition(".")[0])
def _real(request: pytest.FixtureRequest) -> Path:
    path = request.param
    assert isinstance(path, Path)
    return path


@needs_shared
def test_a_real_trace_has_the_counts_and_durations_of_its_text(real: Path) -> None:
    trace = torch_profiler.read(real, silent)
    document = json.loads(_text_of(real), parse_float=Decimal)
    events = document if isinstance(document, list) else document["traceEvents"]
    spans = [event for event in events if event.get("ph") == "X"]
    counts = Counter(_KINDS[event["cat"]] for event in spans if event["cat"] in _KINDS)
    assert Counter(trace.ops["kind"].to_list()) == counts
    assert trace.launches.height == sum(event["cat"] in _LAUNCHES for event in spans)
    assert trace.ranges.height == sum(event["cat"] == "user_annotation" for event in spans)
    for kind in counts:
        chosen = trace.ops.filter(pl.col("kind") == kind)
        stated = sum(_ns(event["dur"]) for event in spans if _KINDS.get(event["cat"]) == kind)
        assert (chosen["end_ns"] - chosen["start_ns"]).sum() == stated
    assert trace.processes.height == 1


@needs_shared
def test_a_real_trace_has_the_rows_of_its_text(real: Path) -> None:
    trace = torch_profiler.read(real, silent)
    expected = plainly(_text_of(real))
    assert rows_of(trace) == expected
    assert trace.devices["device_id"].to_list() == sorted({row[3] for row in expected["ops"]})


@needs_shared
def test_a_real_trace_keeps_its_metadata(real: Path) -> None:
    trace = torch_profiler.read(real, silent)
    document = json.loads(_text_of(real))
    metadata = document if isinstance(document, dict) else {}
    assert trace.processes["rank"][0] == metadata.get("distributedInfo", {}).get("rank")
    assert trace.files["start_utc_ns"][0] == metadata.get("baseTimeNanoseconds", 0)
    named = {entry["id"]: entry["name"] for entry in metadata.get("deviceProperties", [])}
    assert trace.devices["name"].to_list() == [
        named.get(device) or None for device in trace.devices["device_id"]
    ]
    events = document if isinstance(document, list) else document["traceEvents"]
    cpu_categories = {"cpu_op", "Operator", "user_annotation", *_LAUNCHES}
    pids = Counter(event["pid"] for event in events if event.get("cat") in cpu_categories)
    assert trace.processes["process_id"][0] == pids.most_common(1)[0][0]


@needs_shared
@pytest.mark.parametrize("layout", ["kineto", "minified", "events first", "pretty", "wide"])
def test_a_real_trace_reads_alike_in_any_layout(
    real: Path, layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = json.loads(_text_of(real), parse_float=Number)
    events = document if isinstance(document, list) else document.pop("traceEvents")
    metadata = {} if isinstance(document, list) else document
    some = events[:: max(1, len(events) // 2000)]
    text = LAYOUTS[layout](metadata, some)
    path = tmp_path / "again.json"
    path.write_text(text, newline="")
    monkeypatch.setattr(kineto_json, "PIECE_BYTES", 100_000)
    assert rows_of(torch_profiler.read(path, silent)) == plainly(text)


@needs_shared
def test_a_real_trace_cut_off_anywhere_reads_as_its_beginning(real: Path, tmp_path: Path) -> None:
    text = _text_of(real)
    whole = rows_of(torch_profiler.read(real, silent))
    randomly = random.Random(7)
    path = tmp_path / "cut.json"
    for cut in [randomly.randrange(len(text)) for _ in range(4)]:
        for data in (text[:cut], gzip.compress(text, 1, mtime=0)[: cut // 20]):
            path.write_bytes(data)
            part = read_or_refused(path)
            if part is not None:
                assert is_beginning(rows_of(part), whole)
                assert noted(part, "breaks off") == 1


def read_or_refused(path: Path) -> Trace | None:
    """The trace, or None when it is refused in the way a person can act on."""
    try:
        return torch_profiler.read(path, silent)
    except InputError as error:
        refusal = error
    assert refusal.where == str(path)
    assert refusal.next_step
    return None


def is_beginning(part: Mapping[str, Sequence[Any]], whole: Mapping[str, Sequence[Any]]) -> bool:
    """Whether each table of one is the start of the same table of the other."""
    return all(list(rows) == list(whole[table])[: len(rows)] for table, rows in part.items())


_FRAGMENTS = (
    "},{",
    "}, {",
    "},\n  {\n",
    '"traceEvents": [',
    '{"ph": "X", "cat": "kernel", "name": "x", "ts": 1, "dur": 1}',
    "]}",
    "[[",
    '"',
    "\\",
    '\\"',
    "é",
    "\u2028",
    "😀",
    "\x00",
    "\t",
    "nan",
    ": inf,",
    "void at::native::(anonymous namespace)::kernel<4, std::array<char*, 2ul> >",
)


_CATEGORIES = (
    *("kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cuda_driver", "user_annotation"),
    *("gpu_user_annotation", "cpu_op", "python_function", "ac2g"),
)


_TEXTS = st.lists(st.sampled_from(_FRAGMENTS) | st.text(max_size=3), max_size=3).map("".join)
# What an argument may hold: things that look like events, and lists of them.
_ARGUMENTS = _TEXTS | st.sampled_from(
    [
        None,
        True,
        -5,
        [],
        {},
        kernel(5),
        [kernel(5), kernel(6)],
        [[[kernel(5)], "]}"], {}],
        {"traceEvents": [kernel(5), {"args": {"},{": [{}, {}]}}], "ph": "X"},
        {'"': {"\\": ["},\n  {\n", {"ph": "M"}]}},
    ]
)
_DRAWN = st.tuples(
    st.sampled_from(_CATEGORIES),
    st.integers(0, 10**7),
    st.integers(0, 10**7),
    st.integers(0, 11),
    _TEXTS,
    _ARGUMENTS,
)


def _microseconds(nanoseconds: int, whole: bool) -> str:
    text = f"{nanoseconds // 1000}.{nanoseconds % 1000:03d}"
    return text.partition(".")[0] if whole else text


@st.composite
def _events(draw: st.DrawFn) -> Events:
    base_ns = draw(st.sampled_from([0, 6_869_181_217_913_045, 1_712_195_495_506_161_234]))
    whole = draw(st.booleans())
    events: Events = []
    for category, start, duration, number, text, argument in draw(
        st.lists(_DRAWN, min_size=1, max_size=10)
    ):
        args = {"correlation": number % 4, "device": number % 2, "stream": number % 3}
        event = span(
            category,
            _microseconds(base_ns + start, whole),
            _microseconds(duration, whole),
            name=text,
            tid=70 + number % 3,
            args={**args, text: argument},
        )
        if category == "ac2g":
            event |= {"ph": "f", "id": number}
        events.append(event)
    events.append(launch(0))  # a trace without any span of torch.profiler is refused
    return events


_METADATA: dict[str, Any] = {
    "schemaVersion": 1,
    "deviceProperties": [{"id": 0, "name": "GPU one"}, {"id": 1, "name": ""}],
    "distributedInfo": {"backend": "nccl", "rank": 3},
    "a, {": '"traceEvents": [{"ph": "X"}]',
    "log": ["},{", "x"],
    "nested": {"traceEvents": [{"ph": "X", "cat": "kernel", "ts": 1, "dur": 1}]},
}


@pytest.fixture(name="scratch", scope="module")
def _scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scratch") / "trace"


@contextmanager
def pieces_of(size: int) -> Iterator[None]:
    """Read so many bytes at a time, and sort a few spans at a time, inside of this only.

    A fixture would outlast the examples of a test.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kineto_json, "HEAD_BYTES", size)
        patch.setattr(kineto_json, "PIECE_BYTES", size)
        patch.setattr(kineto_columns, "_SPANS_AT_ONCE", 1 + size // 300)
        yield


@examples(0.5)
@given(events=_events(), layout=st.sampled_from(sorted(LAYOUTS)), piece=st.integers(1, 3000))
def test_any_layout_and_any_piece_size_give_the_rows_of_the_text(
    scratch: Path, events: Events, layout: str, piece: int
) -> None:
    text = LAYOUTS[layout](_METADATA, events)
    scratch.write_text(text, newline="")
    with pieces_of(piece):
        trace = torch_profiler.read(scratch, silent)
    assert rows_of(trace) == plainly(text)
    assert trace.processes["rank"].to_list() == [3]
    assert trace.files["schema_version"].to_list() == ["1"]
    assert not diagnostics(trace)
    assert torch_profiler.recognises(scratch, scratch.read_bytes()[:4096])


@examples(0.3)
@given(events=_events(), pieces=st.lists(st.integers(1, 3000), min_size=3, max_size=3))
def test_layouts_and_piece_sizes_leave_no_mark_on_the_tables(
    scratch: Path, events: Events, pieces: list[int]
) -> None:
    read = []
    for layout, piece in zip(("kineto", "minified", "wide"), pieces, strict=True):
        scratch.write_text(LAYOUTS[layout](_METADATA, events), newline="")
        with pieces_of(piece):
            read.append(content(torch_profiler.read(scratch, silent)))
    assert read[0] == read[1] == read[2]


@examples(0.5)
@given(
    events=_events(),
    layout=st.sampled_from(sorted(LAYOUTS)),
    share=st.floats(0, 1),
    piece=st.integers(1, 3000),
    packed=st.booleans(),
)
def test_a_trace_cut_off_anywhere_reads_as_its_beginning(
    scratch: Path, events: Events, layout: str, share: float, piece: int, packed: bool
) -> None:
    text = LAYOUTS[layout](_METADATA, events)
    data = gzip.compress(text.encode(), 1, mtime=0) if packed else text.encode()
    cut = int(share * len(data))
    scratch.write_bytes(data[:cut])
    with pieces_of(piece):
        trace = read_or_refused(scratch)
    if trace is None:
        return
    assert is_beginning(rows_of(trace), plainly(text))
    assert cut == len(data) or diagnostics(trace)


_HOSTILE = (
    b"",
    b'"',
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\xff",
    b"\x00",
    b"-",
    b"9" * 40,
    b"e",
)


@examples(0.5)
@given(
    events=_events(),
    layout=st.sampled_from(sorted(LAYOUTS)),
    damage=st.lists(
        st.tuples(st.floats(0, 1), st.integers(0, 3), st.sampled_from(_HOSTILE)), max_size=4
    ),
    piece=st.integers(1, 3000),
    packed=st.booleans(),
)
def test_damaged_text_is_read_or_refused(
    scratch: Path,
    events: Events,
    layout: str,
    damage: list[tuple[float, int, bytes]],
    piece: int,
    packed: bool,
) -> None:
    data = LAYOUTS[layout](_METADATA, events).encode()
    data = gzip.compress(data, 1, mtime=0) if packed else data
    for share, removed, inserted in damage:
        at = int(share * len(data))
        data = data[:at] + inserted + data[at + removed :]
    scratch.write_bytes(data)
    with pieces_of(piece):
        trace = read_or_refused(scratch)
    if trace is not None:
        assert trace.names.write_csv().encode()
        assert trace.processes.height == 1


def test_every_cut_of_a_small_trace_keeps_every_whole_event(tmp_path: Path) -> None:
    events = [kernel(n, name=f"k{n}", junk=[{"ph": "X"}, "},{"]) for n in range(1, 4)]
    text = LAYOUTS["json.dump"]({"schemaVersion": 1}, events)
    ends = [text.index(written(event)) + len(written(event)) for event in events]
    path = tmp_path / "trace"
    for cut in range(len(text)):
        path.write_text(text[:cut])
        whole = sum(end <= cut for end in ends)
        if not whole:
            with pytest.raises(InputError):
                torch_profiler.read(path, silent)
            continue
        trace = torch_profiler.read(path, silent)
        assert trace.ops.height == whole
        if cut <= ends[-1]:
            assert noted(trace, "breaks off") == 1


def test_pieces_stay_small(tmp_path: Path, small_pieces: None) -> None:
    events = [kernel(n) for n in range(1, 500)]
    for layout, write in LAYOUTS.items():
        path = tmp_path / "trace"
        path.write_text(write({}, events))
        with TraceText(path) as text:
            reader = kineto_json.KinetoReader(text, ["kernel"])
            sizes = [piece.events for piece in reader.pieces()]
        assert sum(sizes) == len(events), layout
        assert max(sizes) <= 5, layout


@pytest.mark.usefixtures("small_pieces")
def test_metadata_around_the_events_may_be_large(reading: Callable[..., Trace]) -> None:
    log = ["},{" * 50] * 3000
    events = [kernel(n) for n in range(1, 40)]
    head = {"INFO": log, "distributedInfo": {"rank": "2"}}
    for layout in ("json.dump", "events first"):
        trace = reading(LAYOUTS[layout](head, events))
        assert trace.ops.height == 39
        assert trace.processes["rank"].to_list() == [2]
        assert not diagnostics(trace)


@pytest.mark.usefixtures("small_pieces")
def test_one_event_may_be_larger_than_a_piece(reading: Callable[..., Trace]) -> None:
    large = kernel(2, junk=[{"ph": "X", "n": n} for n in range(2_000)])
    for write in LAYOUTS.values():
        trace = reading(write({}, [kernel(1), large, kernel(3)]))
        assert trace.ops["start_ns"].to_list() == [1000, 2000, 3000]


def test_a_byte_order_mark_and_several_gzip_members_are_read(
    reading: Callable[..., Trace],
) -> None:
    text = LAYOUTS["kineto"](_METADATA, [kernel(n) for n in range(1, 30)]).encode()
    plain = content(reading(text))
    marked = b"\xef\xbb\xbf" + text
    assert content(reading(marked)) == plain
    assert content(reading(gzip.compress(marked, mtime=0))) == plain
    assert content(reading(gzip.compress(text[:900], mtime=0) + gzip.compress(text[900:]))) == plain
    assert content(reading(gzip.compress(text, mtime=0) + bytes(512))) == plain


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("length", range(1, 7))
def test_text_is_handed_out_in_the_lengths_asked_for(
    length: int, mark: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "trace"
    expected = b"0123456789"
    data = mark + expected
    for stored in (data, gzip.compress(data, mtime=0)):
        path.write_bytes(stored)
        with TraceText(path) as text:
            read = [text.read(length) for _ in range(12)]
        assert read == [expected[length * n : length * (n + 1)] for n in range(12)]


@pytest.mark.parametrize(
    "data", [b"", b"\xef", b"\xef\xbb", b"\xef\xbb{", b"\xef\xbb\xbf\xef\xbb\xbf"]
)
def test_only_a_whole_byte_order_mark_at_the_start_is_left_out(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(data)
    for length in (1, 2, 3, 99):
        with TraceText(path) as text:
            read = b"".join(text.read(length) for _ in range(len(data) + 1))
        assert read == data.removeprefix(b"\xef\xbb\xbf")


@pytest.mark.parametrize("piece", [1, 2, 3])
def test_a_byte_order_mark_is_left_out_of_the_smallest_pieces(
    piece: int, reading: Callable[..., Trace]
) -> None:
    text = written([kernel(1), kernel(2)]).encode()
    with pieces_of(piece):
        assert content(reading(b"\xef\xbb\xbf" + text)) == content(reading(text))


@pytest.mark.parametrize("start", ["5", "6869181217913.045", "1712195495506161.234"])
def test_usual_events_are_decoded_in_pieces_not_one_by_one(
    start: str, small_pieces: None, reading: Callable[..., Trace], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kineto_json, "decoded_one", None)
    for write in LAYOUTS.values():
        assert reading(write(_METADATA, [kernel(start)] * 50)).ops.height == 50


@pytest.mark.parametrize("piece", [1, 100, 700, 100_000])
def test_odd_values_in_what_a_trace_does_not_need_are_no_matter(
    piece: int, reading: Callable[..., Trace]
) -> None:
    """Wherever pieces are cut, and also beside events that only the patient decoder takes."""
    arrow = {"ph": "f", "id": 1, "name": 5, "ts": "late", "args": [None], "pid": {"ph": "X"}}
    unusual = [{"ph": "unheard of", "ts": Number(5)}, {"name": "without a phase"}]
    events = [kernel(1), arrow, *unusual, kernel("2.5"), launch(3), arrow] * 5
    events += [kernel(9, 1, correlation=1 << 80)]
    with pieces_of(piece):
        trace = reading(events)
    assert trace.ops["start_ns"].to_list() == [1000, 2500] * 5 + [9000]
    assert trace.ops["correlation_id"].to_list() == [1] * 10 + [None]
    assert diagnostics(trace) == {"ids of more than 64 bits were taken as missing": 1}


@pytest.mark.parametrize("piece", [1, 100, 100_000])
def test_what_is_odd_is_told_in_the_order_of_the_file(
    piece: int, reading: Callable[..., Trace]
) -> None:
    endless, bare = annotation(1), kernel(2)
    del endless["dur"], bare["args"]["stream"], bare["tid"]
    odd = [kernel(3, -1), endless, bare, {"ph": "X", "cat": "cuda_sync", "ts": 4}]
    with pieces_of(piece):
        noted_in_order = list(diagnostics(reading([kernel(1), *odd, kernel(9)])))
        other_way_round = list(diagnostics(reading([kernel(1), *odd[::-1], kernel(9)])))
    whole = [
        "events with a negative duration were taken as 0 ns long",
        "ops of unknown streams were put on number 0",
        "annotations that the recording's end cut off",
        "events without a duration were taken as 0 ns long",
    ]
    by_event = [whole[0], whole[2], whole[1], whole[3]]
    assert noted_in_order == (whole if piece == 100_000 else by_event)
    assert other_way_round == (whole if piece == 100_000 else by_event[::-1])


def test_ops_of_one_device_and_of_several_keep_it(reading: Callable[..., Trace]) -> None:
    for devices in ([0, 0], [3, 3], [3, 0]):
        trace = reading([kernel(1, device=device) for device in devices])
        assert trace.ops["device_id"].to_list() == devices
        assert trace.ops.schema == schema.OPS.polars_schema
        assert trace.devices["device_id"].to_list() == sorted(set(devices))


def test_a_bare_array_needs_no_closing_bracket(reading: Callable[..., Trace]) -> None:
    text = written([kernel(1), kernel(2)])
    assert content(reading(text)) == content(reading(text[:-1]))
    assert not diagnostics(reading(text))
    assert noted(reading(text[:-1]), "breaks off") == 1


@examples(0.5)
@given(
    st.lists(st.integers(-(10**9), (1 << 53) - 1), min_size=1, max_size=20),
    st.sampled_from(["{}.{:03d}", "{}.{:03d}000", "{}.{:03d}e0"]),
)
def test_relative_times_are_exact(scratch: Path, times_ns: list[int], form: str) -> None:
    def text(nanoseconds: int) -> str:
        sign = "-" if nanoseconds < 0 else ""
        return sign + form.format(*divmod(abs(nanoseconds), 1000))

    scratch.write_text(written([kernel(text(time_ns)) for time_ns in times_ns]))
    trace = torch_profiler.read(scratch, silent)
    assert trace.ops["start_ns"].to_list() == times_ns


@examples(0.5)
@given(
    st.lists(
        st.tuples(
            st.integers(0, (1 << 53) - 1) | st.integers(0, 10**13),
            st.sampled_from([0, 1, 300, 499, 500, 501, 700, 999]),
        ),
        min_size=1,
        max_size=4,
    )
)
@example([(5_166_126_945_836_230, 501)])
@example([(5_166_126_945_836_230, 499), (5_166_126_945_836_230, 0)])
def test_times_are_rounded_once_from_their_text(
    scratch: Path, times: list[tuple[int, int]]
) -> None:
    stated = [f"{ns // 1000}.{ns % 1000:03d}{ps:03d}" for ns, ps in times]
    scratch.write_text(written([kernel(text, text) for text in stated]))
    trace = torch_profiler.read(scratch, silent)
    assert trace.ops["start_ns"].to_list() == [_ns(text) for text in stated]
    assert trace.ops["end_ns"].to_list() == [2 * _ns(text) for text in stated]


@pytest.mark.parametrize(
    ("start", "start_ns"),
    [
        ("1712195495506161.234", 1712195495506161234),  # the nearest float64 is ...161.25
        ("1712195495506161.001", 1712195495506161001),
        ("8900000000000.001", 8900000000000001),  # float64 steps of 2 ns
        ("1606910596297023", 1606910596297023000),
        ("9007199254740993", None),  # 2**53 + 1; beyond the year 2116
        ("1.712195495506161234e15", 1712195495506161234),
        ("5.166126945836230501e12", 5166126945836231),
        ("5166126945836230501e-6", 5166126945836231),
        ("5166126945836.2305010", 5166126945836231),
        ("5166126945836.230", 5166126945836230),
        ("0.0004", 0),
        ("0.0015", 2),
        ("-3.25", -3250),
    ],
)
def test_absolute_times_do_not_pass_through_float64(
    start: str, start_ns: int | None, reading: Callable[..., Trace]
) -> None:
    trace = reading([kernel(start), kernel(10)])
    expected = [10_000] if start_ns is None else [start_ns, 10_000]
    assert trace.ops["start_ns"].to_list() == expected


@examples(0.5)
@given(
    st.lists(
        st.integers(1_700_000_000_000_000_000, 1_700_000_000_000_002_000)
        | st.integers(0, (1 << 62) - 2000),
        min_size=1,
        max_size=5,
    )
)
def test_absolute_times_are_exact_however_short_they_are_written(
    scratch: Path, times_ns: list[int]
) -> None:
    stated = [f"{ns // 1000}.{ns % 1000:03d}".rstrip("0").rstrip(".") for ns in times_ns]
    scratch.write_text(written([kernel(text) for text in stated]))
    trace = torch_profiler.read(scratch, silent)
    assert trace.ops["start_ns"].to_list() == times_ns


_ABSOLUTE = "1712195495506161.234"


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize(
    ("odd", "expected"),
    [
        ({key: value for key, value in kernel(5).items() if key != "ts"}, None),
        ({**kernel(5), "ts": None}, None),
        ({**kernel(5), "ts": ""}, None),
        ({**kernel(5), "ts": "5.5"}, 5500),
        (kernel("-5.5"), -5500),
        (kernel("1.5e3"), 1_500_000),
        (kernel("5.0005"), 5000),
        (kernel("9999999999999999"), None),
    ],
)
def test_an_odd_start_beside_absolute_ones_costs_only_itself(
    odd: dict[str, Any], expected: int | None, place: int, reading: Callable[..., Trace]
) -> None:
    events = [kernel(_ABSOLUTE), kernel(_ABSOLUTE)]
    events.insert(place, odd)
    times = [_ns(_ABSOLUTE), _ns(_ABSOLUTE)]
    if expected is not None:
        times.insert(place, expected)
    assert reading(events).ops["start_ns"].to_list() == times


def test_time_zero_is_the_base_else_1970_where_times_are_absolute(
    reading: Callable[..., Trace],
) -> None:
    base = 1_767_189_312_000_000_000
    relative, absolute = [kernel("5.5")], [kernel("1606910596297023")]
    assert reading(relative, baseTimeNanoseconds=base).files["start_utc_ns"].to_list() == [base]
    after = LAYOUTS["events first"]({"baseTimeNanoseconds": base}, relative)
    assert reading(after).files["start_utc_ns"].to_list() == [base]
    both = reading(absolute, baseTimeNanoseconds=5)
    assert both.files["start_utc_ns"].to_list() == [5]
    assert reading(absolute).files["start_utc_ns"].to_list() == [0]
    assert reading(relative).files["start_utc_ns"].to_list() == [None]


def test_an_op_that_was_not_collected_is_kept_and_bounds_nothing(
    reading: Callable[..., Trace],
) -> None:
    trace = reading([kernel(0, 0), kernel("1606910596297023", 5)])
    assert trace.ops.select("start_ns", "end_ns").row(0) == (0, 0)
    assert trace.files["duration_ns"].to_list() == [5000]


# Odd events: each costs no more than itself, and is told.


_GOOD = [kernel(1), launch(2), annotation(3)]


@pytest.mark.parametrize(
    ("odd", "ops", "words"),
    [
        ({**kernel(5), "args": None}, 1, "read as far as possible"),
        ({**kernel(5), "args": [1]}, 1, "read as far as possible"),
        ({**kernel(5), "pid": [0], "tid": {"x": 1}}, 1, "read as far as possible"),
        ({**kernel(5), "pid": 0.0}, 1, "read as far as possible"),
        ({**kernel(5), "name": 5}, 1, "read as far as possible"),
        (kernel(5, correlation="1"), 1, "read as far as possible"),
        (kernel(5, correlation="x"), 1, "not whole numbers"),
        (kernel(5, correlation=1.5), 1, "not whole numbers"),
        (kernel(5, correlation=10**30), 1, "more than 64 bits"),
        (kernel(5, device=10**12), 1, "unknown devices"),
        ({**kernel(5), "args": {}, "pid": "GPU"}, 1, "unknown devices"),
        ({**kernel(5), "args": {}, "tid": "Spans"}, 1, "unknown streams"),
        ({**kernel(5), "ts": None}, 0, "without a usable time"),
        ({**kernel(5), "ts": "soon"}, 0, "without a usable time"),
        ({**kernel(5), "ts": Number("1e400")}, 0, "without a usable time"),
        ({**kernel(5), "ts": Number("1e999999999")}, 0, "without a usable time"),
        ({key: value for key, value in kernel(5).items() if key != "ts"}, 0, "usable time"),
        ({key: value for key, value in kernel(5).items() if key != "dur"}, 1, "without a duration"),
        (kernel(5, -3), 1, "negative duration"),
        (kernel(5, "-0.001"), 1, "negative duration"),
        (kernel(5, junk=Number("[" * 100_000 + "]" * 100_000)), 0, "cannot be decoded"),
        (kernel(5, junk=Number('{"a":' * 100_000 + "1" + "}" * 100_000)), 0, "cannot be decoded"),
        (kernel(5, junk=Number("tru")), 0, "cannot be decoded"),
        (kernel(5, junk=Number("1" * 5000)), 1, ""),
        ({**kernel(5), "ts": "5.5"}, 1, ""),
        ({**kernel(5), "tid": "stream 9"}, 1, ""),
        ({**kernel(5), "ph": None}, 0, "read as far as possible"),
        (7, 0, ""),
        ([kernel(5)], 0, ""),
    ],
)
@pytest.mark.parametrize("layout", ["kineto", "minified", "pretty"])
def test_an_odd_event_costs_only_itself(
    odd: Any, ops: int, words: str, layout: str, reading: Callable[..., Trace]
) -> None:
    good = rows_of(reading(LAYOUTS[layout]({}, _GOOD * 2)))
    trace = reading(LAYOUTS[layout]({}, [*_GOOD, odd, *_GOOD]))
    rows = rows_of(trace)
    assert len(rows["ops"]) == 2 + ops
    if ops:
        del rows["ops"][1]
    assert rows == good
    if words:
        assert noted(trace, words) == 1
    assert set(trace.diagnostics["source"]) <= {"importer"}


def test_what_an_odd_op_still_says_is_kept(reading: Callable[..., Trace]) -> None:
    untold = {**kernel(5), "args": {}, "pid": "3", "tid": "stream 9"}
    texts = {"graph id": "4", "graph node id": 5.0}
    as_text = kernel(5, correlation="8", device="2", stream="6", **texts)
    events = [kernel(1), untold, kernel(5, correlation=0), kernel(5, -3), as_text]
    rows = [
        (1000, 2000, 0, 7, 1, None, None),
        (5000, 6000, 3, 9, None, None, None),
        (5000, 6000, 0, 7, None, None, None),
        (5000, 5000, 0, 7, 1, None, None),
        (5000, 6000, 2, 6, 8, 4, 5),
    ]
    places = ["start_ns", "end_ns", "device_id", "stream_id", "correlation_id"]
    ops = reading(events).ops.select(*places, "graph_id", "graph_node_id")
    assert ops.rows() == rows


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (rb"\ud800", "\ufffd"),
        (rb"a\udc00b", "a\ufffdb"),
        (rb"\ud83d\ude00\ud83d", "😀\ufffd"),
        (rb"\\ud800", r"\ud800"),
        (rb"\ud800\ud83d\ude00", "\ufffd😀"),
        (b"\xff", "\ufffd"),
        (b"\xed\xa0\x80", "\ufffd\ufffd\ufffd"),
        (b"caf\xc3", "caf\ufffd"),
        (rb"C:\python\qt", "C:\\python\\qt"),
        (rb"\u12", "\\u12"),
        (b"a\tb\x01", "a\tb\x01"),
        (b"nan, inf, -Infinity", "nan, inf, -Infinity"),
        (rb"\u0000", "\x00"),
    ],
)
def test_names_that_are_not_text_are_mended(
    name: bytes, expected: str, reading: Callable[..., Trace]
) -> None:
    text = written([kernel(1), kernel(2, name="NAME"), kernel(3)]).encode()
    text = text.replace(b'"name": "a kernel"', b'"name": "' + name + b'"')
    trace = reading(text)
    assert [row[6] for row in rows_of(trace)["ops"]] == [expected] * 3
    json.dumps(content(trace)).encode()
    assert trace.names.write_csv().encode()


@pytest.mark.parametrize("number", ["inf", "-inf", "nan", "-nan", "NaN", "Infinity", "-Infinity"])
def test_numbers_that_json_lacks_are_mended(number: str, reading: Callable[..., Trace]) -> None:
    events = [kernel(1), kernel(2, 0, **{"memory bandwidth (GB/s)": Number(number)})]
    trace = reading(events)
    assert trace.ops.height == 2
    assert noted(trace, "mended") == 1
    assert reading([kernel(1)], bandwidth=Number(number)).ops.height == 1


def test_broken_metadata_costs_only_itself(reading: Callable[..., Trace]) -> None:
    deep = Number("[" * 100_000 + "]" * 100_000)
    trace = reading([kernel(1)], junk=deep)
    assert trace.ops.height == 1
    assert noted(trace, "metadata") == 1
    trace = reading([kernel(1)], deviceProperties=7, distributedInfo=[], baseTimeNanoseconds="x")
    assert trace.processes["rank"].to_list() == [None]
    trace = reading('{"traceEvents": [' + written(kernel(1)) + "],,}")
    assert trace.ops.height == 1
    assert noted(trace, "metadata") == 1


@pytest.mark.usefixtures("small_pieces")
def test_an_unescaped_quote_loses_no_event_before_it(reading: Callable[..., Trace]) -> None:
    events = [written(kernel(n)) for n in range(1, 200)]
    events[100] = events[100].replace("a kernel", 'a "kernel')
    trace = reading("[" + ", ".join(events) + "]")
    assert trace.ops["start_ns"].to_list()[:100] == [n * 1000 for n in range(1, 101)]
    assert noted(trace, "")


def test_categories_land_in_their_tables(reading: Callable[..., Trace]) -> None:
    args = {"correlation": 4, "device": 1, "stream": 9, "graph node id": 12, "graph id": 3}
    copy = span("gpu_memcpy", 1, 1, name="Memcpy HtoD (Pinned -> Device)", pid=1, tid=9, args=args)
    events = [
        copy,
        span("gpu_memset", 2, 1, args={"correlation": 5, "device": 1, "stream": 9}),
        span("cuda_driver", 3, 1, name="cuLaunchKernel", args={"correlation": 6}),
        span("cuda_runtime", 4, 1, name="hipGraphLaunch", args={"correlation": 4}),
        span("gpu_user_annotation", 5, 1),
        span("mtia_runtime", 5, 1),
        span("user_annotation", 6, 1, name="verify"),
        {**span("user_annotation", 7, 1), "ph": "i"},
        span("cpu_op", 8, 1),
    ]
    rows = rows_of(reading(events))
    assert rows["ops"] == [
        (1000, 2000, "memcpy", 1, 9, 4, "Memcpy HtoD (Pinned -> Device)", 12, 3),
        (2000, 3000, "memset", 1, 9, 5, "a gpu_memset", None, None),
    ]
    assert rows["launches"] == [
        (3000, 4000, 70, 6, "cuLaunchKernel"),
        (4000, 5000, 70, 4, "hipGraphLaunch"),
    ]
    assert rows["ranges"] == [(6000, 7000, 70, "verify", True)]
    assert reading(events).marks.is_empty()


def test_synchronisations_keep_their_kind_and_lose_minus_one(
    reading: Callable[..., Trace],
) -> None:
    kinds = ["Stream Wait Event", "Event Sync", "Stream Sync", "Context Sync", "Something New"]
    events = [
        span(
            "cuda_sync",
            1,
            1,
            args={"cuda_sync_kind": kind, "stream": -1, "device": 0, "correlation": 3},
        )
        for kind in kinds
    ]
    trace = reading(events)
    assert trace.syncs["kind"].to_list() == [
        "stream_wait_event",
        "event",
        "stream",
        "context",
        "unknown",
    ]
    assert trace.syncs["stream_id"].null_count() == 5
    assert trace.syncs["device_id"].to_list() == [0] * 5
    assert trace.syncs["correlation_id"].to_list() == [3] * 5


def test_an_annotation_that_was_cut_off_is_not_closed(reading: Callable[..., Trace]) -> None:
    text, flag = annotation(1, 5, "text"), annotation(2, 4, "flag")
    text["args"], flag["args"] = {"finished": "false"}, {"finished": False}
    endless = annotation(3)
    del endless["dur"]
    trace = reading([text, flag, endless, annotation(4), kernel(9, 3)])
    assert trace.ranges["closed"].to_list() == [False, False, False, True]
    assert trace.ranges["end_ns"].to_list() == [6000, 6000, 12000, 5000]
    assert noted(trace, "cut off") == 3


def test_threads_are_known_by_number_however_it_is_written(
    reading: Callable[..., Trace],
) -> None:
    def labelled(name: str, tid: object, text: str) -> dict[str, Any]:
        return {"name": name, "ph": "M", "pid": 7, "tid": tid, "args": {"name": text}}

    events = [
        {**launch(1), "tid": "4093687616"},
        {**annotation(2), "tid": 4093687616},
        {**annotation(3), "tid": "main"},
        {**annotation(4), "tid": -1},
        {**span("cpu_op", 5, 1), "tid": "idle"},
        {**span("Trace", 0, 9), "pid": "Spans", "tid": "PyTorch Profiler"},
        labelled("thread_name", 4093687616, "thread 1 (python)"),
        labelled("process_name", 0, "python3"),
        {**labelled("process_name", 0, "the GPU's"), "pid": 0},
    ]
    trace = reading(events)
    assert trace.threads.select("thread_id", "name").rows() == [
        (4093687616, "thread 1 (python)"),
        (-2, "main"),
        (-1, None),
    ]
    assert trace.ranges["thread"].to_list() == [0, 1, 2]
    assert trace.processes.select("process_id", "name").rows() == [(7, "python3")]
    assert trace.files["duration_ns"].to_list() == [9000]


def test_the_process_is_the_one_with_most_cpu_events(reading: Callable[..., Trace]) -> None:
    other = {**annotation(3), "pid": 8}
    trace = reading([launch(1), other, launch(2), kernel(3)])
    assert trace.processes["process_id"].to_list() == [7]
    assert trace.ranges.height == 1
    assert noted(trace, "other process ids") == 1
    assert reading([kernel(3)]).processes["process_id"].to_list() == [0]


@pytest.mark.parametrize(
    ("rank", "expected"), [(5, 5), ("6", 6), (None, None), ("", None), (-1, None), (True, None)]
)
def test_the_rank_is_the_one_the_file_states(
    rank: object, expected: int | None, reading: Callable[..., Trace]
) -> None:
    trace = reading([kernel(1)], distributedInfo={"rank": rank})
    assert trace.processes["rank"].to_list() == [expected]


def test_a_simulated_trace_says_that_it_is_one(reading: Callable[..., Trace]) -> None:
    assert reading([kernel(1)]).files["product"].to_list() == ["torch.profiler"]
    (product,) = reading([kernel(1)], simulation="seed case").files["product"]
    assert "simulated" in product


def test_what_the_recorder_complained_of_is_told(reading: Callable[..., Trace]) -> None:
    trace = reading([kernel(1)], ERROR=["no device", "no device"], WARNING=["late", 7], INFO=["x"])
    assert trace.diagnostics.select("source", "severity", "text", "count").rows() == [
        ("recorder", "error", "no device", 2),
        ("recorder", "warning", "late", 1),
    ]


def test_the_oldest_dialect_is_told_to_have_no_ranges(reading: Callable[..., Trace]) -> None:
    events = [
        span("Operator", 1, 5, name="ProfilerStep#5", tid="4093687616"),
        span("Runtime", 2, 1, name="cudaMemcpyAsync", tid="4093687616", args={"correlation": 9}),
        span("Memcpy", 3, 1, pid=0, tid="stream 7", args={"correlation": 9, "stream": 7}),
    ]
    trace = reading(written(events))
    assert trace.ops["correlation_id"].to_list() == trace.launches["correlation_id"].to_list()
    assert trace.ranges.is_empty()
    assert noted(trace, "no ranges") == 1


def test_progress_grows_to_the_end(tmp_path: Path, small_pieces: None) -> None:
    path = tmp_path / "trace"
    text = LAYOUTS["kineto"]({}, [kernel(n) for n in range(1, 2000)]).encode()
    for data in (text, gzip.compress(text, mtime=0)):
        path.write_bytes(data)
        shares: list[float] = []
        torch_profiler.read(path, lambda _, share, seen=shares: seen.append(share or 0.0))
        assert len(shares) > 3
        assert all(0.0 <= before <= after <= 1.0 for before, after in pairwise(shares))
        assert shares[-1] == 1.0


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b"\xef\xbb\xbf", "empty"),
        (b"SQLite format 3\x00", "not JSON"),
        (b"traceEvents", "not JSON"),
        (b"{}", "no list of traceEvents"),
        (b'{"schema_version": 1, "ranks": [{"x": 1}]}', "no list of traceEvents"),
        (b'{"x": {"traceEvents": [{"ph": "X"}]}}', "no list of traceEvents"),
        (b'{"x": "\\"traceEvents\\": [", "y": "traceEvents"}', "no list of traceEvents"),
        (b'{"traceEvents": null}', "no list of traceEvents"),
        (b'{"traceEvents"', "breaks off"),
        (b'{"schemaVersion": 1, "dev', "breaks off"),
        (b'{"a": 1}\n{"a": 2}\n', "not valid JSON"),
        (b'{"traceEvents": []}', "no whole event"),
        (b"[]", "no whole event"),
        (b"[1, 2]", "no whole event"),
        (b'[{"ph": "X"', "no whole event"),
        (b'[{"a": 1}]', "no event of torch.profiler"),
        (b'{"traceEvents": [{"ph": "B", "cat": "blink", "ts": 1}]}', "no event of torch.profiler"),
        (b"\x1f\x8b", "breaks off"),
        (b"\x1f\x8b not gzip at all", "damaged"),
        (gzip.compress(b"", mtime=0), "empty"),
        (gzip.compress(b'{"traceEvents": [{}]}', mtime=0)[:-20], "compressed data breaks off"),
        (b'{"a": [' + b'"x",' * (5 << 20) + b'"x"]}', "near its beginning"),
        (b"[" * 100_000, "no whole event"),
        (b'{"a":' * 100_000, "breaks off"),
    ],
)
def test_what_is_no_trace_is_refused_with_a_reason(data: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "some.json"
    path.write_bytes(data)
    with pytest.raises(InputError, match=words) as caught:
        torch_profiler.read(path, silent)
    assert caught.value.where == str(path)
    assert "export" in str(caught.value.next_step)


def test_a_file_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing.json"):
        with pytest.raises(InputError, match="cannot be read"):
            torch_profiler.read(path, silent)


@pytest.mark.parametrize(
    ("data", "is_trace"),
    [
        (b'{"traceEvents": []}', True),
        (b' \n{"schemaVersion": 1, "traceEvents": [', True),
        (b'[{"ph": "X", "cat": "kernel"}]', True),
        (b'[\n\n  {\n    "ph": "X", "cat"', True),
        (b'{"log": [' + b'"x",' * 20_000 + b'"x"], "traceEvents": [{}]}', True),
        (b"", False),
        (b"{}", False),
        (b"[]", False),
        (b"[1]", False),
        (b'[{"a": 1}]', False),
        (b'{"traceEvents": 1}', False),
        (b'{"x": {"traceEvents": []}}', False),
        (b'{"x": "traceEvents"}', False),
        (b'{"accepted": [1, 2]}\n{"accepted": [3]}\n', False),
        (b"SQLite format 3\x00", False),
        (b"PAR1", False),
        (b"traceEvents", False),
    ],
)
def test_traces_are_recognised_by_content(data: bytes, is_trace: bool, tmp_path: Path) -> None:
    path = tmp_path / "file.sqlite"
    for stored in (data, b"\xef\xbb\xbf" + data, gzip.compress(data, mtime=0)):
        path.write_bytes(stored)
        assert torch_profiler.recognises(path, stored[:4096]) is is_trace


def test_garbage_and_folders_are_not_recognised(tmp_path: Path) -> None:
    assert not torch_profiler.recognises(tmp_path, b"")
    assert not torch_profiler.recognises(tmp_path, b"{")
    assert not torch_profiler.recognises(tmp_path / "gone", b"\x1f\x8b\x08garbage")


@needs_shared
def test_real_traces_are_recognised(real: Path) -> None:
    with real.open("rb") as file:
        assert torch_profiler.recognises(real, file.read(4096))
