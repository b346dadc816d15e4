"""The process that cleans logs: reads plans from standard input, and writes events to standard output. It ends when its input
ends.

It reads the store and never writes it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import sys
from typing import BinaryIO, Final

from bmq.compaction.cleaning import CleaningHere
from bmq.compaction.frames import FRAME_BYTES_MAX, HEAD, Failure, decode_plan, encode_event
from bmq.log.compaction import Uncleanable
from bmq.log.store import SegmentStore
from bmq.protocol.errors import BmqError
from bmq.server.compaction_settings import CompactionSettings
from bmq.server.logs import show_logs
from bmq.server.stores import open_store_beside

SEED_BYTES: Final = 16


class Worker:
    """`out`: receives the events. Writes block: without a reader there is nothing else to do."""

    def __init__(self, settings: CompactionSettings, out: BinaryIO) -> None:
        self._settings = settings
        self._out = out
        self._store: SegmentStore | None = None

    async def serve(self, source: asyncio.StreamReader, ended: asyncio.Event) -> None:
        """Carry out one plan after the other until the input ends. Then a plan under way is abandoned."""
        watch = asyncio.ensure_future(ended.wait())
        try:
            while (plan := await _frame(source)) is not None:
                cleaning = asyncio.ensure_future(self._clean(plan))
                await asyncio.wait((cleaning, watch), return_when=asyncio.FIRST_COMPLETED)
                if not cleaning.done():
                    cleaning.cancel()
                    return
                await cleaning
        finally:
            if self._store is not None:
                await self._store.close()

    async def _clean(self, plan: bytes) -> None:
        try:
            if self._store is None:
                self._store = await open_store_beside(self._settings, random.Random())
            async for event in CleaningHere(self._store, lambda: os.urandom(SEED_BYTES)).clean(decode_plan(plan)):
                self._out.writelines(encode_event(event))
        except Uncleanable as error:
            self._out.writelines(encode_event(Failure(str(error), is_final=True)))
        except BmqError as error:
            self._out.writelines(encode_event(Failure(str(error), is_final=False)))
        self._out.flush()


async def _frame(source: asyncio.StreamReader) -> bytes | None:
    """The next frame; None at the end of the input. Raises ValueError."""
    try:
        _, length = HEAD.unpack(await source.readexactly(HEAD.size))
        if length > FRAME_BYTES_MAX:
            raise ValueError(f"a frame of {length} bytes")
        return await source.readexactly(length)
    except asyncio.IncompleteReadError:
        return None


class _Input(asyncio.StreamReaderProtocol):
    """Standard input. `ended` is set as soon as it ends, also while nothing reads it."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        super().__init__(reader)
        self.ended = asyncio.Event()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()
        super().connection_lost(exc)

    def eof_received(self) -> bool | None:
        self.ended.set()
        return super().eof_received()


async def run() -> None:
    """Serve until standard input ends. Raises ValueError for a frame that cannot be decoded, BrokenPipeError."""
    source = asyncio.StreamReader()
    protocol = _Input(source)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin.buffer)
    body = await _frame(source)
    if body is not None:
        settings = CompactionSettings.decode(body)
        least = logging.getLevelNamesMapping()[settings.log_level.upper()]
        show_logs(lambda _, level: level >= least, settings.log_level, settings.log_format)
        await Worker(settings, sys.stdout.buffer).serve(source, protocol.ended)
