"""What a free draft buys, against windows taken out of a cycle by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import examples
from tests.verdict.made import MS, phase
from traceanalyzer.assembly.free_drafting import free_drafting

TIMES = st.floats(0.01, 100)


@examples(1.0)
@given(st.tuples(TIMES, TIMES, TIMES), st.floats(0, 0.9), st.booleans())
def test_a_cycle_without_drafting_is_the_rest_of_it(
    times: tuple[float, float, float], idle_share: float, whole: bool
) -> None:
    draft, verify, extend = times
    idle = {"launch latency": idle_share * verify, "dependency": 0.05 * verify}
    target = replace(phase("verify", verify, sum(times), gaps=idle), whole_cycles=int(whole))
    phases = [phase("draft", draft, sum(times)), target, phase("draft_extend", extend, sum(times))]
    found = free_drafting(phases, sum(times) * MS)
    assert found is not None
    assert found.speedup == pytest.approx(sum(times) / verify)
    left = verify * (1 - idle_share) if whole else verify
    assert found.speedup_with_launch == pytest.approx(sum(times) / left)
    assert 1 <= found.speedup <= found.speedup_with_launch


@pytest.mark.parametrize("names", [(), ("verify",), ("draft",)])
def test_nothing_is_said_without_drafting_or_without_a_rest(names: tuple[str, ...]) -> None:
    phases = [phase(name, 1.0, len(names)) for name in names]
    assert free_drafting(phases, len(names) * MS) is None
