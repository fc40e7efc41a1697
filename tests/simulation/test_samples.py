"""The sample folder holds what its commands make, and its README says so."""

from __future__ import annotations

import gzip
import json
import re
from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.harness import SAMPLE_TRACES
from tests.simulation.test_schema import rows_of_sqlite
from traceanalyzer.simulation.__main__ import main
from traceanalyzer.simulation.samples import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

MOST_SEED_BYTES = 9_000_000


@pytest.fixture(scope="module")
def regenerated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("samples")
    assert main(["--samples", str(folder)]) == 0
    return folder


def content(path: Path) -> object:
    """All rows of a sample, whatever holds them."""
    if path.is_dir():
        return {file.name: pl.read_parquet(file).rows() for file in path.iterdir()}
    if path.suffix == ".gz":
        return json.loads(gzip.decompress(path.read_bytes()))
    return rows_of_sqlite(path)


def truth_name(name: str) -> str:
    return f"{name.split('.')[0]}.truth.json"


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_sample_is_what_its_command_makes(sample, regenerated):
    made, kept = content(regenerated / sample.name), content(SAMPLE_TRACES / sample.name)
    assert kept == made
    truth = truth_name(sample.name)
    assert (SAMPLE_TRACES / truth).read_text() == (regenerated / truth).read_text()


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_sample_is_small(sample):
    assert 0 < size(sample.name) <= sample.most_bytes


def test_seed_samples_are_small_together():
    seed = [sample.name for sample in SAMPLES if sample.name.startswith("seed_")]
    assert sum(size(name) + size(truth_name(name)) for name in seed) <= MOST_SEED_BYTES


def size(name: str) -> int:
    path = SAMPLE_TRACES / name
    files = list(path.iterdir()) if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_readme_names_the_sample_and_its_command(sample):
    rows = [line for line in readme().splitlines() if line.startswith(f"| {sample.name}")]
    assert len(rows) == 1
    assert "simulated" in rows[0]
    assert f"`{sample.command}`" in rows[0]


def test_readme_lists_every_file():
    named = set(re.findall(r"^\| (\S+) \|", readme(), re.MULTILINE))
    there = {path.name for path in SAMPLE_TRACES.iterdir()} - {"README.md", "broken"}
    assert {name for name in there if not name.endswith((".truth.json", ".counts.json"))} <= named


def readme() -> str:
    return (SAMPLE_TRACES / "README.md").read_text()


def test_host_only_sample_has_ranges_and_no_gpu_work():
    tables = rows_of_sqlite(SAMPLE_TRACES / "eagle3_host_only.sqlite")
    assert "NVTX_EVENTS" in tables
    assert not [name for name in tables if name.startswith(("CUPTI", "CUDA_GRAPH"))]
    truth = json.loads((SAMPLE_TRACES / "eagle3_host_only.truth.json").read_text())
    assert truth["ranks"] == []
