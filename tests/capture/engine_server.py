"""A stand-in for an engine's HTTP server: health, metrics and the profile endpoint."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass
class Engine:
    """What it answers, and what it was asked.

    Attributes:
        url: Its address.
        pages: Status and text by path; a path that is not there is answered with 404.
        posted: Path and JSON body of each POST, in order.
        program: A file that the recorded program writes; until then the engine is not up.
    """

    url: str = ""
    pages: dict[str, tuple[int, str]] = field(default_factory=lambda: {"/health": (200, "")})
    posted: list[tuple[str, dict[str, object]]] = field(default_factory=list)
    program: Path | None = None


@contextmanager
def serving(engine: Engine) -> Iterator[Engine]:
    """Run it on a free port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, text = engine.pages.get(self.path, (404, "not found"))
            if engine.program is not None and not engine.program.exists():
                status, text = 503, "not up"
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            engine.posted.append((self.path, json.loads(body)))
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        engine.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield engine
        finally:
            server.shutdown()
            thread.join()
