"""`traceanalyzer report --kernels`: which forms it adds to, and which already hold the kernels."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from tests.commands.conftest import Cli


def test_csv_is_one_row_a_kernel(server: Path, cli: Cli) -> None:
    rows = list(
        csv.DictReader(io.StringIO(cli("report", server, "--kernels", "--format", "csv").stdout))
    )
    report = json.loads(cli("report", server, "--format", "json").stdout)
    assert [(row["phase"], row["kernel"], int(row["busy_ns"])) for row in rows] == [
        (kernel["phase"], kernel["kernel"], kernel["busy_ns"]) for kernel in report["kernels"]
    ]
    assert rows


def test_the_terminal_adds_a_table(server: Path, cli: Cli) -> None:
    plain = cli("report", server).stdout
    more = cli("report", server, "--kernels").stdout
    assert "Kernels, over" in more
    assert len(more.splitlines()) > len(plain.splitlines())


def test_json_holds_them_anyway_and_markdown_refuses(server: Path, cli: Cli) -> None:
    forms = ["--format", "json"]
    with_option = cli("report", server, "--kernels", *forms).stdout
    assert with_option == cli("report", server, *forms).stdout
    refused = cli("report", server, "--kernels", "--format", "markdown")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "--kernels" in refused.stderr
