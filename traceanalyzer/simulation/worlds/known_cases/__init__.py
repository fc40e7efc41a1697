"""Servers whose engineers published a profile made by hand, and what they concluded, as worlds.

    case = SEED_CASE
    world = World(case.settings)
    world.record(case.graphs).write("trace.sqlite")

Each module holds the published figures under their names, with their source, and derives the costs
of a world from them. The worlds are simulated: a few long kernels stand for thousands of short
ones, and what was not published is made up and said so. What an analysis must find in them is what
the engineers found.
"""

from traceanalyzer.simulation.worlds.known_cases.case import KnownCase
from traceanalyzer.simulation.worlds.known_cases.draft_window import DRAFT_WINDOW
from traceanalyzer.simulation.worlds.known_cases.exposed_launch import EXPOSED_LAUNCH
from traceanalyzer.simulation.worlds.known_cases.late_rank import LATE_RANK
from traceanalyzer.simulation.worlds.known_cases.seed import SEED_CASE

__all__ = ["DRAFT_WINDOW", "EXPOSED_LAUNCH", "LATE_RANK", "SEED_CASE", "KnownCase"]
