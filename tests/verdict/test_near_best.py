from __future__ import annotations

import re

import pytest

from traceanalyzer.report import Estimated
from traceanalyzer.report.sweep import SweepBatch, SweepPrediction
from traceanalyzer.verdict.predictions import advice_for


def predicted(length: int, rate: float) -> SweepPrediction:
    exact = Estimated(1.0, 1.0, 1.0)
    rates = Estimated(rate, rate, rate)
    return SweepPrediction(length, exact, exact, rates, None, measured=True, extrapolated=False)


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        ([60, 69, 72, 68, 66], "k = 2, 3"),
        ([70, 71, 72, 71, 50], "k = 1 to 4"),
        ([72, 60, 50, 70, 71], "k = 1, 4, 5"),
        ([72, 60, 50], None),
    ],
)
def test_lengths_that_give_almost_as_much_are_named(rates: list[float], said: str | None) -> None:
    predictions = [predicted(place + 1, rate) for place, rate in enumerate(rates)]
    best = max(predictions, key=lambda each: each.tokens_per_s.value).draft_tokens
    batch = SweepBatch(1, None, [], predictions=predictions, best_draft_tokens=best)
    text = advice_for(batch)
    assert text is not None
    found = re.search(r"\((k = [\d, to]+) within 5 % of it\)", text)
    assert (found[1] if found else None) == said
