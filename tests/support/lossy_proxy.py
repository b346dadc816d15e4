"""A TCP proxy that can lose a server's answer, leave its clients standing, or be cut off for a while."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from bmq.hdfs.config import Address

READ_BYTES = 64 * 1024


class LossyProxy:
    """`address`: where clients connect. `lost`: set once the answer to be lost has come, and is gone for good."""

    def __init__(self, target: Address) -> None:
        self.target = target
        self.address = Address("127.0.0.1", 0)
        self.lost = asyncio.Event()
        self.connection_count = 0
        self._is_losing = False
        self._is_holding = False
        self.is_cut = False
        self._released = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.address = Address("127.0.0.1", self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def lose_next_answer(self) -> None:
        """The next bytes from the server are thrown away and the connection is dropped with them."""
        self._is_losing = True
        self.lost.clear()

    def hold_next_connection(self) -> None:
        """Accept it, and forward nothing before `release`."""
        self._is_holding = True
        self._released.clear()

    def release(self) -> None:
        self._released.set()

    def cut(self) -> None:
        """Drop all connections, and every new one until `mend`."""
        self.is_cut = True
        for task in tuple(self._tasks):
            task.cancel()

    def mend(self) -> None:
        self.is_cut = False

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # However it ends, even before it began.
        task.add_done_callback(lambda _: writer.transport.abort())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connection_count += 1
        try:
            if self._is_holding:
                self._is_holding = False
                await self._released.wait()
            if self.is_cut:
                raise ConnectionAbortedError
            server_reader, server_writer = await asyncio.open_connection(*self.target)
        except OSError:
            return
        ends = [
            asyncio.create_task(self._forward(reader, server_writer, is_answer=False)),
            asyncio.create_task(self._forward(server_reader, writer, is_answer=True)),
        ]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            server_writer.transport.abort()  # first, for this may be cancelled while it waits
            for end in ends:
                end.cancel()
            await asyncio.gather(*ends, return_exceptions=True)

    async def _forward(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, is_answer: bool) -> None:
        while data := await source.read(READ_BYTES):
            if is_answer and self._is_losing:
                self._is_losing = False
                self.lost.set()
                return
            sink.write(data)
            await sink.drain()
