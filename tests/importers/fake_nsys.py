"""Programs that stand in for other versions of nsys, and the exports they hand out."""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:
    from pathlib import Path

OLD_HELP = "--lazy= --output= --type= Possible values are: sqlite, hdf, text."
NEW_HELP = "--lazy= --output= --tables=<pattern> --type= sqlite, hdf, arrowdir, and parquetdir."

SECRET = "TOKEN=tell-nobody"

_TABLES: dict[str, dict[str, list[Any]]] = {
    "StringIds": {"id": [1, 2, 3, 4], "value": ["verify", SECRET, "thread", "kernel"]},
    "NVTX_EVENTS": {"start": [10, 20], "end": [15, 25], "textId": [1, None], "text": [None, "a"]},
    "ThreadNames": {"globalTid": [1], "nameId": [3]},
    "CUPTI_ACTIVITY_KIND_KERNEL": {"start": [11], "end": [12], "demangledName": [4]},
    "META_DATA_EXPORT": {"name": ["EXPORT_PRODUCT_VERSION"], "value": ["2025.3.2"]},
    "META_DATA_CAPTURE": {"name": ["ENVIRONMENT"], "value": [SECRET]},
    "TARGET_INFO_SYSTEM_ENV": {"name": ["Environment"], "value": [SECRET]},
}

COPY_EXPORT = """
if options["type"] == "sqlite":
    shutil.copyfile(exports / "whole.sqlite", output)
else:
    shutil.copytree(exports / "whole_pqtdir", output)
"""

_SCRIPT = """#!{python}
import json, os, pathlib, shutil, sys, time
arguments = sys.argv[1:]
exports = pathlib.Path({exports!r})
if arguments == ["--version"]:
    print("NVIDIA Nsight Systems version {version}")
elif arguments == ["export", "--help"]:
    print({help!r})
else:
    with open(sys.argv[0] + ".log", "a") as log:
        log.write(json.dumps(arguments) + "\\n")
    options = dict(a[2:].split("=", 1) for a in arguments if a.startswith("--"))
    output = pathlib.Path(options["output"])
{body}
"""


def write_exports(folder: Path) -> Path:
    """Write one small export, environments included, as nsys writes it in either form."""
    parquet = folder / "whole_pqtdir"
    parquet.mkdir()
    with closing(sqlite3.connect(folder / "whole.sqlite")) as database, database:
        for name, columns in _TABLES.items():
            frame = pl.DataFrame(columns)
            frame.write_parquet(parquet / f"{name}.parquet")
            database.execute(f"CREATE TABLE {name} ({', '.join(frame.columns)})")
            marks = ", ".join("?" * frame.width)
            database.executemany(f"INSERT INTO {name} VALUES ({marks})", frame.rows())
    return folder


@dataclass(frozen=True)
class FakeNsys:
    """A program that answers as one version of nsys does."""

    path: Path

    @property
    def exports(self) -> list[list[str]]:
        """The arguments of each export it was asked for."""
        log = self.path.with_name(self.path.name + ".log")
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def write_fake_nsys(
    path: Path, exports: Path, *, version: str, help_text: str, body: str = COPY_EXPORT
) -> FakeNsys:
    """Write a program that exports by running `body`, which sees `options` and `output`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        _SCRIPT.format(
            python=sys.executable,
            exports=str(exports),
            version=version,
            help=help_text,
            body="\n".join(f"    {line}" for line in body.splitlines()),
        )
    )
    path.chmod(0o755)
    return FakeNsys(path)
