"""`traceanalyzer scrub`: nothing of people is left, and the report is the same."""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.harness import SAMPLE_TRACES, needs_shared, shared_folder
from traceanalyzer import analyze, load
from traceanalyzer.importers import nsys_scrubbing
from traceanalyzer.importers.nsys_environment import stored_environment

if TYPE_CHECKING:
    from pathlib import Path

    from tests.commands.conftest import Cli
    from traceanalyzer import Report

SECRETS = SAMPLE_TRACES / "broken" / "secrets_stored.sqlite"
SAMPLES = [
    *sorted(SAMPLE_TRACES.glob("*.sqlite")),
    SECRETS,
    *(
        SAMPLE_TRACES / "broken" / f"{name}.sqlite"
        for name in ("graph_mode", "buffers_lost", "no_kernels", "profiler_overhead")
    ),
]


def real_exports() -> list[Path]:
    folder = shared_folder()
    return sorted((folder / "traces" / "nsys").glob("*.sqlite")) if folder else []


def report_of(path: Path) -> Report:
    """The report without the file's own path."""
    report = analyze(load(path))
    files = [replace(file, path="") for file in report.capture.files]
    return replace(report, capture=replace(report.capture, files=files))


@pytest.mark.parametrize(
    "path",
    [
        *(pytest.param(path, id=path.name) for path in SAMPLES),
        *(pytest.param(path, id=path.name, marks=needs_shared) for path in real_exports()),
    ],
)
def test_the_report_is_the_same(path: Path, cli: Cli, tmp_path: Path) -> None:
    before = hashlib.sha256(path.read_bytes()).digest()
    out = tmp_path / "out.sqlite"
    done = cli("scrub", path, out)
    assert (done.exit_code, done.stderr) == (0, "")
    assert report_of(out) == report_of(path)
    assert hashlib.sha256(path.read_bytes()).digest() == before
    assert stored_environment(out).variables == ()


def test_nothing_of_people_is_left(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "out.sqlite"
    done = cli("scrub", SECRETS, out)
    assert "TARGET_INFO_SYSTEM_ENV" in done.stdout
    assert "6 variables less" in done.stdout
    data = out.read_bytes()
    for word in (b"casey", b"gpu-node", b"simulated-not", b"HF_TOKEN", b"/home"):
        assert word in SECRETS.read_bytes()
        assert word not in data
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.sqlite"]


@pytest.fixture
def telling(tmp_path: Path) -> Path:
    """The sample with persons and hosts in every text there is, and tables of others."""
    path = tmp_path / "telling.sqlite"
    path.write_bytes(SECRETS.read_bytes())
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE ProcessStreams (globalPid INTEGER, content TEXT)")
        database.execute("INSERT INTO ProcessStreams VALUES (1, 'casey typed this')")
        database.execute("CREATE TABLE ENUM_NOTE (id INTEGER, note TEXT)")
        database.execute("INSERT INTO ENUM_NOTE VALUES (1, 'casey')")
        database.execute("CREATE VIEW OF_CASEY AS SELECT 'casey'")
        database.execute("UPDATE NVTX_EVENTS SET jsonText = 'by casey'")
        database.execute("INSERT INTO EXPORT_META_DATA VALUES ('FROM', '/scratch/casey/t.qdrep')")
        database.execute("UPDATE TARGET_INFO_GPU SET uuid = 'GPU-casey', busLocation = 'casey'")
        database.execute(
            "INSERT INTO StringIds SELECT 900001, 'reads /home/casey/secret project/w.pt' "
        )
        database.execute(
            "INSERT INTO StringIds VALUES (900002, 'casey@gpu-node-17'), (900003, 'gpu-node-17x')"
        )
        database.execute("INSERT INTO StringIds VALUES (900004, 'A=casey' || char(0) || 'B=1')")
        database.execute(
            "INSERT INTO NVTX_EVENTS (start, eventType, globalTid, textId, domainId) "
            "SELECT start, eventType, globalTid, ids.id, domainId FROM NVTX_EVENTS, StringIds ids "
            "WHERE ids.id IN (900001, 900002, 900003) AND eventType = 34"
        )
    return path


def test_texts_are_cleaned_where_they_are_kept_and_emptied_elsewhere(
    telling: Path, cli: Cli, tmp_path: Path
) -> None:
    out = tmp_path / "out.sqlite"
    done = cli("scrub", telling, out)
    assert done.exit_code == 0
    assert "ENUM_NOTE, ProcessStreams, TARGET_INFO_SYSTEM_ENV" in done.stdout
    assert b"casey" not in out.read_bytes()
    with closing(sqlite3.connect(out)) as database:
        texts = dict(database.execute("SELECT id, value FROM StringIds WHERE id > 900000"))
        assert texts == {
            900001: "reads [home]/secret project/w.pt",
            900002: "[somebody]@[host]",
            900003: "gpu-node-17x",
        }
        kinds = database.execute("SELECT DISTINCT type FROM sqlite_master").fetchall()
        assert kinds == [("table",)]
        meta = dict(database.execute("SELECT name, value FROM EXPORT_META_DATA"))
        assert meta["FROM"] == "/scratch/[somebody]/t.qdrep"
        assert meta["EXPORT_SCHEMA_VERSION"] == "3.0.0"
        assert database.execute("SELECT DISTINCT name FROM PROCESSES").fetchall() == [
            ("python3.11",)
        ]


def test_what_tells_of_persons_by_its_form_alone_is_left_out(cli: Cli, tmp_path: Path) -> None:
    texts = {
        "/mnt/home/zelda/models/w.pt": "[home]/w.pt",
        "~zelda/models": "~[somebody]/models",
        "http://zelda:pw@host.zelda.corp:8080": "http://[somebody]@[host]:8080",
        "OPENAI_API_KEY=sk-zelda": "OPENAI_API_KEY=[secret]",
        "step on gpu-node-17.zelda.corp": "step on [host]",
    }
    telling = tmp_path / "telling.sqlite"
    telling.write_bytes(SECRETS.read_bytes())
    with closing(sqlite3.connect(telling)) as database, database:
        for place, text in enumerate(texts):
            columns = "start, eventType, globalTid, domainId"
            database.execute("INSERT INTO StringIds VALUES (?, ?)", (900_000 + place, text))
            database.execute(
                f"INSERT INTO NVTX_EVENTS ({columns}, textId) SELECT {columns}, ? "
                "FROM NVTX_EVENTS WHERE eventType = 34 LIMIT 1",
                (900_000 + place,),
            )
            database.execute(
                f"INSERT INTO NVTX_EVENTS ({columns}, text) SELECT {columns}, ? "
                "FROM NVTX_EVENTS WHERE eventType = 34 LIMIT 1",
                (text,),
            )
    out = tmp_path / "out.sqlite"
    assert cli("scrub", telling, out).exit_code == 0
    assert b"zelda" in telling.read_bytes()
    assert b"zelda" not in out.read_bytes()
    assert report_of(out) == report_of(telling)
    with closing(sqlite3.connect(out)) as database:
        ids = database.execute("SELECT value FROM StringIds WHERE id >= 900000 ORDER BY id")
        assert [value for (value,) in ids] == list(texts.values())
        own = database.execute("SELECT text FROM NVTX_EVENTS WHERE text LIKE '%[%'")
        assert {value for (value,) in own} == set(texts.values())


def test_numbers_and_odd_values_stay_as_they_are(cli: Cli, tmp_path: Path) -> None:
    odd = tmp_path / "odd.sqlite"
    odd.write_bytes(SECRETS.read_bytes())
    with closing(sqlite3.connect(odd)) as database, database:
        database.execute(
            "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET correlationId = 'x' WHERE rowid = 3"
        )
        database.execute("UPDATE NVTX_EVENTS SET doubleValue = 0.25 WHERE rowid = 2")
        database.execute("UPDATE StringIds SET value = CAST(x'6bff' AS TEXT) WHERE id = 0")
    out = tmp_path / "out.sqlite"
    assert cli("scrub", odd, out).exit_code == 0
    assert report_of(out) == report_of(odd)
    with closing(sqlite3.connect(out)) as database:
        database.text_factory = bytes
        assert database.execute("SELECT total(doubleValue) FROM NVTX_EVENTS").fetchone() == (0.25,)
        assert database.execute("SELECT value FROM StringIds WHERE id = 0").fetchone() == (
            b"k\xff",
        )


def test_a_file_that_is_there_is_kept_unless_forced(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "out.sqlite"
    out.write_text("mine")
    done = cli("scrub", SECRETS, out)
    assert done.exit_code == 2
    assert "--force" in done.stderr
    assert out.read_text() == "mine"
    assert cli("scrub", SECRETS, out, "--force").exit_code == 0
    assert report_of(out) == report_of(SECRETS)


def test_the_file_itself_is_never_written_to(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "in.sqlite"
    path.write_bytes(SECRETS.read_bytes())
    link = tmp_path / "link.sqlite"
    link.hardlink_to(path)
    for target in (path, link):
        assert cli("scrub", path, target, "--force").exit_code == 2
    assert path.read_bytes() == SECRETS.read_bytes()


@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\0" + bytes(100), None])
def test_bad_input_is_refused(content: bytes | None, cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "bad.sqlite"
    if content is not None:
        path.write_bytes(content)
    done = cli("scrub", path, tmp_path / "out.sqlite")
    assert done.exit_code == 2
    assert "bad.sqlite" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out.sqlite").exists()


def test_a_cut_or_foreign_database_is_refused(cli: Cli, tmp_path: Path) -> None:
    cut, foreign = tmp_path / "cut.sqlite", tmp_path / "foreign.sqlite"
    cut.write_bytes(SECRETS.read_bytes()[:30_000])
    with closing(sqlite3.connect(foreign)) as database, database:
        database.execute("CREATE TABLE t (a)")
        database.execute("CREATE VIEW StringIds AS SELECT 1 AS id, 'x' AS value")
    for path, word in ((cut, "its end is missing"), (foreign, "no table StringIds")):
        done = cli("scrub", path, tmp_path / "out.sqlite")
        assert done.exit_code == 2
        assert word in done.stderr
    assert sorted(each.name for each in tmp_path.iterdir()) == ["cut.sqlite", "foreign.sqlite"]


def test_what_fails_halfway_leaves_the_old_file(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.sqlite"
    out.write_text("mine")

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(nsys_scrubbing._Copy, "run", full)
    done = cli("scrub", SECRETS, out, "--force")
    assert done.exit_code == 2
    assert "disk is full" in done.stderr
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [
        ("out.sqlite", "mine")
    ]


def test_a_folder_that_cannot_be_written_to_is_told(cli: Cli, tmp_path: Path) -> None:
    done = cli("scrub", SECRETS, tmp_path / "missing" / "out.sqlite")
    assert done.exit_code == 2
    assert "cannot be written" in done.stderr
    assert cli("scrub", SECRETS, tmp_path, "--force").exit_code == 2
