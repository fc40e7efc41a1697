"""The shell of every page: one file, no network, and only the scripts that it was made with.

A Content-Security-Policy names the hash of each script and style, so that nothing a trace says
can run. The parts are joined once and never substituted into: a kernel called `{data}` stays one.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from importlib import resources
from typing import TYPE_CHECKING, Final

from traceanalyzer.renderers.html.escaping import Markup, element, joined

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SHARED_SCRIPTS: Final = ("blobs.js", "theme.js")
"""Static files that a page's own scripts may build on; `html_page` puts them first."""

_LEVEL: Final = 6  # deflate's 9 takes twice the time and saves less than 1 %


def static_text(file_name: str) -> str:
    """A file of the folder `static`, as text."""
    folder = resources.files("traceanalyzer.renderers.html") / "static"
    return (folder / file_name).read_text(encoding="utf-8")


def html_page(
    title: str,
    body_parts: Sequence[str],
    *,
    scripts: Sequence[str] = (),
    styles: Sequence[str] = (),
    data_blobs: Mapping[str, bytes] | None = None,
    lazy_scripts: Mapping[str, str] | None = None,
    inline_styles: bool = False,
) -> str:
    """Put a page together; write it as UTF-8 without changing line ends, which the hashes cover.

    Args:
        title: Title of the window, any text.
        body_parts: Content in order; escaped unless it is `escaping.Markup`.
        scripts: JavaScript sources, run in order at the end of the page, after `SHARED_SCRIPTS`.
        styles: CSS sources, after the shared `page.css`.
        data_blobs: Bytes by id, deflated; a script reads one with `await readBlob(id)`.
        lazy_scripts: JavaScript by id, deflated; a script runs one with `await runLazily(id)`.
        inline_styles: Whether scripts may set style attributes and add style sheets (plotly does).

    Returns:
        The whole document.

    Raises:
        ValueError: A script or style would end its own element.
    """
    sources = [*(static_text(file_name) for file_name in SHARED_SCRIPTS), *scripts]
    sheets = [static_text("page.css"), *styles]
    later = lazy_scripts or {}
    blobs = {**(data_blobs or {}), **{id_: source.encode() for id_, source in later.items()}}
    policy = _policy([*sources, *later.values()], None if inline_styles else sheets)
    head = joined(
        element("meta", charset="utf-8"),
        # The policy comes before anything that it is about.
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", title),
        *(element("style", _raw(sheet, "style")) for sheet in sheets),
    )
    body = joined(
        *body_parts,
        *(_blob(id_, data) for id_, data in blobs.items()),
        *(element("script", _raw(source, "script")) for source in sources),
    )
    document = element(
        "html", element("head", head), Markup("\n"), element("body", body), lang="en"
    )
    return f"<!doctype html>\n{document}\n"


def _policy(scripts: Sequence[str], styles: Sequence[str] | None) -> str:
    style_source = "'unsafe-inline'" if styles is None else " ".join(map(_hash, styles))
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {' '.join(map(_hash, scripts))}",
            f"style-src {style_source}",
            "img-src data: blob:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _hash(source: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"


def _raw(source: str, tag: str) -> Markup:
    lower = source.lower()
    if f"</{tag}" in lower or "<!--" in lower or "\r" in source or "\0" in source:
        raise ValueError(f"this text cannot stand inside a {tag} element: {source[:60]!r}")
    return Markup(source)


def _blob(id_: str, data: bytes) -> Markup:
    # The alphabet of base64 can neither end the element nor be read as an entity.
    text = base64.b64encode(zlib.compress(data, _LEVEL)).decode("ascii")
    return element("script", Markup(text), type="text/plain", id=id_)
