"""Which plotly.js a page carries: the small cartesian bundle shipped here, else plotly's own.

plotly brings only the full bundle, three times as large and as slow to start. The shipped one
stands in for it where its version is the one that the installed plotly was made for.
"""

from __future__ import annotations

import gzip
from importlib import resources


def plotly_source() -> str:
    """JavaScript that defines `Plotly`, of the version that the installed plotly draws for."""
    from plotly.offline import get_plotlyjs, get_plotlyjs_version

    shipped = shipped_bundle(get_plotlyjs_version())
    return str(get_plotlyjs()) if shipped is None else shipped


def shipped_bundle(version: str) -> str | None:
    """The shipped bundle of this version of plotly.js, None where another one is shipped."""
    vendor = resources.files("traceanalyzer.renderers.html") / "vendor"
    bundle = vendor / f"plotly-cartesian-{version}.min.js.gz"
    return gzip.decompress(bundle.read_bytes()).decode("utf-8") if bundle.is_file() else None
