"""A report edited by hand is refused, whatever was done to it; one of ours never is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.verdict.made import report, seed_bucket
from traceanalyzer.errors import InputError
from traceanalyzer.report import Report

if TYPE_CHECKING:
    from collections.abc import Callable


def written() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(report(seed_bucket()).to_json())
    return data


def test_what_was_written_is_read_back() -> None:
    ours = report(seed_bucket())
    assert Report.from_json(ours.to_json()) == ours


def no_files(data: dict[str, Any]) -> None:
    data["capture"]["files"] = []


def negative_period(data: dict[str, Any]) -> None:
    data["buckets"][0]["mean_period_ns"] = {"value": -1.0, "low": -1.0, "high": -1.0}


def wrong_interval(data: dict[str, Any]) -> None:
    data["buckets"][0]["acceptance"]["accept_len"]["low"] = 99.0


def other_version(data: dict[str, Any]) -> None:
    data["schema_version"] = 99


def text_for_number(data: dict[str, Any]) -> None:
    data["buckets"][0]["cycles"] = "many"


def _with_slot(data: dict[str, Any], blocks: list[int], block: int) -> None:
    slot = {
        "kernel": "k",
        "kernel_class": "norm",
        "block": block,
        "ops_per_cycle": 1.0,
        "busy_ns_per_cycle": 1.0,
    }
    data["buckets"][0]["phases"][0] |= {"kernel_blocks": blocks, "kernel_slots": [slot]}


def slot_of_no_block(data: dict[str, Any]) -> None:
    _with_slot(data, [1], 1)


def endless_block(data: dict[str, Any]) -> None:
    _with_slot(data, [10**12], 0)


def block_that_never_runs(data: dict[str, Any]) -> None:
    _with_slot(data, [0], 0)


def drafting_that_speeds_up(data: dict[str, Any]) -> None:
    data["buckets"][0]["free_drafting"] = {
        "drafting_ns": 1.0,
        "speedup": 0.9,
        "launch_wait_ns": 0.0,
        "speedup_with_launch": 0.9,
    }


def graph_busier_than_it_lasts(data: dict[str, Any]) -> None:
    graph = dict.fromkeys(("launches", "span_p50_ns", "span_p99_ns", "summed_ns"), 1)
    unknown = dict.fromkeys(("ops", "period_ns", "launch_ns", "waited_share", "blocks"))
    lists = {name: [] for name in ("phases", "batches", "ranks")}
    data["graphs"] = [{**graph, **unknown, **lists, "inside": "whole-graph row", "busy_ns": 2}]


def test_slots_in_their_blocks_are_read_back() -> None:
    data = written()
    _with_slot(data, [61], 0)
    assert Report.from_json(json.dumps(data).encode()).buckets[0].phases[0].kernel_blocks == [61]


@pytest.mark.parametrize(
    "edit",
    [
        no_files,
        negative_period,
        wrong_interval,
        other_version,
        text_for_number,
        slot_of_no_block,
        endless_block,
        block_that_never_runs,
        drafting_that_speeds_up,
        graph_busier_than_it_lasts,
    ],
)
def test_an_edited_report_is_refused(edit: Callable[[dict[str, Any]], None]) -> None:
    data = written()
    edit(data)
    with pytest.raises(InputError):
        Report.from_json(json.dumps(data).encode())


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b"\xff", b'{"schema_version": 1}'])
def test_what_is_no_report_is_refused(text: bytes) -> None:
    with pytest.raises(InputError, match="this is no report"):
        Report.from_json(text)
