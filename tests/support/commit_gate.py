"""A proxy before a REST catalog of Iceberg that lets something happen between a commit and the catalog, and may lose its answer.

    with commit_gate(uri_of_catalog) as gate:
        gate.before = lambda: others_commit()      # the next commit of a table waits for it

All requests pass as they are. A client has looked at the catalog for the last time before its commit is here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import urlsplit

TIMEOUT_S: Final = 60.0
_HOP: Final = frozenset({"connection", "content-length", "transfer-encoding", "keep-alive"})


class CommitGate:
    """`before`, `after`: called once each, around the next commit of rows or offsets. What `after` returns true for is not answered."""

    def __init__(self, uri: str) -> None:
        self.before: Callable[[], object] | None = None
        self.after: Callable[[], bool] | None = None
        self.commits = 0
        gate, target = self, urlsplit(uri).netloc

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = TIMEOUT_S

            def do_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                is_commit = self.command == "POST" and b'"bmq.offsets.' in body and b'"requirements"' in body
                after = gate._begin() if is_commit else None
                connection = HTTPConnection(target, timeout=TIMEOUT_S)
                try:
                    kept = {name: value for name, value in self.headers.items() if name.lower() not in _HOP}
                    connection.request(self.command, self.path, body or None, kept)
                    answer = connection.getresponse()
                    content = answer.read()
                finally:
                    connection.close()
                if after is not None and after():
                    self.close_connection = True
                    return
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in _HOP:
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            do_GET = do_POST = do_HEAD = do_DELETE = do_any  # noqa: N815

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.uri = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, name="commit-gate", daemon=True)

    def between(self, happen: Callable[[], object]) -> None:
        """Let it happen once within the next commit, behind the client's last look at the catalog."""
        self.before = happen

    def _begin(self) -> Callable[[], bool] | None:
        self.commits += 1
        before, self.before = self.before, None
        after, self.after = self.after, None
        if before is not None:
            before()
        return after

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def commit_gate(uri: str) -> Iterator[CommitGate]:
    gate = CommitGate(uri)
    gate.start()
    try:
        yield gate
    finally:
        gate.close()
