"""A proxy before Hive's metastore that lets something happen around a commit of Iceberg's, and may lose its answer.

    with metastore_gate(uri_of_metastore) as gate:
        gate.between(lambda: others_commit())      # after the client's last look at the table, before it takes Hive's lock

All calls pass as they are, each whole.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Final
from urllib.parse import urlsplit

from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TType

TIMEOUT_S: Final = 120.0
_LOOK: Final = "get_table"
_COMMIT: Final = "alter_table"


class Received:
    """What a connection brings, message by message: a transport of Thrift's that keeps the bytes."""

    def __init__(self, connection: socket.socket) -> None:
        self._file = connection.makefile("rb")
        self._taken = bytearray()

    def readAll(self, size: int) -> bytes:  # noqa: N802  # as Thrift calls it
        data = self._file.read(size)
        if len(data) < size:
            raise EOFError
        self._taken += data
        return data

    def message(self) -> tuple[str, bytes] | None:
        """The name of the next call and all its bytes; None at the end."""
        self._taken.clear()
        protocol = TBinaryProtocol(self)
        try:
            name, _, _ = protocol.readMessageBegin()
            protocol.skip(TType.STRUCT)
        except EOFError:
            return None
        return str(name), bytes(self._taken)

    def close(self) -> None:
        self._file.close()


class MetastoreGate:
    """`before`, `after`: called once each, around the next commit of offsets. What `after` returns true for is not answered."""

    def __init__(self, uri: str) -> None:
        self.before: Callable[[], object] | None = None
        self.after: Callable[[], bool] | None = None
        self._looked: Callable[[], object] | None = None
        gate, target = self, urlsplit(uri)

        class Handler(BaseRequestHandler):
            def handle(self) -> None:
                # A job that was killed, and what a check raises to lose a call, end a connection.
                with (
                    suppress(OSError),
                    socket.create_connection((target.hostname, target.port), TIMEOUT_S) as metastore,
                ):
                    asked, answered = Received(self.request), Received(metastore)
                    try:
                        while (call := asked.message()) is not None:
                            after = gate._begin(*call)
                            metastore.sendall(call[1])
                            answer = answered.message()
                            if answer is None or (after is not None and after()):
                                return
                            self.request.sendall(answer[1])
                    finally:
                        asked.close()
                        answered.close()

        class GateServer(ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True

        self._server = GateServer(("127.0.0.1", 0), Handler)
        self.uri = f"thrift://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, name="metastore-gate", daemon=True)

    def between(self, happen: Callable[[], object]) -> None:
        """Let it happen once within the next commit of this session: Iceberg has looked for the last time then, and has no lock."""
        self._looked = happen

    def _begin(self, name: str, call: bytes) -> Callable[[], object] | None:
        """What happens once the metastore has answered."""
        if name == _LOOK:
            looked, self._looked = self._looked, None
            return None if looked is None else lambda: (looked(), False)[1]
        if not (name.startswith(_COMMIT) and b"bmq.offsets." in call):
            return None
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
def metastore_gate(uri: str) -> Iterator[MetastoreGate]:
    gate = MetastoreGate(uri)
    gate.start()
    try:
        yield gate
    finally:
        gate.close()
