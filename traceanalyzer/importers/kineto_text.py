"""The text of a Kineto trace: plain or gzip, where its event list starts, where events end.

Nothing here decodes an event. Borders are found by following strings and brackets, so they hold
for any layout of the text, and for text that breaks off anywhere.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from traceanalyzer.errors import InputError
from traceanalyzer.importers.expansion import UNPACKS_TO_TOO_MUCH, is_too_much

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

GZIP_MAGIC: Final = b"\x1f\x8b"
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_WHITESPACE: Final = b" \t\r\n"
_COMPRESSED_STEP: Final = 1 << 16

# One match a bracket: strings are stepped over whole. A lone quote matches only where a string
# has no end, and the end of the text always matches, so a search never starts inside a string.
_STRING: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_BRACKET: Final = re.compile(rb'(?:[^"{}\[\]]++|' + _STRING + rb')*+([{}\[\]"]|\Z)', re.DOTALL)
_EVENTS_KEY: Final = re.compile(rb'(?:\A|[,\s])("traceEvents")\s*:\s*\Z')
_BARE_EVENT: Final = re.compile(rb'\[\s*\{.*"ph"\s*:\s*"', re.DOTALL)


class TraceText:
    """The decompressed bytes of a trace file, without a byte order mark.

    A gzip stream that breaks off, is damaged, or unpacks to far more than a trace does, ends
    there: what came before is handed out and `damage` says so.

    Args:
        path: A plain or gzip file; gzip is recognised by its content.

    Raises:
        InputError: The file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise InputError(f"the file cannot be read: {error.strerror}", where=path) from None
        self.path = path
        self._size = max(path.stat().st_size, 1)
        head = self._file.read(len(GZIP_MAGIC))
        self._file.seek(0)
        self._is_gzip = head == GZIP_MAGIC
        self._inflater = zlib.decompressobj(wbits=31) if self._is_gzip else None
        self._compressed = b""
        self._inflated_bytes = 0
        self._at_start = True
        self._ahead = b""
        self.damage: str | None = None

    def __enter__(self) -> TraceText:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()

    @property
    def done_share(self) -> float:
        """Share of the file, as it lies on the disk, that has been read."""
        if self._is_gzip and self._inflater is None:
            return 1.0
        return min(self._file.tell() / self._size, 1.0)

    def read(self, count: int) -> bytes:
        """The next bytes; fewer than `count` only at the end of the text."""
        if self._at_start:
            self._at_start = False
            self._ahead = self._stored(len(_BYTE_ORDER_MARK)).removeprefix(_BYTE_ORDER_MARK)
        ahead, self._ahead = self._ahead[:count], self._ahead[count:]
        return ahead + self._stored(count - len(ahead))

    def _stored(self, count: int) -> bytes:
        return self._inflated(count) if self._is_gzip else self._file.read(count)

    def _inflated(self, count: int) -> bytes:
        parts = []
        while count > 0 and self._inflater is not None:
            at_end = not self._compressed and not self._refilled()
            try:
                part = self._inflater.decompress(self._compressed, count)
            except zlib.error as error:
                self._stop(f"the compressed data is damaged ({error})")
                break
            self._compressed = self._inflater.unconsumed_tail
            if self._inflater.eof:
                self._next_member()
            elif at_end and not part:
                self._stop("the compressed data breaks off")
            parts.append(part)
            count -= len(part)
            self._inflated_bytes += len(part)
            if is_too_much(self._file.tell() - len(self._compressed), self._inflated_bytes):
                self._stop(UNPACKS_TO_TOO_MUCH)
        return b"".join(parts)

    def _refilled(self) -> bool:
        self._compressed = self._file.read(_COMPRESSED_STEP)
        return bool(self._compressed)

    def _next_member(self) -> None:
        """A gzip file may hold several streams, one after another (RFC 1952, section 2.2)."""
        assert self._inflater is not None
        self._compressed = self._inflater.unused_data
        if len(self._compressed) < len(GZIP_MAGIC):
            self._compressed += self._file.read(_COMPRESSED_STEP)
        self._inflater = (
            zlib.decompressobj(wbits=31) if self._compressed.startswith(GZIP_MAGIC) else None
        )

    def _stop(self, damage: str) -> None:
        self.damage = damage
        self._inflater = None


@dataclass(frozen=True, slots=True)
class ArrayScan:
    """The events of a stretch of text that starts inside the event list, between two events.

    Args:
        events: Start and end offset of each whole object directly in the list.
        closing: Offset of the bracket that ends the list, None when it is not in the text.
    """

    events: list[tuple[int, int]]
    closing: int | None


def scan_array(text: bytes) -> ArrayScan:
    """Find the events, whatever the layout and whatever their strings hold."""
    events: list[tuple[int, int]] = []
    depth, start = 1, 0
    for match in _BRACKET.finditer(text):
        bracket = match[1]
        if bracket in (b"{", b"["):
            if depth == 1:
                start = match.end() - 1
            depth += 1
        elif bracket in (b"}", b"]"):
            depth -= 1
            if depth == 0:
                return ArrayScan(events, match.end() - 1)
            if depth == 1 and bracket == b"}":
                events.append((start, match.end()))
        else:
            break
    return ArrayScan(events, None)


@dataclass(frozen=True, slots=True)
class Opening:
    """Where the event list begins.

    Args:
        metadata: Text of the top-level object up to the list's key; None for a bare array.
        first: Offset behind the bracket that opens the list.
    """

    metadata: bytes | None
    first: int


def find_opening(text: bytes) -> Opening | None:
    """Find the event list: the text's own array, or `traceEvents` of its top-level object.

    Returns:
        None when the text, as far as it goes, has no such list.
    """
    start = len(text) - len(text.lstrip(_WHITESPACE))
    if text[start : start + 1] == b"[":
        return Opening(None, start + 1)
    if text[start : start + 1] != b"{":
        return None
    depth, previous = 1, start + 1
    for match in _BRACKET.finditer(text, previous):
        bracket = match[1]
        if bracket in (b"{", b"["):
            if depth == 1 and bracket == b"[":
                key = _EVENTS_KEY.search(text[previous : match.end() - 1])
                if key is not None:
                    return Opening(text[: previous + key.start(1)], match.end())
            depth += 1
        elif bracket in (b"}", b"]"):
            depth -= 1
        if depth == 0 or bracket in (b'"', b""):
            return None
        previous = match.end()
    return None


def may_open(head: bytes) -> bool:
    """Whether text that begins so can be a trace: an object, or an array of phased events."""
    text = head.removeprefix(_BYTE_ORDER_MARK).lstrip(_WHITESPACE)
    return text.startswith(b"{") or _BARE_EVENT.match(text) is not None


def inflated_head(head: bytes) -> bytes:
    """The text at the start of a file, given the file's first bytes."""
    if not head.startswith(GZIP_MAGIC):
        return head
    try:
        return zlib.decompressobj(wbits=31).decompress(head, _COMPRESSED_STEP)
    except zlib.error:
        return b""


_ESCAPE: Final = re.compile(
    rb'\\(?:(["\\/bfnrt]|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}'
    rb"|u(?![dD][89a-fA-F])[0-9a-fA-F]{4})|(u[dD][89a-fA-F][0-9a-fA-F]{2})|(.))",
    re.DOTALL,
)
# A string without an end runs to the end of the text, lest each quote in it be tried in turn.
_STRING_OR_NOT_A_NUMBER: Final = re.compile(
    rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)' + rb"|(?<![\w.])-?(?:nan|inf(?:inity)?)(?![\w.])",
    re.DOTALL | re.IGNORECASE,
)


def repaired(text: bytes) -> tuple[bytes, int]:
    """Mend what recorders are known to write against the JSON standard.

    Invalid UTF-8 and lone surrogates become U+FFFD, backslashes that escape nothing stand for
    themselves, and nan or inf (Kineto issue 105: the bandwidth of a copy of 0 ns) become null.

    Returns:
        The text and the number of places mended.
    """
    mended = 0

    def escape(match: re.Match[bytes]) -> bytes:
        nonlocal mended
        if match[1] is not None:
            return match[0]
        mended += 1
        return rb"\ufffd" if match[2] is not None else b"\\" + match[0]

    def token(match: re.Match[bytes]) -> bytes:
        nonlocal mended
        found = match[0]
        if found.startswith(b'"'):
            return _ESCAPE.sub(escape, found) if b"\\" in found else found
        mended += 1
        return b"null"

    try:
        text.decode()
    except UnicodeDecodeError:
        mended -= text.count("\ufffd".encode())
        text = text.decode(errors="replace").encode()
        mended += text.count("\ufffd".encode())
    return _STRING_OR_NOT_A_NUMBER.sub(token, text), mended
