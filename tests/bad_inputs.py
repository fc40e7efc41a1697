"""Files and folders that are no sound trace, by kind of trouble, and what must come of each.

All of it is simulated. `tests/test_bad_inputs.py` tries the quick ones, `benchmarks/bad_input.py`
all of them, through the command line.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import shutil
import sqlite3
import zipfile
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tests.exports import KERNEL, NVTX, RUNTIME, Export, global_tid, served
from tests.fuzzing.hostile import TEXTS
from tests.fuzzing.sqlite_recount import recount
from tests.importers.test_torch_profiler import LAYOUTS, annotation, kernel, launch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_MANY_NAMES: Final = 2_000_000
_DEEP: Final = 100_000
_BOMB_BYTES: Final = 10 << 30
_BLOCK_BYTES: Final = 64 << 20


MAY_DIFFER: Final = -1
"""`ops` of an input that is read, without a number to hold it against."""

EITHER: Final = -2
"""`ops` of an input that may be read or refused."""


@dataclass(frozen=True)
class BadInput:
    """One command line that meets trouble.

    Attributes:
        arguments: What follows `traceanalyzer`.
        ops: GPU work that a report must hold; None where the input must be refused.
        told: Words that the report or the error holds.
        unprivileged: Whether root's rights are to be given up.
    """

    arguments: tuple[str | Path, ...]
    ops: int | None = None
    told: str = ""
    unprivileged: bool = False


def report_of(path: Path, *more: str | Path, ops: int | None = None, told: str = "") -> BadInput:
    return BadInput(("report", path, "--format", "json", *more), ops, told)


# Sound traces to begin with.


@cache
def _sqlite_bytes() -> tuple[bytes, int]:
    """A server's export and its number of ops."""
    export = Export()
    served(export)
    served(export, 5200, rank=1)
    with closing(sqlite3.connect(":memory:")) as target:
        _copy(export, target)
        return target.serialize(), len(export.tables[KERNEL])


def _copy(export: Export, target: sqlite3.Connection) -> None:
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        path = export.write_sqlite(Path(folder) / "made.sqlite")
        with closing(sqlite3.connect(path)) as source:
            source.backup(target)


def sqlite_export(folder: Path, name: str = "trace.sqlite") -> tuple[Path, int]:
    data, ops = _sqlite_bytes()
    path = folder / name
    path.write_bytes(data)
    return path, ops


def _kineto_events(count: int = 30) -> list[dict[str, Any]]:
    events = []
    for number in range(count):
        at = 1000 + 10 * number
        events += [annotation(at, 9, "verify"), launch(at + 1, 1, number + 1)]
        events.append(kernel(at + 3, 4, correlation=number + 1))
    return events


def kineto_text(count: int = 30) -> tuple[bytes, int]:
    return LAYOUTS["kineto"]({"schemaVersion": 1}, _kineto_events(count)).encode(), count


def written(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


# Kinds of trouble.


def empty_file(folder: Path) -> Iterator[BadInput]:
    """No byte."""
    for name in ("a.sqlite", "a.json", "a.json.gz", "a.nsys-rep", "a.qdstrm", "a.parquet", "a"):
        yield report_of(written(folder, name, b""), told="empty")


def wrong_extension(folder: Path) -> Iterator[BadInput]:
    """A name that says another format than the content."""
    json_bytes, json_ops = kineto_text()
    for name in ("b.json", "b.json.gz", "b.nsys-rep", "b"):
        path, ops = sqlite_export(folder, name)
        yield report_of(path, ops=ops)
    for name in ("c.sqlite", "c.json.gz", "c.nsys-rep", "c"):
        yield report_of(written(folder, name, json_bytes), ops=json_ops)
    packed = gzip.compress(json_bytes)
    for name in ("d.sqlite", "d.json", "d.nsys-rep"):
        yield report_of(written(folder, name, packed), ops=json_ops)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("trace.json", json_bytes)
    for name, data in (
        ("e.sqlite", b"hello\n"),
        ("e.json", b"\x89PNG\r\n\x1a\n" + bytes(100)),
        ("e.nsys-rep", b"\x7fELF" + bytes(1000)),
        ("e.json.gz", archive.getvalue()),
        ("e.parquet", b"PAR1" + bytes(100) + b"PAR1"),
    ):
        yield report_of(written(folder, name, data), told="format is not known")


def folder_of_nothing(folder: Path) -> Iterator[BadInput]:
    """Folders without a trace in them."""
    (folder / "none").mkdir()
    (folder / "others").mkdir()
    (folder / "others" / "notes.txt").write_text("hello")
    (folder / "nested" / "inner").mkdir(parents=True)
    sqlite_export(folder / "nested" / "inner")
    for name in ("none", "others", "nested"):
        yield report_of(folder / name, told="holds no trace")
    hollow = folder / "hollow"
    hollow.mkdir()
    (hollow / "StringIds.parquet").write_bytes(b"")
    yield report_of(hollow, told="cannot be read")


def symlink_loop(folder: Path) -> Iterator[BadInput]:
    """Links that lead nowhere, or round and round."""
    (folder / "self").symlink_to("self")
    (folder / "one").symlink_to("two")
    (folder / "two").symlink_to("one")
    (folder / "gone").symlink_to("nowhere")
    for name in ("self", "one", "gone"):
        yield report_of(folder / name)
    looped = folder / "looped"
    looped.mkdir()
    (looped / "again").symlink_to(looped)
    (looped / "self").symlink_to("self")
    yield report_of(looped, told="")
    path, _ = sqlite_export(folder)
    yield report_of(path, "-o", folder / "self" / "report.json")
    yield report_of(path, "--phases", folder / "self")


def no_permission(folder: Path) -> Iterator[BadInput]:
    """Files and folders that may not be read, entered, or written to."""
    path, ops = sqlite_export(folder)
    path.chmod(0)
    yield _unprivileged(report_of(path, told="not readable"))
    closed = folder / "closed"
    closed.mkdir()
    sqlite_export(closed)
    closed.chmod(0)
    yield _unprivileged(report_of(closed, told="not readable"))
    yield _unprivileged(report_of(closed / "trace.sqlite"))
    readable, _ = sqlite_export(folder, "readable.sqlite")
    readable.chmod(0o444)
    yield _unprivileged(report_of(readable, ops=ops))
    yield _unprivileged(report_of(readable, "-o", folder / "report.json", told="cannot be written"))


def _unprivileged(bad: BadInput) -> BadInput:
    return BadInput(bad.arguments, bad.ops, bad.told, unprivileged=True)


def odd_names(folder: Path) -> Iterator[BadInput]:
    """Names of 10,000 characters, NUL, lone surrogates, bytes that are no UTF-8."""
    forms = ("json", "terminal", "html", "csv", "markdown")
    for number, text in enumerate(each for each in TEXTS if each is not None):
        path, ops = sqlite_export(folder, f"{number}.sqlite")
        with closing(sqlite3.connect(path)) as database, database:
            for table, column in (("StringIds", "value"), (NVTX, "text"), ("PROCESSES", "name")):
                database.execute(f"UPDATE {table} SET {column} = CAST(? AS TEXT)", (text,))
        yield report_of(path, ops=ops)
        yield BadInput(("report", path, "--format", forms[number % len(forms)]), MAY_DIFFER)
        yield BadInput(("ranges", path), MAY_DIFFER)
    for number, text in enumerate(('"\\ud800"', '"a\\u0000b"', '"\\x"', '"' + "n" * 10_000 + '"')):
        data, ops = kineto_text()
        data = data.replace(b'"a kernel"', text.encode())
        yield report_of(written(folder, f"{number}.json", data), ops=ops)
    data, ops = kineto_text()
    for bad in (b'"\xff\xfe"', b'"\xed\xa0\x80"', b'"a\x00b"'):
        yield report_of(written(folder, "bytes.json", data.replace(b'"a kernel"', bad)), ops=ops)


def gzip_cut(folder: Path) -> Iterator[BadInput]:
    """A packed trace that breaks off."""
    data = gzip.compress(kineto_text(2000)[0])
    for share in (0.2, 0.4, 0.6, 0.8, 0.9, 0.99):
        path = written(folder, f"{share}.json.gz", data[: int(share * len(data))])
        with path.open("rb") as file:
            ops = _whole_kernels(_unpacked(file.read()))
        yield report_of(path, ops=ops, told="breaks off")
    for size in (1, 2, 5, 10, 18):
        yield report_of(written(folder, f"{size}.json.gz", data[:size]))


def _unpacked(data: bytes) -> bytes:
    import zlib

    return zlib.decompressobj(wbits=31).decompress(data)


def _whole_kernels(text: bytes) -> int:
    """Kernels whose event is whole in a cut text: each closes two braces."""
    return sum(1 for event in text.split(b'"cat": "kernel"')[1:] if b"\n    }\n  }" in event)


def json_cut(folder: Path) -> Iterator[BadInput]:
    """A trace that breaks off: what was whole is used, and it is said."""
    data, _ = kineto_text()
    for step in range(1, 12):
        cut = data[: len(data) * step // 12]
        ops = _whole_kernels(cut)
        yield report_of(written(folder, f"{step}.json", cut), ops=ops, told="breaks off")
    for size in (1, 10, 20):
        yield report_of(written(folder, f"first{size}.json", data[:size]))


def bombs(folder: Path) -> Iterator[BadInput]:
    """Small files that unpack to 10 GiB, or state billions of rows."""
    whole = kineto_text()[0].rstrip()
    head, tail = whole[: whole.rindex(b"]")], b"]}"
    fills = {
        "spaces": b" " * 64,
        "events": b',{"ph": "i", "ts": 1}',
        "kernels": b"," + json.dumps(kernel(5000, 4, correlation=0), indent=0).encode(),
    }
    for name, fill in fills.items():
        yield report_of(
            _bomb(folder / f"{name}.json.gz", head, fill, tail), ops=MAY_DIFFER, told="unpacks"
        )
    endless = head + b',{"ph": "X", "cat": "kernel", "name": "'
    yield report_of(_bomb(folder / "name.json.gz", endless, b"x" * 64, b'"}]}'), ops=30, told="")
    yield report_of(_bomb(folder / "before.json.gz", b"{", b" " * 64, whole[1:]))
    after = head + b'], "more": "'
    yield report_of(_bomb(folder / "after.json.gz", after, b"x" * 64, b'"}'), ops=30)
    yield report_of(_bomb(folder / "zeros.json.gz", b"", bytes(64), b""))
    path, _ = sqlite_export(folder)
    for name, fill in (("lines", b"\n"), ("line", b"x" * 64), ("objects", b'{"k": 1}\n')):
        log = _bomb(folder / f"{name}.log.gz", b"started\n", fill, b"")
        yield report_of(path, "--acceptance", log)
    yield report_of(_parquet_bomb(folder / "rows"), told="rows")


def _bomb(path: Path, head: bytes, fill: bytes, tail: bytes) -> Path:
    """Gzip streams one after another, whose text is far longer than memory."""
    block = gzip.compress(fill * (_BLOCK_BYTES // len(fill)), 9)
    with path.open("wb") as file:
        file.write(gzip.compress(head))
        for _ in range(_BOMB_BYTES // _BLOCK_BYTES):
            file.write(block)
        file.write(gzip.compress(tail))
    return path


def _parquet_bomb(folder: Path) -> Path:
    folder.mkdir()
    pl.DataFrame({"id": [1], "value": ["kernel"]}).write_parquet(folder / "StringIds.parquet")
    rows = pl.select(start=pl.repeat(1, 50_000_000), end=pl.repeat(2, 50_000_000))
    rows.write_parquet(folder / f"{KERNEL}.parquet")
    return folder


def deep_nesting(folder: Path) -> Iterator[BadInput]:
    """Brackets in brackets, 100,000 deep."""
    lists, objects = "[" * _DEEP + "]" * _DEEP, '{"a":' * _DEEP + "1" + "}" * _DEEP
    data, ops = kineto_text()
    text = data.decode()
    for name, value in (("lists", lists), ("objects", objects), ("open", "[" * _DEEP)):
        yield report_of(written(folder, f"{name}.json", value.encode()))
        more = text.replace('"schemaVersion": 1', f'"schemaVersion": 1, "deep": {value}')
        path = written(folder, f"{name} before.json", more.encode())
        yield report_of(path, ops=None if name == "open" else ops)
        whole, end = text[: text.rindex("]")], text[text.rindex("]") :]
        inner = f'{whole}, {{"ph": "X", "cat": "kernel", "args": {value}}}{end}'
        yield report_of(written(folder, f"{name} inside.json", inner.encode()), ops=MAY_DIFFER)
        log = written(folder, f"{name}.log", value.encode())
        yield report_of(sqlite_export(folder)[0], "--acceptance", log)
        rules = written(folder, f"{name}.toml", f"rule = {value}".encode())
        yield report_of(sqlite_export(folder)[0], "--phases", rules)


def corrupt_sqlite(folder: Path) -> Iterator[BadInput]:
    """Damaged pages, a missing end, a header alone, bytes as of an encrypted file."""
    data, _ = _sqlite_bytes()
    dice = random.Random(8)
    for number in range(20):
        changed = bytearray(data)
        for _ in range(dice.choice((1, 5, 50))):
            place = dice.randrange(100, len(data) - 64)
            changed[place : place + 64] = dice.randbytes(64)
        yield report_of(written(folder, f"pages{number}.sqlite", bytes(changed)), ops=EITHER)
    for number in range(1, 20):
        cut = data[: len(data) * number // 20]
        yield report_of(written(folder, f"cut{number}.sqlite", cut))
    for number in range(3):
        sealed = data[:16] + dice.randbytes(len(data) - 16)
        yield report_of(written(folder, f"sealed{number}.sqlite", sealed))
        yield report_of(written(folder, f"noise{number}.sqlite", dice.randbytes(len(data))))
    yield report_of(written(folder, "head.sqlite", data[:100]))


def left_over_journals(folder: Path) -> Iterator[BadInput]:
    """A database whose writer is gone: rows in a write-ahead log count, a hot journal refuses."""
    path, ops = sqlite_export(folder, "written.sqlite")
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute(f"INSERT INTO {KERNEL} SELECT * FROM {KERNEL} LIMIT 3")
        writer.commit()
        for suffix in ("", "-wal", "-shm"):
            shutil.copy(f"{path}{suffix}", f"{folder / 'left.sqlite'}{suffix}")
        shutil.copy(path, folder / "torn.sqlite")
        log = (folder / "left.sqlite-wal").read_bytes()
    (folder / "torn.sqlite-wal").write_bytes(log[: len(log) // 3])
    yield report_of(folder / "left.sqlite", ops=ops + 3)
    yield report_of(folder / "torn.sqlite", ops=ops)
    hot, _ = sqlite_export(folder, "hot.sqlite")
    hot.with_name("hot.sqlite-journal").write_bytes(
        b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + bytes(512)
    )
    yield report_of(hot, told="cut off")


def hostile_schema(folder: Path) -> Iterator[BadInput]:
    """Views, triggers and virtual tables in place of tables: nothing of theirs runs."""
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS"
    for number, body in enumerate(
        (
            "SELECT * FROM hidden",
            f"{endless} start, i AS end, 0 AS deviceId, 0 AS streamId FROM n",
            "SELECT load_extension('/nowhere') AS start, 1 AS end",
            f"SELECT writefile('{folder}/written', 'x') AS start, 1 AS end",
            "SELECT randomblob(1000000000) AS start, 1 AS end",
        )
    ):
        path, _ = sqlite_export(folder, f"view{number}.sqlite")
        with closing(sqlite3.connect(path)) as database, database:
            database.execute(f"ALTER TABLE {KERNEL} RENAME TO hidden")
            database.execute(f"CREATE VIEW {KERNEL} AS {body}")
        yield report_of(path, ops=0)
    path, ops = sqlite_export(folder, "trigger.sqlite")
    with closing(sqlite3.connect(path)) as database, database:
        for act in ("INSERT", "UPDATE", "DELETE"):
            body = f"AFTER {act} ON {KERNEL} BEGIN DELETE FROM {KERNEL}; END"
            database.execute(f"CREATE TRIGGER on_{act} {body}")
    yield report_of(path, ops=ops)
    for module in ("fts5(start, end, deviceId, streamId)", "rtree(id, start, end)"):
        path, _ = sqlite_export(folder, f"{module[:4]}.sqlite")
        with closing(sqlite3.connect(path)) as database, database:
            database.execute(f"DROP TABLE {KERNEL}")
            database.execute(f"CREATE VIRTUAL TABLE {KERNEL} USING {module}")
        yield report_of(path, ops=0)
    path, ops = sqlite_export(folder, "names.sqlite")
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("""CREATE TABLE "a""; ATTACH 'x.db' AS x; --" (a INTEGER)""")
        database.execute(f"CREATE INDEX odd ON {NVTX} (abs(start))")
    yield report_of(path, ops=ops)


def odd_values(folder: Path) -> Iterator[BadInput]:
    """Texts for integers, times that cannot be, ids above 2^53, rows that come twice."""
    changes = [
        f"{column} = {value}"
        for column in ("start", '"end"', "deviceId", "streamId", "correlationId", "globalPid")
        for value in ("'text'", "NULL", "-5", "1.5", "x'00ff'", "9007199254740993", "'12 apes'")
    ]
    changes += [
        f'start = "end", "end" = start WHERE {KERNEL}.rowid % 3 = 0',
        'start = start - 4611686018427387904, "end" = "end" - 4611686018427387904',
        'start = -9223372036854775808, "end" = 9223372036854775807 WHERE rowid = 1',
        'start = 2305843009213693951, "end" = 2305843009213693952 WHERE rowid = 1',
        '"end" = start + 1125899906842624',
    ]
    for number, change in enumerate(changes):
        path, _ = sqlite_export(folder, f"{number}.sqlite")
        rows = "" if "WHERE" in change or number % 2 else " WHERE rowid % 2 = 0"
        with closing(sqlite3.connect(path)) as database, database:
            database.execute(f"UPDATE {KERNEL} SET {change}{rows}")
        yield report_of(path, ops=_recounted(path))
    for table in (KERNEL, RUNTIME, NVTX, "StringIds"):
        path, _ = sqlite_export(folder, f"twice {table}.sqlite")
        with closing(sqlite3.connect(path)) as database, database:
            database.execute(f"INSERT INTO {table} SELECT * FROM {table}")
        yield report_of(path, ops=_recounted(path))


def _recounted(path: Path) -> int:
    """Ops that count; `EITHER` where times lie too far apart to be ordered."""
    totals = recount(path).totals
    found = sum(totals[kind][0] for kind in ("kernel", "memcpy", "memset", "graph"))
    query = f"SELECT max(abs(start)) FROM {KERNEL} WHERE typeof(start) = 'integer'"
    with closing(sqlite3.connect(path)) as database:
        (latest,) = database.execute(f"{query} AND start > -9e18").fetchone()
    return EITHER if (latest or 0) > 1 << 60 else found


def many_names(folder: Path) -> Iterator[BadInput]:
    """Two million ranges, each by a name of its own."""
    path, ops = sqlite_export(folder)
    thread = global_tid(4100)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("PRAGMA journal_mode = OFF")
        database.executemany(
            f'INSERT INTO {NVTX} (start, "end", eventType, globalTid, text) '
            "VALUES (?, ?, 59, ?, ?)",
            ((10 * at, 10 * at + 5, thread, f"request {at}") for at in range(_MANY_NAMES)),
        )
    yield report_of(path, ops=ops)
    yield BadInput(("ranges", path), MAY_DIFFER)
    events = _kineto_events()
    text = ",\n".join(
        f'{{"ph": "X", "cat": "user_annotation", "name": "request {at}", "pid": 7, "tid": 70, '
        f'"ts": {at}, "dur": 1}}'
        for at in range(_MANY_NAMES)
    )
    whole = LAYOUTS["kineto"]({"schemaVersion": 1}, events)
    whole = f"{whole[: whole.rindex(']')]},\n{text}]}}"
    yield report_of(written(folder, "names.json", whole.encode()), ops=len(events) // 3)


def report_as_trace(folder: Path) -> Iterator[BadInput]:
    """A report where a trace belongs, and the other way round."""
    path, ops = sqlite_export(folder)
    report = folder / "report.json"
    yield report_of(path, "-o", report, ops=ops)
    yield report_of(report, told="format is not known")
    yield BadInput(("ranges", report))
    yield report_of(path, "--acceptance", report)
    yield report_of(path, "--phases", report)


def odd_outputs(folder: Path) -> Iterator[BadInput]:
    """Outputs that are folders, traces, full, or in no folder."""
    path, _ = sqlite_export(folder)
    yield report_of(path, "-o", folder)
    yield report_of(path, "-o", folder / "nowhere" / "report.json")
    yield report_of(path, "-o", path)
    yield report_of(path, "-o", "/dev/full")
    yield report_of(path, "-o", folder / ("x" * 300))
    yield report_of(path, "-o", path / "report.json")
    yield report_of(path, "-o", "")


KINDS: Final[dict[str, Callable[[Path], Iterator[BadInput]]]] = {
    "empty file": empty_file,
    "wrong extension": wrong_extension,
    "folder of nothing": folder_of_nothing,
    "symlink loops": symlink_loop,
    "no permission": no_permission,
    "names of 10,000 characters, NUL, surrogates, no UTF-8": odd_names,
    "gzip cut in the middle": gzip_cut,
    "JSON cut in the middle": json_cut,
    "gzip and parquet bombs of 10 GiB": bombs,
    "nesting 100,000 deep": deep_nesting,
    "SQLite corrupt, truncated, encrypted": corrupt_sqlite,
    "SQLite journals left over": left_over_journals,
    "SQLite views, triggers, virtual tables": hostile_schema,
    "odd values in columns": odd_values,
    "two million distinct range names": many_names,
    "a report given as a trace": report_as_trace,
    "odd outputs": odd_outputs,
}
"""What is written for each kind, given a folder of its own."""

SLOW: Final = frozenset({"gzip and parquet bombs of 10 GiB", "two million distinct range names"})
"""Kinds that take seconds each."""
