"""Worlds: simulated servers with true costs, served untraced and recorded by real recorders' ways.

A kernel's attribution can be checked kernel by kernel; whether a traced duration is the served
cost cannot be seen in a trace. A `World` knows both.
"""

from traceanalyzer.simulation.worlds.draw import Captures, DrawnWorld, Recorders, draw_world
from traceanalyzer.simulation.worlds.figures import BucketFigures, Figures
from traceanalyzer.simulation.worlds.logs import log_of
from traceanalyzer.simulation.worlds.settings import (
    UNTRACED,
    Cost,
    Costs,
    Host,
    Load,
    Parallel,
    Recorder,
    Speculation,
    WorldSettings,
)
from traceanalyzer.simulation.worlds.world import Capture, Truth, World

__all__ = [
    "UNTRACED",
    "BucketFigures",
    "Capture",
    "Captures",
    "Cost",
    "Costs",
    "DrawnWorld",
    "Figures",
    "Host",
    "Load",
    "Parallel",
    "Recorder",
    "Recorders",
    "Speculation",
    "Truth",
    "World",
    "WorldSettings",
    "draw_world",
    "log_of",
]
