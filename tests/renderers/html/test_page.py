"""The shell of a page: whatever a trace says, nothing in it runs, loads or breaks out."""

from __future__ import annotations

import base64
import hashlib
import html
import re
import zlib
from html.parser import HTMLParser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.strategies import examples
from traceanalyzer.renderers.figures import safe
from traceanalyzer.renderers.html.escaping import Markup, element, joined, name, plotly_text
from traceanalyzer.renderers.html.page import html_page, static_text

_texts = st.one_of(st.text(max_size=30), st.text(st.sampled_from("<>&\"'/={}%$!-"), max_size=12))


class Document(HTMLParser):
    """What a browser makes of a page."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag != "wbr":
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        self.texts.append((self._open[-1] if self._open else "", data))

    def inside(self, tag: str) -> list[str]:
        return [text for of, text in self.texts if of == tag]

    @property
    def policy(self) -> dict[str, list[str]]:
        (content,) = [
            attributes["content"]
            for tag, attributes in self.tags
            if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
        ]
        assert content is not None
        parts = [part.split() for part in content.split("; ")]
        return {key: values for key, *values in parts}


def digest(source: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"


PAGE = html_page(
    "a page",
    [element("p", "text")],
    scripts=["let one = 1;\n", "let two = '<b>';"],
    styles=["p { color: red; }"],
    data_blobs={"numbers": bytes(range(256))},
    lazy_scripts={"late": "let late = 'é';"},
)


def test_the_policy_allows_what_the_page_was_made_with_and_nothing_else() -> None:
    document = Document(PAGE)
    assert document.policy["default-src"] == ["'none'"]
    assert document.policy["img-src"] == ["data:", "blob:"]
    running = [
        source
        for source, (_, attributes) in zip(
            document.inside("script"),
            [tag for tag in document.tags if tag[0] == "script"],
            strict=True,
        )
        if attributes.get("type") != "text/plain"
    ]
    late = "let late = 'é';"
    assert sorted(document.policy["script-src"]) == sorted(map(digest, [*running, late]))
    assert sorted(document.policy["style-src"]) == sorted(map(digest, document.inside("style")))
    assert any("two = '<b>'" in source for source in running), "sources are not escaped"


def test_styles_of_scripts_are_allowed_only_when_asked_for() -> None:
    page = html_page("a", [], inline_styles=True)
    assert Document(page).policy["style-src"] == ["'unsafe-inline'"]


def test_the_policy_stands_before_all_that_it_is_about() -> None:
    tags = [tag for tag, _ in Document(PAGE).tags]
    assert tags.index("meta") < min(tags.index("style"), tags.index("script"))


def test_blobs_hold_their_bytes() -> None:
    blobs = {
        attributes["id"]: text
        for (_, attributes), text in zip(
            [tag for tag in Document(PAGE).tags if tag[0] == "script"],
            Document(PAGE).inside("script"),
            strict=True,
        )
        if attributes.get("type") == "text/plain"
    }
    assert zlib.decompress(base64.b64decode(blobs["numbers"])) == bytes(range(256))
    assert zlib.decompress(base64.b64decode(blobs["late"])).decode() == "let late = 'é';"


def test_nothing_points_elsewhere() -> None:
    for tag, attributes in Document(PAGE).tags:
        assert tag not in ("link", "iframe", "object", "embed", "base", "form")
        assert not {"src", "href", "srcset", "style", "action"} & set(attributes)
    assert not re.search(r"https?://(?!www\.w3\.org/)", PAGE)


def test_line_ends_stay_as_they_are_hashed() -> None:
    assert "\r" not in PAGE
    for file_name in ("blobs.js", "theme.js", "page.css", "store.js", "timeline.css"):
        assert "\r" not in static_text(file_name)


@pytest.mark.parametrize(
    "source", ["</script>", "x = '</SCRIPT >'", "<!-- ", "a\r\nb", "a\0b"], ids=repr
)
def test_a_script_that_would_end_its_element_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match="cannot stand inside"):
        html_page("a", [], scripts=[source])


@examples(0.3)
@given(_texts)
@example("</title><script>alert(1)</script>")
@example("{data}")
@example("&lt;b&gt;")
@example("ns::f_g<int, (x)>::_")
@example("\ud800")
@example("a\u202eb\0")
def test_any_text_is_shown_and_does_nothing(text: str) -> None:
    page = html_page(text, [element("p", text, title=text), text, name(text)])
    page.encode()
    document, calm = Document(page), Document(html_page("a", [element("p", "a", title="a"), "b"]))
    ours = ("bdi", "wbr")
    assert [tag for tag, _ in document.tags if tag not in ours] == [tag for tag, _ in calm.tags]
    assert "".join(document.inside("title")) == safe(text)
    assert "".join(document.inside("p")) == safe(text)
    assert "".join(document.inside("bdi")) == safe(text)
    assert [attributes["title"] for _, attributes in document.tags if "title" in attributes] == [
        safe(text)
    ]


def test_elements_escape_once() -> None:
    inner = element("b", "1 < 2")
    assert element("p", inner, " & ", inner) == "<p><b>1 &lt; 2</b> &amp; <b>1 &lt; 2</b></p>"
    assert joined(Markup("<br>"), "<br>") == "<br>&lt;br&gt;"


def test_attributes_are_written_as_html_does() -> None:
    made = element("input", aria_label='"x"', class_="a", hidden=True, value=None, title=False)
    assert made == '<input aria-label="&quot;x&quot;" class="a" hidden>'


@examples(0.3)
@given(_texts)
@example("void f<b>(int)")
@example("%{x}<extra>$x$")
def test_plotly_draws_names_as_they_are(text: str) -> None:
    drawn = plotly_text(text, length=200)
    assert not re.search(r"[<>$]|%\{", drawn)
    back = html.unescape(drawn).replace("\u200b", "").replace("\uff04", "$")
    # A zero-width space is no printable character, so `safe` has left none of its own.
    assert back == safe(text).replace("\uff04", "$")


def test_plotly_names_are_cut_where_asked() -> None:
    assert plotly_text("<" * 10, length=4) == "&lt;&lt;&lt;…"
