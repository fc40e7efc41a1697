"""Where the GPU time of speculative decoding goes, from one recorded trace.

    import traceanalyzer
    report = traceanalyzer.analyze(traceanalyzer.load("trace.nsys-rep"))

Names are imported on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from traceanalyzer.errors import InputError, TraceAnalyzerError
    from traceanalyzer.importers import load
    from traceanalyzer.pipeline import AnalysisOptions, analyze
    from traceanalyzer.renderers.charts import figure
    from traceanalyzer.renderers.timeline_figure import timeline_figure
    from traceanalyzer.report import Report
    from traceanalyzer.trace import Trace

__version__ = "0.1.0"

__all__ = [
    "AnalysisOptions",
    "InputError",
    "Report",
    "Trace",
    "TraceAnalyzerError",
    "analyze",
    "figure",
    "load",
    "timeline_figure",
]

_HOME = {
    "AnalysisOptions": "traceanalyzer.pipeline",
    "InputError": "traceanalyzer.errors",
    "Report": "traceanalyzer.report",
    "Trace": "traceanalyzer.trace",
    "TraceAnalyzerError": "traceanalyzer.errors",
    "analyze": "traceanalyzer.pipeline",
    "figure": "traceanalyzer.renderers.charts",
    "load": "traceanalyzer.importers",
    "timeline_figure": "traceanalyzer.renderers.timeline_figure",
}


def __getattr__(name: str) -> Any:
    """Import a public name from its home."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    """The public names."""
    return [*__all__, "__version__"]
