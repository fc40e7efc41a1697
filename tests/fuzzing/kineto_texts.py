"""Kineto traces in many layouts, with odd values, damaged, cut and packed."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tests.fuzzing.hostile import JSON_VALUES, chosen, damaged
from tests.fuzzing.running import LieError
from tests.importers.test_torch_profiler import LAYOUTS, Number, plainly, rows_of
from traceanalyzer import analyze, load
from traceanalyzer.importers import kineto_json
from traceanalyzer.report import Report
from traceanalyzer.simulation import Eagle3Settings, eagle3_server, write_kineto

if TYPE_CHECKING:
    import random
    from pathlib import Path

_ANALYSED_SHARE: Final = 0.1
_METADATA: Final = {
    "schemaVersion": 1,
    "deviceProperties": [{"id": 0, "name": "a GPU"}],
    "distributedInfo": {"rank": 0},
    "baseTimeNanoseconds": 1_700_000_000_000_000_000,
}
_FIELDS: Final = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "args")
_ARGUMENTS: Final = ("correlation", "device", "stream", "graph id", "graph node id", "finished")
_SMALL_PIECES: Final = (200, 1000, 1 << 18)


class KinetoTexts:
    """Draws traces; events that are whole must be read as the standard library reads them."""

    def __init__(self, folder: Path) -> None:
        self.label = ""
        self._path = folder / "drawn.json"
        settings = replace(Eagle3Settings.small(), cycles=3, warm_up_cycles=1, ranks=1)
        template = folder / "template.json"
        write_kineto(eagle3_server(settings), template)
        document = json.loads(template.read_bytes(), parse_float=Number)
        self._events: list[dict[str, Any]] = [
            event for event in document["traceEvents"] if event["ph"] in ("X", "M")
        ]

    def try_one(self, dice: random.Random) -> None:
        """Draw a trace, read it, sometimes analyse it, and compare."""
        begin = dice.randrange(len(self._events))
        events = self._events[begin : begin + dice.choice((1, 3, 30, 120))]
        meant = list(events)
        odd = dice.random() < 0.4
        if odd:
            events, meant = _with_odd_events(dice, events)
        layout = dice.choice(sorted(LAYOUTS))
        text = LAYOUTS[layout](_METADATA, events)
        if dice.random() < 0.1:
            layout, text = "array", "[" + text[text.index("[") + 1 : text.rindex("]")] + "]"
        self.label = f"{layout}{', odd values' if odd else ''}"
        data, whole = self._packed(dice, text.encode(errors="surrogatepass"))
        self._path.write_bytes(data)
        analysed = dice.random() < _ANALYSED_SHARE
        piece = kineto_json.PIECE_BYTES, kineto_json.HEAD_BYTES
        kineto_json.PIECE_BYTES = kineto_json.HEAD_BYTES = chosen(dice, _SMALL_PIECES)
        try:
            trace = load(self._path)
        finally:
            kineto_json.PIECE_BYTES, kineto_json.HEAD_BYTES = piece
        if whole and layout != "array":
            known = replace(trace, syncs=trace.syncs.filter(pl.col("kind") != "unknown"))
            expected = plainly(LAYOUTS["minified"]({}, meant))
            _compare(rows_of(known), expected, exactly=not odd)
        if analysed:
            report = analyze(trace).to_json()
            if json.loads(Report.from_json(report).to_json()) != json.loads(report):
                raise LieError("the report differs after JSON")

    def _packed(self, dice: random.Random, data: bytes) -> tuple[bytes, bool]:
        """The bytes of the file, and whether all of the text is in it."""
        how = dice.random()
        whole = how >= 0.45
        if how < 0.25:
            self.label += ", damaged"
            data = damaged(dice, data)
        if dice.random() < 0.3:
            self.label += ", gzip"
            data = gzip.compress(data, 1, mtime=0)
        if 0.25 <= how < 0.45:
            self.label += ", cut"
            data = data[: dice.randint(0, len(data))]
        return data, whole


def _with_odd_events(
    dice: random.Random, events: list[dict[str, Any]]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The events with some odd ones, and those that were left as they were."""
    odd = {dice.randrange(len(events)) for _ in range(dice.choice((1, 1, 3)))}
    mixed = [
        _odd_event(dice, event) if place in odd else event for place, event in enumerate(events)
    ]
    return mixed, [event for place, event in enumerate(events) if place not in odd]


def _odd_event(dice: random.Random, event: dict[str, Any]) -> dict[str, Any]:
    value = Number(chosen(dice, JSON_VALUES))
    if dice.random() < 0.15:
        return {**event, "more": value}
    if dice.random() < 0.4:
        return {**event, "args": {**event.get("args", {}), dice.choice(_ARGUMENTS): value}}
    key = dice.choice(_FIELDS)
    if dice.random() < 0.2:
        return {name: each for name, each in event.items() if name != key}
    return {**event, key: value}


def _compare(
    found: dict[str, list[tuple[Any, ...]]],
    expected: dict[str, list[tuple[Any, ...]]],
    *,
    exactly: bool,
) -> None:
    for table, rows in expected.items():
        if exactly and found[table] != rows:
            raise LieError(f"{table}: read {len(found[table])} rows, recounted {len(rows)}")
        remaining = iter(found[table])
        if not all(row in remaining for row in rows):
            raise LieError(f"{table}: an odd event took a whole one with it")
