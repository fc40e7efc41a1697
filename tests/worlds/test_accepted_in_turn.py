"""Acceptance that is given and not drawn: its mean is the one asked for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import examples
from traceanalyzer.simulation.worlds import Load, Speculation, World, WorldSettings
from traceanalyzer.simulation.worlds.known_cases.case import TURN, accepted_in_turn


@examples(1.0)
@given(st.integers(1, 8), st.floats(0.05, 0.9))
def test_the_mean_is_met_to_a_draft_in_a_turn(longest: int, share: float) -> None:
    accept_len = 1 + share * longest
    counts = accepted_in_turn(accept_len, longest)
    assert len(counts) == TURN
    assert all(0 <= count <= longest for count in counts)
    # Several quantiles may cross a bound at once, each at most one draft.
    assert abs(1 + sum(counts) / TURN - accept_len) <= (longest + 0.5) / TURN


def test_a_world_accepts_what_it_is_told_over_and_over() -> None:
    turn = (0, 3, 1)
    settings = WorldSettings(
        speculation=Speculation(draft_tokens=(2,), accepted_in_turn=turn),
        load=Load(output_tokens=(1_000, 1_000)),
        cycles=9,
    )
    run = World(settings).record().run
    accepted = [each.accepted for step in run.steps.values() for each in step.outcomes]
    assert accepted == [0, 2, 1] * 3
