"""The interactive timeline as one file: lanes, cycle strip, and nothing that needs a network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.renderers.figures import count, duration
from traceanalyzer.renderers.html.escaping import Markup, element, joined
from traceanalyzer.renderers.html.lane_pack import packed_lanes, phase_colours
from traceanalyzer.renderers.html.page import html_page, static_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.analyses.timeline_lanes.model import TimelineLanes

_SCRIPTS: Final = (
    "format.js",
    "store.js",
    "raster.js",
    "palette.js",
    "totals.js",
    "search.js",
    "flows.js",
    "layout.js",
    "cycles.js",
    "timeline.js",
    "lanes.js",
    "overlay.js",
    "minimap.js",
    "details.js",
    "pointer.js",
    "keyboard.js",
    "link.js",
    "cycle_strip.js",
    "start.js",
)

_KEYS: Final = (
    ("W S, wheel", "zoom at the pointer"),
    ("A D, drag", "pan"),
    ("{ }", "previous, next cycle"),
    ("click, arrows", "choose a span"),
    ("F, double click", "zoom to it"),
    ("Enter", "go to its launch, or first op"),
    ("shift + drag, R", "region: exact totals"),
    ("/, then N", "search, next hit (shift: back)"),
    ("M", "set a mark (shift: none)"),
    ("Backspace", "back to the view before"),
    ("0", "whole trace"),
    ("P, click a title", "pin the lane"),
    ("C, click a rank", "collapse the rank"),
    ("alt + wheel", "scroll the lanes (also over titles)"),
    ("ctrl + wheel, + -", "time scale of the cycle strip"),
    ("Escape", "choose nothing"),
    ("T", "dark or light"),
)


def timeline_page(lanes: TimelineLanes, sources: Sequence[str]) -> str:
    """The page of a timeline.

    Args:
        lanes: What it draws.
        sources: Names of the files it was read from.

    Raises:
        InputError: A time or id is too large for a page to show exactly.
    """
    title = sources[0] + (f" and {len(sources) - 1} more" if len(sources) > 1 else "")
    notes = [element("p", note, class_="warning", role="note") for note in lanes.notes]
    return html_page(
        f"{title} - timeline",
        [_header(lanes, title), *notes, _legend(lanes), _work(), _strip(), _without_scripts()],
        scripts=[static_text(name) for name in _SCRIPTS],
        styles=[static_text("timeline.css")],
        data_blobs={"lanes": packed_lanes(lanes)},
    )


def _header(lanes: TimelineLanes, title: str) -> Markup:
    facts = f"{count(lanes.spans.size)} spans, {duration(lanes.end_ns - lanes.origin_ns)}"
    keys = (element("div", element("dt", key), element("dd", text)) for key, text in _KEYS)
    return element(
        "header",
        element("h1", element("bdi", title)),
        element("span", facts, class_="muted"),
        element("span", class_="grow"),
        element(
            "input",
            id="search",
            type="search",
            placeholder="search names ( / )",
            aria_label="search names",
        ),
        element("span", id="hits", role="status", class_="muted"),
        element("button", "dark / light", id="theme", type="button"),
        element(
            "details", element("summary", "keys"), element("dl", *keys), id="help", class_="help"
        ),
        class_="bar",
    )


def _legend(lanes: TimelineLanes) -> Markup:
    """Phases that occur, with their colours."""
    used = set(lanes.spans.phase.tolist())
    colours = phase_colours(lanes.phases)
    entries = [
        element("li", _swatch(colours[place]), phase)
        for place, phase in enumerate(lanes.phases)
        if place in used
    ]
    return element("ul", *entries, class_="legend", aria_label="colours of the phases")


def _swatch(colour: str) -> Markup:
    square = element("rect", width="11", height="11", fill=colour)
    return element("svg", square, viewBox="0 0 11 11", aria_hidden="true")


def _work() -> Markup:
    lanes = element(
        "section",
        element(
            "div", element("canvas", id="minimap"), element("div", id="viewbox"), class_="overview"
        ),
        element(
            "div",
            element(
                "canvas",
                id="timeline",
                tabindex="0",
                role="application",
                aria_label="Timeline lanes. Arrow keys choose spans, which are read out; W, A, S "
                "and D zoom and pan; question mark lists all keys.",
            ),
            element("div", id="tip", role="tooltip", hidden=True),
            class_="stage",
        ),
        class_="lanes",
        aria_label="lanes",
    )
    side = element(
        "aside",
        element("section", id="span", aria_live="polite"),
        element("section", id="totals", aria_live="polite"),
        element("section", id="marks"),
        element("section", id="lists"),
        class_="side",
        aria_label="details",
        tabindex="0",
    )
    return element("main", lanes, side, class_="work")


def _strip() -> Markup:
    controls = element(
        "div",
        element("h2", "Cycles, aligned at their start"),
        _choice("strip-rank", "rank", ()),
        _choice("strip-order", "order", (("time", "by time"), ("slowest", "slowest first"))),
        _choice(
            "strip-only",
            "show",
            (
                ("all", "all cycles"),
                ("kept", "kept ones"),
                ("slow", "slow ones"),
                ("rejected", "every draft rejected"),
            ),
        ),
        _choice("strip-density", "rows", (("rows", "with text"), ("compact", "compact"))),
        element("span", id="strip-summary", role="status", class_="muted"),
        class_="controls",
    )
    scroller = element(
        "div",
        element("div", id="strip-spacer"),
        element(
            "canvas",
            id="strip-canvas",
            tabindex="0",
            role="application",
            aria_label="Cycle strip. Up and down choose a cycle, Enter opens it above; plus, "
            "minus, left and right change the time scale.",
        ),
        id="strip-scroller",
    )
    return element("section", controls, scroller, id="strip", class_="strip", hidden=True)


def _choice(id_: str, title: str, options: Sequence[tuple[str, str]]) -> Markup:
    entries = (element("option", text, value=value) for value, text in options)
    return element("label", f"{title} ", element("select", *entries, id=id_))


def _without_scripts() -> Markup:
    return joined(
        element("noscript", element("p", "This page draws with JavaScript.", class_="warning"))
    )
