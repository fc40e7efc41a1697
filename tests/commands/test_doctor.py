"""`traceanalyzer doctor`: what it prints, and what CI gets from it."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.exports import Export, served
from tests.harness import SAMPLE_TRACES

if TYPE_CHECKING:
    from pathlib import Path

    from tests.commands.conftest import Cli

BROKEN = SAMPLE_TRACES / "broken"
SOUND = BROKEN / "healthy.sqlite"


def test_a_sound_capture_passes_the_gate(cli: Cli) -> None:
    done = cli("doctor", SOUND, "--strict")
    assert (done.exit_code, done.stderr) == (0, "")
    assert "Nothing is wrong" in done.stdout


@pytest.mark.parametrize(
    ("name", "strict"),
    [
        ("no_kernels.sqlite", 3),
        ("graph_mode.sqlite", 3),
        ("truncated.json.gz", 3),
        ("lag_over_a_cycle.sqlite", 0),
    ],
)
def test_strict_fails_on_more_than_notes(name: str, strict: int, cli: Cli) -> None:
    finding = name.partition(".")[0]
    done = cli("doctor", BROKEN / name)
    assert done.exit_code == 0
    assert f"[{finding}]" in done.stdout
    done = cli("doctor", BROKEN / name, "--strict")
    assert done.exit_code == strict
    assert f"[{finding}]" in done.stdout
    assert (finding in done.stderr) is (strict != 0)


def test_json_holds_every_part_of_a_finding(cli: Cli) -> None:
    done = cli("doctor", BROKEN / "nvtx_too_new.sqlite", "--format", "json")
    found = json.loads(done.stdout)
    assert found["schema_version"] == 1
    assert found["files"][0]["path"].endswith("nvtx_too_new.sqlite")
    (finding,) = found["findings"]
    assert finding["finding"] == "nvtx_too_new"
    assert finding["severity"] == "error"
    assert "nvtx==0.2.11" in finding["next_step"]
    assert all(finding[part] for part in ("text", "evidence", "consequence"))


def test_markdown_is_chosen_by_the_suffix(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "found.md"
    assert cli("doctor", BROKEN / "buffers_lost.sqlite", "-o", out).exit_code == 0
    text = out.read_text()
    assert "## error: the recorder lost events" in text
    assert "- do: " in text


@pytest.mark.parametrize("form", ["terminal", "markdown", "json"])
def test_names_from_a_trace_cannot_steer_the_screen(form: str, cli: Cli, tmp_path: Path) -> None:
    export = Export()
    text = "size limit \x1b[31m <script>alert(1)</script> | `x`"
    export.add("DIAGNOSTIC_EVENT", timestamp=1, timestampType=1, source=1, severity=2, text=text)
    served(export)
    trace = export.write_sqlite(tmp_path / "hostile.sqlite")
    done = cli("doctor", trace, "--format", form)
    assert done.exit_code == 0
    assert "buffers_lost" in done.stdout
    assert "\x1b" not in done.stdout
    if form == "markdown":
        assert "<script>" not in done.stdout


def test_secrets_are_named_and_never_told(cli: Cli, tmp_path: Path) -> None:
    for form in ("terminal", "markdown", "json"):
        done = cli("doctor", BROKEN / "secrets_stored.sqlite", "--format", form)
        assert "WANDB" in done.stdout
        assert "simulated-not" not in done.stdout + done.stderr
        assert "casey" not in done.stdout + done.stderr
    folder = tmp_path / "run"
    folder.mkdir()
    shutil.copy(BROKEN / "secrets_stored.sqlite", folder)
    assert "HF_TOKEN" in cli("doctor", folder).stdout


def test_no_output_of_the_report_tells_persons_or_secrets(cli: Cli) -> None:
    for form in ("terminal", "markdown", "json", "csv"):
        done = cli("report", BROKEN / "secrets_stored.sqlite", "--format", form)
        assert done.exit_code == 0
        for word in ("casey", "gpu-node", "simulated-not", "HF_TOKEN"):
            assert word not in done.stdout + done.stderr


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0", b"{", None])
def test_bad_input_is_refused(content: bytes | None, cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "bad"
    if content is not None:
        path.write_bytes(content)
    done = cli("doctor", path, "--strict")
    assert done.exit_code == 2
    assert "bad" in done.stderr
    assert "Traceback" not in done.stderr
