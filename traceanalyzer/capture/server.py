"""Asking a running engine over HTTP: short requests that time out and never go through a proxy."""

from __future__ import annotations

import json
from dataclasses import dataclass
from http.client import HTTPException
from typing import Final
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, Request, build_opener

from traceanalyzer.errors import InputError

_OPENER: Final = build_opener(ProxyHandler({}))
_MOST_BYTES: Final = 8 << 20
_MOST_QUOTED: Final = 200
_STARTING: Final = 503


class ServerError(Exception):
    """A request failed; `status` is the HTTP status, None when there was no answer."""

    def __init__(self, what: str, status: int | None = None) -> None:
        super().__init__(what)
        self.status = status


@dataclass(frozen=True, slots=True)
class Server:
    """An engine's HTTP server: `http://HOST:PORT`, without a path."""

    base: str

    @classmethod
    def at(cls, url: str, option: str) -> Server:
        """The server that any of its addresses (`/generate`, `/metrics`, ...) is of.

        Args:
            url: The address as the user gave it.
            option: The option it was given with, for the error.

        Raises:
            InputError: It is no http address.
        """
        try:
            parts = urlsplit(url)
            valid = parts.scheme in ("http", "https") and bool(parts.hostname)
            _ = parts.port  # a wrong one raises when it is read
        except ValueError:
            valid = False
        if not valid:
            raise InputError(
                f"{url!r} is no http address",
                where=option,
                next_step="Give the server's address, such as http://127.0.0.1:30000.",
            )
        return cls(f"{parts.scheme}://{parts.netloc}")

    def get(self, path: str, timeout_s: float) -> str:
        """What a page says.

        Raises:
            ServerError: No answer in time, or another status than 200.
        """
        return self._answer(Request(self.base + path), timeout_s)  # noqa: S310 - http by `at`

    def post(self, path: str, body: dict[str, object], timeout_s: float) -> str:
        """The answer to a JSON body.

        Raises:
            ServerError: No answer in time, or another status than 200.
        """
        headers = {"Content-Type": "application/json"}
        data = json.dumps(body).encode()
        request = Request(self.base + path, data, headers, method="POST")  # noqa: S310 - as above
        return self._answer(request, timeout_s)

    def is_up(self, timeout_s: float) -> bool:
        """Whether it answers and does not say that it is still starting (503)."""
        try:
            self.get("/health", timeout_s)
        except ServerError as error:
            return error.status not in (None, _STARTING)
        return True

    def _answer(self, request: Request, timeout_s: float) -> str:
        where = request.full_url
        try:
            with _OPENER.open(request, timeout=timeout_s) as answer:
                return str(answer.read(_MOST_BYTES).decode(errors="replace"))
        except HTTPError as error:
            with error:
                said = error.read(_MOST_QUOTED).decode(errors="replace").strip()
            text = f"{where} answered {error.code} {error.reason}"
            raise ServerError(f"{text}: {said}" if said else text, error.code) from None
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise ServerError(f"{where} did not answer: {reason}") from None
