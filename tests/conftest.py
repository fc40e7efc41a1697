"""Keeps tests off this user's cache, and carries out the `needs_...` marks of `harness`."""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, settings

from tests.harness import NsysDiedError, missing_for, required_markers

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

# No property fails because the machine is busy. A profile of the command line comes later and wins.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")

_NSYS_ENDS_S = 2


@pytest.fixture(scope="session", autouse=True)
def _own_surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRACEANALYZER_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.delenv("NSYS", raising=False)
        yield


def pytest_configure() -> None:
    required_markers()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run tests that need nsys one at a time, also with several workers, and once more if it died.

    Nsight Systems 2022.4 sometimes dies at its start (`sem_open`) while another session ends, which
    it may after its test.
    """
    if "needs_nsys" not in _markers(item):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    lock = Path(tempfile.gettempdir()) / f"traceanalyzer-nsys-{os.getuid()}.lock"
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        if any(
            report.failed and NsysDiedError.__name__ in report.longreprtext for report in reports
        ):
            time.sleep(_NSYS_ENDS_S)
            item._initrequest()  # type: ignore[attr-defined]
            reports = runtestprotocol(item, log=False, nextitem=nextitem)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _markers(item: pytest.Item) -> set[str]:
    return {marker.name for marker in item.iter_markers()}


def pytest_runtest_setup(item: pytest.Item) -> None:
    missing = missing_for(_markers(item))
    if missing:
        pytest.skip(f"no {missing} here")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    required = _markers(item) & required_markers()
    if required and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, and TRACEANALYZER_REQUIRE asks for {', '.join(required)}"
    return report
