"""The broken samples are what their commands make, are small, and the README says so."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from tests.harness import SAMPLE_TRACES
from tests.simulation.test_schema import rows_of_sqlite
from traceanalyzer.simulation.__main__ import main
from traceanalyzer.simulation.troubles import BROKEN, HEALTHY, TROUBLES

if TYPE_CHECKING:
    from pathlib import Path

ALL = (*HEALTHY, *(broken.sample for broken in BROKEN))
MOST_BYTES = 1_000_000


def content(path: Path) -> object:
    if path.suffix == ".gz":
        return gzip.decompress(path.read_bytes())
    return rows_of_sqlite(path)


@pytest.mark.parametrize("sample", ALL, ids=lambda sample: sample.name)
def test_sample_is_what_its_command_makes(sample, tmp_path):
    (tmp_path / "broken").mkdir()
    assert main(sample.arguments(tmp_path)) == 0
    assert content(tmp_path / sample.name) == content(SAMPLE_TRACES / sample.name)
    assert [path.name for path in (tmp_path / "broken").iterdir()] == [sample.name.split("/")[1]]


@pytest.mark.parametrize("sample", ALL, ids=lambda sample: sample.name)
def test_readme_names_the_sample_and_its_command(sample):
    readme = (SAMPLE_TRACES / "README.md").read_text()
    rows = [line for line in readme.splitlines() if line.startswith(f"| {sample.name} |")]
    assert len(rows) == 1
    assert f"`{sample.command}`" in rows[0]


def test_samples_are_small_and_all_are_listed():
    there = {f"broken/{path.name}": path for path in (SAMPLE_TRACES / "broken").iterdir()}
    assert sorted(there) == sorted(sample.name for sample in ALL)
    sizes = {sample.name: there[sample.name].stat().st_size for sample in ALL}
    assert all(sizes[sample.name] <= sample.most_bytes for sample in ALL)
    assert sum(sizes.values()) <= MOST_BYTES


def test_a_broken_sample_differs_from_its_twin():
    for broken in BROKEN:
        assert content(SAMPLE_TRACES / broken.sample.name) != content(SAMPLE_TRACES / broken.twin)


def test_every_trouble_makes_a_sample():
    options = " ".join(broken.sample.options for broken in BROKEN)
    assert all(f"--trouble {name}" in options for name in TROUBLES)
