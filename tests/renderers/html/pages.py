"""What a page holds, read as a browser would: elements, texts, tables, scripts, blobs."""

from __future__ import annotations

import base64
import json
import re
import zlib
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

_VOID = {"br", "col", "hr", "img", "input", "meta", "wbr"}
_RAW = {"script", "style"}


@dataclass
class Element:
    """One element."""

    tag: str
    attributes: dict[str, str | None]
    children: list[Element | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(
            each if isinstance(each, str) else each.text
            for each in self.children
            if isinstance(each, str) or each.tag not in _RAW
        )

    @property
    def raw(self) -> str:
        return "".join(each for each in self.children if isinstance(each, str))

    def all(self, tag: str) -> list[Element]:
        found = [self] if self.tag == tag else []
        for each in self.children:
            if isinstance(each, Element):
                found += each.all(tag)
        return found

    def skeleton(self) -> list[Any]:
        """Tags and names of attributes, without any text and where it may be broken."""
        elements = [each for each in self.children if isinstance(each, Element)]
        inside = [each.skeleton() for each in elements if each.tag != "wbr"]
        return [self.tag, sorted(self.attributes), inside]


class Page(HTMLParser):
    """A parsed page; elements that are closed wrongly fail."""

    def __init__(self, data: bytes) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("", {})
        self._open = [self.root]
        self.feed(data.decode("utf-8"))
        self.close()
        assert self._open == [self.root], "every element is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = Element(tag, dict(attrs))
        assert len(found.attributes) == len(attrs), "no attribute twice"
        self._open[-1].children.append(found)
        if tag not in _VOID:
            self._open.append(found)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop().tag == tag

    def handle_data(self, data: str) -> None:
        self._open[-1].children.append(data)

    def all(self, tag: str) -> list[Element]:
        return self.root.all(tag)

    def by_id(self, id_: str) -> Element:
        (found,) = (each for each in self._everything() if each.attributes.get("id") == id_)
        return found

    def _everything(self, of: Element | None = None) -> list[Element]:
        found = []
        for each in (of or self.root).children:
            if isinstance(each, Element):
                found += [each, *self._everything(each)]
        return found

    def attributes(self) -> list[tuple[str, str]]:
        return [
            (name, value or "")
            for each in self._everything()
            for name, value in each.attributes.items()
        ]

    def policy(self) -> dict[str, list[str]]:
        (meta,) = (each for each in self.all("meta") if "http-equiv" in each.attributes)
        assert meta.attributes["http-equiv"] == "Content-Security-Policy"
        rules = str(meta.attributes["content"]).split("; ")
        return {name: values for name, *values in (rule.split() for rule in rules)}

    def blob(self, id_: str) -> bytes:
        return zlib.decompress(base64.b64decode(self.by_id(id_).raw))

    def figures(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.blob("figures"))
        return found

    def rows(self, element: Element) -> list[list[str]]:
        """The cells of the body of the first table in an element."""
        body = element.all("tbody")[0]
        return [[cell.text for cell in row.all("td")] for row in body.all("tr")]


def outside_blobs(data: bytes) -> str:
    """The page without what it carries deflated."""
    return re.sub(r'(<script type="text/plain"[^>]*>)[^<]*', r"\1", data.decode("utf-8"))
