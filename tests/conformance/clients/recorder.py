"""A TCP proxy that notes which API in which version each request through it is, and forwards all of it as it came."""

from __future__ import annotations

import asyncio
import struct
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Self

READ_BYTES: Final = 256 * 1024
_HEADER: Final = struct.Struct(">ihh")  # the frame's length, the API's key, its version

Requests = Counter[tuple[int, int]]
"""How often each API (its key) was asked for in each version."""


class RequestHeaders:
    """The headers in one connection's bytes, however they are cut. Pure; of a request no more is looked at."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._skipped_bytes = 0

    def feed(self, data: bytes) -> list[tuple[int, int]]:
        """API key and version of each request whose header ends in `data`."""
        found = []
        position = 0
        while position < len(data):
            if self._skipped_bytes:
                step = min(self._skipped_bytes, len(data) - position)
                self._skipped_bytes -= step
            else:
                step = min(_HEADER.size - len(self._head), len(data) - position)
                self._head += data[position : position + step]
                if len(self._head) == _HEADER.size:
                    length, api_key, version = _HEADER.unpack(self._head)
                    found.append((api_key, version))
                    self._skipped_bytes = max(length + 4 - _HEADER.size, 0)
                    self._head.clear()
            position += step
        return found


class RecordingProxy:
    """Listens on `port` of 127.0.0.1, in a thread of its own, from `with` to its end; forwards to `target_port`."""

    def __init__(self) -> None:
        self.port = 0
        self.target_port = 0
        self._requests: Requests = Counter()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="recording-proxy")
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        self.port = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @contextmanager
    def recording(self) -> Iterator[Requests]:
        """The requests of the connections that are opened meanwhile, those of later ones not."""
        self._requests = Counter()
        try:
            yield self._requests
        finally:
            self._requests = Counter()

    async def _listen(self) -> int:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _close(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = self._loop.create_task(self._serve(reader, writer, self._requests))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # However it ends, even before it began.
        task.add_done_callback(lambda _: writer.transport.abort())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, requests: Requests) -> None:
        try:
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self.target_port)
        except OSError:
            return
        ends = [
            asyncio.create_task(_forward(reader, server_writer, requests)),
            asyncio.create_task(_forward(server_reader, writer, None)),
        ]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            server_writer.transport.abort()  # first, for this may be cancelled while it waits
            for end in ends:
                end.cancel()
            await asyncio.gather(*ends, return_exceptions=True)


async def _forward(source: asyncio.StreamReader, sink: asyncio.StreamWriter, requests: Requests | None) -> None:
    """`requests`: where the requests are noted; None for a server's answers."""
    headers = RequestHeaders()
    while data := await source.read(READ_BYTES):
        if requests is not None:
            requests.update(headers.feed(data))
        sink.write(data)
        await sink.drain()
