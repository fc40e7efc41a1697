"""What is known beside a capture, as a user gives it on the command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.harness import SAMPLE_TRACES, run_cli

if TYPE_CHECKING:
    from pathlib import Path

UNMARKED = SAMPLE_TRACES / "eagle3_eager_parquetdir"
SEED_5 = SAMPLE_TRACES / "seed_k05_parquetdir"
BASELINE = SAMPLE_TRACES / "seed_baseline_parquetdir"


def verdict_of(*arguments: Any) -> dict[str, Any]:
    done = run_cli("report", *arguments, "--format", "json")
    assert done.exit_code == 0, done.stderr
    verdict: dict[str, Any] = json.loads(done.stdout)["verdict"]
    return verdict


def refused(*arguments: Any) -> str:
    done = run_cli("report", *arguments)
    assert done.exit_code == 2
    assert "Traceback" not in done.stderr
    return done.stderr


def test_without_anything_known_it_says_what_is_missing() -> None:
    verdict = verdict_of(UNMARKED)
    assert verdict["outcome"] == "unknown"
    assert [text.split(":")[0] for text in verdict["missing"]] == [
        "acceptance",
        "a baseline at batch unknown",
    ]


def test_numbers_alone_give_a_verdict_with_its_caveats() -> None:
    verdict = verdict_of(UNMARKED, "--accept-len", "3.9", "--baseline-ms", "1.1")
    assert verdict["outcome"] == "winning"
    assert verdict["buckets"][0]["accept_len"] == {"value": 3.9, "low": None, "high": None}
    assert any("without an interval" in text for text in verdict["caveats"])


def test_a_number_in_an_engines_own_meaning_is_converted() -> None:
    known = ("--accept-len-definition", "vllm 0.8.5 mean acceptance length")
    (reading,) = verdict_of(UNMARKED, "--accept-len", "1.25", *known)["readings"]
    assert reading["accept_len"] == 2.25
    assert "bonus" in reading["conversion"]


def test_a_log_beside_marks_is_compared_with_them(tmp_path: Path) -> None:
    line = (
        "[2026-11-30 06:21:46] Decode batch, #running-req: 1, #token: 35, token usage: 0.01, "
        "accept len: {:.2f}, accept rate: 0.38, cuda graph: True, gen throughput (token/s): 71.00, "
        "#queue-req: 0\n"
    )
    log = tmp_path / "server.log"
    for accept_len, status in ((2.25, "ok"), (1.25, "failed")):
        log.write_text(line.format(accept_len) * 3)
        done = run_cli("report", SEED_5, "--acceptance", log, "--format", "json")
        (check,) = (
            each for each in json.loads(done.stdout)["trust"] if each["check"] == "acceptance"
        )
        assert check["status"] == status


def test_the_whole_service_is_slower_to_gain() -> None:
    verdict = verdict_of(SEED_5, "--baseline", BASELINE, "--not-decoding-share", "0.5")
    (bucket,) = verdict["buckets"]
    assert verdict["service_speedup"] == pytest.approx(1 / (0.5 + 0.5 / bucket["speedup"]["value"]))


def test_more_baselines_bring_more_batches(tmp_path: Path) -> None:
    verdict = verdict_of(SEED_5, "--baseline", BASELINE, "--baseline-ms", "8=14.2")
    assert verdict["buckets"][0]["baseline_ns"]["value"] == pytest.approx(11.1e6, rel=0.01)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--baseline", SEED_5), "this capture speculates"),
        (("--baseline", "nowhere"), "no such file or folder"),
        (("--baseline-ms", "soon"), "not a time of a decode step"),
        (("--acceptance", "nowhere.log"), "nowhere.log"),
        (("--acceptance", SAMPLE_TRACES / "README.md"), "no acceptance figure"),
        (("--accept-len", "nan"), "nan is not a finite number"),
        (("--accept-len", "2", "--accept-len-definition", "mine"), "'mine' is not known"),
        (("--accept-len", "0"), "not in the range"),
        (("--tokens-per-s", "0"), "not in the range"),
        (("--not-decoding-share", "2"), "not in the range"),
    ],
)
def test_what_cannot_be_used_is_told(arguments: tuple[Any, ...], message: str) -> None:
    assert message in refused(UNMARKED, *arguments)


def test_the_screen_withholds_a_verdict_on_top_of_a_failed_check() -> None:
    trace = SAMPLE_TRACES / "seed_synchronised_parquetdir"
    screen = run_cli("report", trace, "--accept-len", "0.98").stdout
    assert screen.index("failed") < screen.index("Verdict withheld")
    assert "1.98 with it" in screen
