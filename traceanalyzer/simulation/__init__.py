"""Simulated traces with known truth, in the formats of the real profilers.

Everything here is simulated: no row was recorded on a GPU. `eagle3_server` runs a server, the
writers turn its Recording into files, and `truth_of` says what a right analysis must find.
"""

from traceanalyzer.simulation.eagle3 import eagle3_server
from traceanalyzer.simulation.kineto import write_kineto
from traceanalyzer.simulation.nsys_files import write_nsys_parquetdir, write_nsys_sqlite
from traceanalyzer.simulation.nsys_schema import FLAVOURS, NSYS_2022_4, NSYS_2025_5
from traceanalyzer.simulation.presets import PRESETS
from traceanalyzer.simulation.recording import Recording
from traceanalyzer.simulation.settings import Eagle3Settings
from traceanalyzer.simulation.truth import Truth, truth_of

__all__ = [
    "Eagle3Settings",
    "FLAVOURS",
    "NSYS_2022_4",
    "NSYS_2025_5",
    "PRESETS",
    "Recording",
    "Truth",
    "eagle3_server",
    "truth_of",
    "write_kineto",
    "write_nsys_parquetdir",
    "write_nsys_sqlite",
]
