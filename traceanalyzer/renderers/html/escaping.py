"""Other people's text in a page: the one place where it is made harmless.

Kernel, range and file names are whatever somebody wrote. A `str` is such text until `escaped` has
made it `Markup`; `element` escapes every child and attribute that is not.
"""

from __future__ import annotations

import html
import re
from typing import Final

from traceanalyzer.renderers.figures import safe

_VOID: Final = frozenset({"br", "col", "hr", "img", "input", "meta", "wbr"})
_PLOTLY_LENGTH: Final = 120
_WORDS: Final = re.compile(r".+?(?:::|[_<,(]|\Z)", re.DOTALL)


class Markup(str):
    """HTML that may stand in a page as it is."""

    __slots__ = ()


def escaped(text: str) -> Markup:
    """Text as HTML that shows it literally; what cannot be printed becomes U+FFFD."""
    return text if isinstance(text, Markup) else Markup(html.escape(safe(text), quote=True))


def joined(*parts: str) -> Markup:
    """Parts one after another, each escaped unless it is Markup."""
    return Markup("".join(escaped(part) for part in parts))


def element(tag: str, *children: str, **attributes: str | bool | None) -> Markup:
    """One HTML element.

    Args:
        tag: Its name.
        children: Content, escaped unless it is Markup.
        attributes: `aria_label="x"` gives aria-label="x", `class_="x"` gives class="x"; True
            gives the bare name, False and None nothing.
    """
    named = "".join(_attribute(name, value) for name, value in attributes.items())
    start = f"<{tag}{named}>"
    return Markup(start if tag in _VOID else f"{start}{joined(*children)}</{tag}>")


def _attribute(name: str, value: str | bool | None) -> str:
    if value is None or value is False:
        return ""
    plain = name.rstrip("_").replace("_", "-")
    return f" {plain}" if value is True else f' {plain}="{escaped(value)}"'


def name(text: str) -> Markup:
    """A name from a trace, kept apart from the writing direction of the text around it.

    Where it has to be broken, it breaks behind `::`, `_` and the like before it breaks a word.
    """
    pieces = _WORDS.findall(text) or [text]
    return element("bdi", Markup(element("wbr").join(map(escaped, pieces))))


def plotly_text(text: str, *, length: int = _PLOTLY_LENGTH) -> str:
    """Text for plotly, which reads some HTML, `%{...}` and `$...$` in every text it draws.

    Unescaped, `void f<b>(int)` would be drawn as `void f(int)`. Names stand in `text` or
    `customdata`, never inside a hover template.
    """
    shown = safe(text)
    if len(shown) > length:
        shown = shown[: length - 1] + "…"
    for char, harmless in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        shown = shown.replace(char, harmless)
    return shown.replace("%{", "%\u200b{").replace("$", "\uff04")
