"""More kinds of bad input, thought up as somebody who means harm would, and all kinds together."""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tests.bad_inputs import (
    EITHER,
    KINDS,
    BadInput,
    kineto_text,
    report_of,
    sqlite_export,
    written,
)
from tests.exports import KERNEL, NVTX
from traceanalyzer import analyze, load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def no_regular_files(folder: Path) -> Iterator[BadInput]:
    """Pipes that nobody writes to, and devices without an end, wherever a file is named."""
    path, ops = sqlite_export(folder)
    os.mkfifo(folder / "pipe")
    for name in (folder / "pipe", "/dev/zero", "/dev/null", "/dev/full"):
        yield report_of(name)
        yield report_of(path, "--phases", name)
        yield report_of(path, "--acceptance", name)
        yield report_of(path, "--baseline", name)
        yield BadInput(("compare", path, name))
    mixed = folder / "mixed"
    mixed.mkdir()
    os.mkfifo(mixed / "other.sqlite")
    sqlite_export(mixed)
    yield report_of(mixed, ops=ops)
    tables = _tables(folder / "tables")
    os.mkfifo(tables / f"{NVTX}.parquet")
    yield report_of(tables, ops=EITHER)


def odd_schemas(folder: Path) -> Iterator[BadInput]:
    """SQLite as no recorder writes it: every row is read all the same."""
    for number, change in enumerate(
        (
            f"CREATE TABLE other AS SELECT rowid AS number, * FROM {KERNEL}; DROP TABLE {KERNEL}; "
            f"ALTER TABLE other RENAME TO {KERNEL}",
            f"ALTER TABLE {KERNEL} ADD COLUMN twice GENERATED ALWAYS AS (start * 2) VIRTUAL",
            f"ALTER TABLE {KERNEL} ADD COLUMN moreId INTEGER DEFAULT 9223372036854775807",
            f"CREATE TEMP TABLE {KERNEL} (start INTEGER)",
            "PRAGMA user_version = 2147483647; PRAGMA application_id = -1",
            "CREATE TABLE `sqlite` (a); CREATE TABLE `main.StringIds` (a); CREATE TABLE ` ` (a)",
            "UPDATE StringIds SET value = CAST(zeroblob(60000000) AS TEXT) WHERE rowid = 1",
            "UPDATE StringIds SET value = hex(zeroblob(20000000)) WHERE rowid = 2",
        )
    ):
        path, ops = sqlite_export(folder, f"{number}.sqlite")
        with closing(sqlite3.connect(path)) as database:
            database.executescript(change)
        yield report_of(path, ops=ops)
    for size in (512, 4096, 65536):
        path, ops = sqlite_export(folder, f"pages {size}.sqlite")
        with closing(sqlite3.connect(path)) as database:
            database.executescript(f"PRAGMA page_size = {size}; VACUUM")
        yield report_of(path, ops=ops)
    yield from _without_rowid(folder)
    path, ops = sqlite_export(folder, "wal.sqlite")  # says it has a log, which is not there
    data = bytearray(path.read_bytes())
    data[18:20] = b"\2\2"
    path.write_bytes(data)
    yield report_of(path, ops=EITHER)
    path.chmod(0o444)
    yield report_of(path, ops=EITHER)
    for place, value in (
        (16, b"\0\0"),
        (16, b"\0\3"),
        (20, b"\xff"),
        (28, b"\xff" * 4),
        (56, b"\2"),
    ):
        path, _ = sqlite_export(folder, f"head {place} {value.hex()}.sqlite")
        data = bytearray(path.read_bytes())
        data[place : place + len(value)] = value
        path.write_bytes(data)
        yield report_of(path, ops=EITHER)


def _without_rowid(folder: Path) -> Iterator[BadInput]:
    path, ops = sqlite_export(folder, "keyed.sqlite")
    with closing(sqlite3.connect(path)) as database, database:
        columns = [row[1] for row in database.execute(f"PRAGMA table_info({KERNEL})")]
        named = ", ".join(f'"{column}"' for column in columns)
        database.execute(f"ALTER TABLE {KERNEL} RENAME TO before")
        database.execute(
            f"CREATE TABLE {KERNEL} (number INTEGER PRIMARY KEY, {named}) WITHOUT ROWID"
        )
        database.execute(f"INSERT INTO {KERNEL} SELECT rowid, * FROM before")
        database.execute("DROP TABLE before")
    yield report_of(path, ops=ops)


def _tables(folder: Path) -> Path:
    """A saved trace: a folder of parquet tables."""
    from click.testing import CliRunner

    from traceanalyzer.commands import cli

    path, _ = sqlite_export(folder.parent, f"{folder.name}.sqlite")
    done = CliRunner().invoke(cli, ["export", str(path), "--to", "parquet", "-o", str(folder)])
    assert done.exit_code == 0, done.output
    return folder


def odd_folders(folder: Path) -> Iterator[BadInput]:
    """Folders of tables that are cut, foreign, of other types, or not of one trace."""
    names = ("ops", "launches", "ranges", "names", "files", "threads", "processes")
    for number, name in enumerate(names):
        for way, change in enumerate(_FOLDER_CHANGES):
            tables = _tables(folder / f"{number} {way}")
            change(tables / f"{name}.parquet")
            yield report_of(tables, ops=EITHER)


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-20])


def _foreign(file: Path) -> None:
    pl.DataFrame({"a": [1], "b": ["x"]}).write_parquet(file)


def _of_text(file: Path) -> None:
    pl.read_parquet(file, glob=False).cast(pl.String, strict=False).write_parquet(file)


def _doubled(file: Path) -> None:
    frame = pl.read_parquet(file, glob=False)
    pl.concat([frame, frame]).write_parquet(file)


def _of_nulls(file: Path) -> None:
    frame = pl.read_parquet(file, glob=False)
    frame.select(
        pl.lit(None, dtype).alias(name) for name, dtype in frame.schema.items()
    ).write_parquet(file)


def _a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def _a_loop(file: Path) -> None:
    file.unlink()
    file.symlink_to(file.name)


_FOLDER_CHANGES: Final = (_cut, _foreign, _of_text, _doubled, _of_nulls, _a_folder, _a_loop)


def packed_twice(folder: Path) -> Iterator[BadInput]:
    """Gzip in gzip, with something behind it, or around something else."""
    text, ops = kineto_text()
    yield report_of(written(folder, "twice.json.gz", gzip.compress(gzip.compress(text))))
    deep = text
    for _ in range(50):
        deep = gzip.compress(deep)
    yield report_of(written(folder, "fifty.json.gz", deep))
    path, _ = sqlite_export(folder)
    yield report_of(written(folder, "base.gz", gzip.compress(path.read_bytes())))
    for junk in (b"\0" * 1000, b"junk", text, b"\x1f\x8b"):
        yield report_of(written(folder, "behind.json.gz", gzip.compress(text) + junk), ops=EITHER)
    parts = gzip.compress(text[:200]) + gzip.compress(text[200:])
    yield report_of(written(folder, "parts.json.gz", parts), ops=ops)


def odd_rules(folder: Path) -> Iterator[BadInput]:
    """Rule files that would blow up, and patterns that would."""
    path, ops = sqlite_export(folder)
    rule = "[[rule]]\nphase = 'verify'\nname = "
    for number, text in enumerate(
        (
            rule + "'(a{1000}){1000}{1000}'",
            rule + "'" + "(" * 5000 + ")" * 5000 + "'",
            rule + "'" + "a|" * 200_000 + "'",
            "a.b = 1\n" * 2 + rule + "'x'",
            ".".join("a" * 20_000) + " = 1",
            rule + "'x'\nflags = [" + "'idle'," * 100_000 + "7]",
            "replace = true\n",
            "rule = 7",
            "rule = [[[]]]",
            rule + "'(?P<batch>a)(?P<batch>b)'",
            rule + "'(?=a)'",
            rule + r"'\p{Nonsense}'",
        )
    ):
        yield report_of(path, "--phases", written(folder, f"{number}.toml", text.encode()))
    for number, name in enumerate(("'(a*)*b'", "'(.*)*(.*)*(.*)*x'", r"'(?s:.{0,200})*verify'")):
        rules = written(folder, f"fine{number}.toml", (rule + name).encode())
        yield report_of(path, "--phases", rules, ops=ops)
    many = "".join(f"{rule}'request {number}'\n" for number in range(3000))
    yield report_of(path, "--phases", written(folder, "many.toml", many.encode()), ops=ops)


def odd_reports(folder: Path) -> Iterator[BadInput]:
    """A report of an earlier run, changed: wrong types, NaN, endless numbers, another version."""
    path, _ = sqlite_export(folder)
    sound = folder / "sound.json"
    sound.write_bytes(analyze(load(path)).to_json())
    text = sound.read_text()
    whole = json.loads(text)
    others = [text[: len(text) // 2], text.replace("{", "[", 1), "[" * 100_000, '{"a":' * 100_000]
    others += ["", "null", "[]", "{}", '{"schema_version": 1}', '"text"', "\0", "\ufeff" + text]
    others += [
        json.dumps(whole | {"schema_version": it}) for it in (0, 999, -1, "1", None, 1 << 70)
    ]
    for number, other in enumerate(others):
        yield from _compared(sound, written(folder, f"{number}.json", other.encode()))
    for number, value in enumerate(
        ('"text"', "null", "[]", "NaN", "1e400", "9" * 5000, "-1", "{}")
    ):
        for key in ("ranks", "capture", "buckets", "ops"):
            changed = _with_value(whole, key, value)
            yield from _compared(sound, written(folder, f"{key}{number}.json", changed.encode()))


def _compared(sound: Path, other: Path) -> Iterator[BadInput]:
    yield BadInput(("compare", sound, other), EITHER)
    yield BadInput(("compare", other, sound), EITHER)


def _with_value(whole: dict[str, Any], key: str, value: str) -> str:
    """The report's text with another value behind a key, wherever it stands first."""

    def replaced(part: Any) -> Any:
        if isinstance(part, dict):
            return {
                name: "<here>" if name == key else replaced(inner) for name, inner in part.items()
            }
        return [replaced(inner) for inner in part] if isinstance(part, list) else part

    return json.dumps(replaced(whole)).replace('"<here>"', value)


ALL_KINDS: Final[dict[str, Callable[[Path], Iterator[BadInput]]]] = KINDS | {
    "pipes and devices": no_regular_files,
    "SQLite schemas and pages of other kinds": odd_schemas,
    "folders of damaged, foreign and mismatched tables": odd_folders,
    "gzip in gzip": packed_twice,
    "rule files and patterns that blow up": odd_rules,
    "reports that were changed": odd_reports,
}
"""Every kind of bad input."""
