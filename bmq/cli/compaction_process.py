"""Has logs cleaned by a process of its own, begun when there is something to clean and ended when there was nothing for
a while: what it holds, memory and compiled loops, is worth keeping from one log to the next, and no longer."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Final

from bmq.cli.settings import Settings
from bmq.compaction.frames import FRAME_BYTES_MAX, HEAD, Failure, decode_event, encode_plan
from bmq.log.compaction import CleaningEnd, CleaningEvent, CleaningInterrupted, CleaningPlan, Uncleanable
from bmq.log.store import CorruptFile

IDLE_MAX_S: Final = 30.0
PIPE_BYTES_MAX: Final = 2 * 1024 * 1024


class CompactionProcess:
    """Implements bmq.log.compaction.LogCleaning, for one cleaning at a time. `settings`: those that name the store."""

    def __init__(self, settings: Settings, *, idle_max_s: float = IDLE_MAX_S) -> None:
        self._settings = settings
        self._idle_max_s = idle_max_s
        self._process: asyncio.subprocess.Process | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._ending: set[asyncio.Task[None]] = set()

    async def clean(self, plan: CleaningPlan) -> AsyncGenerator[CleaningEvent]:
        """As LogCleaning.clean."""
        if self._idle is not None:
            self._idle.cancel()
        process = await self._begun()
        is_done = False
        try:
            assert process.stdin is not None and process.stdout is not None
            self._send(process.stdin, encode_plan(plan))
            while True:
                event = await self._event(process.stdout)
                if event is None:
                    raise CleaningInterrupted("the process that cleans has ended")
                if isinstance(event, Failure):
                    is_done = True
                    raise (Uncleanable if event.is_final else CleaningInterrupted)(event.reason)
                is_done = isinstance(event, CleaningEnd)
                yield event
                if is_done:
                    return
        finally:
            if is_done:
                self._idle = asyncio.get_running_loop().call_later(self._idle_max_s, self._end_soon)
            else:
                await self.close()

    async def close(self) -> None:
        """As LogCleaning.close: end the process. Another one is begun when it is needed after all."""
        process, self._process = self._process, None
        if self._idle is not None:
            self._idle.cancel()
        if process is not None:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
            await process.wait()

    def _end_soon(self) -> None:
        task = asyncio.get_running_loop().create_task(self.close())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _begun(self) -> asyncio.subprocess.Process:
        if self._process is not None and self._process.returncode is None:
            return self._process
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "bmq.cli.compaction_worker",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=PIPE_BYTES_MAX,
            )
        except OSError as error:
            raise CleaningInterrupted(f"no process can be begun: {error.strerror or error}") from error
        assert process.stdin is not None
        self._process = process
        self._send(process.stdin, self._settings.model_dump_json().encode())
        return process

    def _send(self, stream: asyncio.StreamWriter, body: bytes) -> None:
        stream.write(HEAD.pack(0, len(body)) + body)

    async def _event(self, stream: asyncio.StreamReader) -> CleaningEvent | Failure | None:
        """None when the process has ended."""
        try:
            kind, length = HEAD.unpack(await stream.readexactly(HEAD.size))
            if length > FRAME_BYTES_MAX:
                raise CleaningInterrupted(f"the process that cleans said {length} bytes at once")
            return decode_event(kind, await stream.readexactly(length))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        except (ValueError, CorruptFile) as error:
            raise CleaningInterrupted(f"the process that cleans is not understood: {error}") from error
