"""Cleans logs in a process of its own, which is started when there is something to clean and ended when it was idle for a
while.

A small log is cleaned at once, by a process of normal priority. A longer cleaning gives way to all other processes, so it may
be starved on a busy machine. The same holds for a small log that follows many others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from typing import Final

import structlog

from bmq.compaction.frames import FRAME_BYTES_MAX, HEAD, Failure, decode_event, encode_plan
from bmq.log.compaction import (
    CleanerUnavailable,
    CleaningEnd,
    CleaningEvent,
    CleaningInterrupted,
    CleaningPlan,
    Uncleanable,
)
from bmq.log.store import CorruptFile
from bmq.server.compaction_command import COMMAND, Options, arguments
from bmq.server.compaction_settings import CompactionSettings, ServerSettings
from bmq.server.processor_turns import Turns, is_starved, turns_of
from bmq.server.shared_cpu_share import SharedCpuShare

IDLE_MAX_S: Final = 30.0
PIPE_BYTES_MAX: Final = 2 * 1024 * 1024
WATCH_S: Final = 60.0
BRIEF_BYTES_MAX: Final = 32 * 1024 * 1024
"""A log of so many bytes is cleaned within a third of a second."""
BRIEF_FOR_S: Final = 1.0
BRIEF_EVERY_S: Final = 10.0
"""For so long at a time, and so often, cleanings do not give way to others."""

_log = structlog.get_logger("bmq.cli")


class CompactionProcess:
    """Implements bmq.log.compaction.LogCleaning, for one cleaning at a time. `settings`: those that name the store.

    A process that gets no processor time is ended, and the next one runs at normal priority. A process cannot leave
    SCHED_IDLE without a privilege, so it has to be another process.
    """

    def __init__(
        self,
        settings: ServerSettings,
        *,
        idle_max_s: float = IDLE_MAX_S,
        watch_s: float = WATCH_S,
        turns: Callable[[int], Turns | None] = turns_of,
        elapsed_s: Callable[[], float] = time.monotonic,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._settings = settings
        self._idle_max_s = idle_max_s
        self._watch_s = watch_s
        self._turns = turns
        self._elapsed_s = elapsed_s
        self._command = command
        self._takes_part = False
        self._is_brief = False
        self._brief_since_s = float("-inf")
        self._is_starved = False
        self._share = 1.0
        self._shared: SharedCpuShare | None = None
        self._watch: asyncio.TimerHandle | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._ending: set[asyncio.Task[None]] = set()

    async def clean(self, plan: CleaningPlan) -> AsyncGenerator[CleaningEvent]:
        """As LogCleaning.clean."""
        if self._idle is not None:
            self._idle.cancel()
        is_brief = self._may_be_brief(plan)
        process = await self._begun(is_brief)
        is_done = False
        try:
            assert process.stdin is not None and process.stdout is not None
            self._send(process.stdin, encode_plan(plan))
            if not self._takes_part and not is_brief:
                self._watch_over(process, None)
            while True:
                event = await self._event(process.stdout)
                if event is None:
                    raise await self._why_ended(process)
                if isinstance(event, Failure):
                    is_done = True
                    raise (Uncleanable if event.is_final else CleaningInterrupted)(event.reason)
                is_done = isinstance(event, CleaningEnd)
                yield event
                if is_done:
                    return
        finally:
            if self._watch is not None:
                self._watch.cancel()
            if is_done:
                self._idle = asyncio.get_running_loop().call_later(self._idle_max_s, self._end_soon)
            else:
                await self.close()

    def use_share(self, share: float) -> None:
        """As LogCleaning.use_share."""
        self._share = share
        if self._shared is not None:
            self._shared.set(share)

    async def close(self) -> None:
        """As LogCleaning.close: end the process. Another one is started when it is needed again."""
        process, self._process = self._process, None
        self._forget_share()  # now: while this one ends, the next may be begun
        if self._idle is not None:
            self._idle.cancel()
        if process is not None:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
            await process.wait()

    def _watch_over(self, process: asyncio.subprocess.Process, before: Turns | None) -> None:
        after = self._turns(process.pid)
        if before is not None and after is not None and is_starved(before, after, self._watch_s):
            _log.warning("compaction_starved", seconds=self._watch_s)
            self._takes_part = self._is_starved = True
            with suppress(ProcessLookupError):
                process.kill()  # the reader of its events sees them end
            return
        self._watch = asyncio.get_running_loop().call_later(self._watch_s, self._watch_over, process, after)

    def _end_soon(self) -> None:
        self._takes_part = False
        task = asyncio.get_running_loop().create_task(self.close())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def _may_be_brief(self, plan: CleaningPlan) -> bool:
        # A merge is never urgent, and many small ones would begin a process of each kind again and again.
        if plan.is_merge or sum(extent.length for group in plan.groups for extent in group) > BRIEF_BYTES_MAX:
            return False
        now_s = self._elapsed_s()
        if now_s - self._brief_since_s >= BRIEF_EVERY_S:
            self._brief_since_s = now_s
        return now_s - self._brief_since_s < BRIEF_FOR_S

    async def _why_ended(self, process: asyncio.subprocess.Process) -> CleaningInterrupted:
        if self._is_starved:
            self._is_starved = False
            return CleaningInterrupted("the process that cleans had no processor, and was ended")
        code = await process.wait()
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        return CleanerUnavailable(f"the process that cleans ended {how}")

    async def _begun(self, is_brief: bool) -> asyncio.subprocess.Process:
        if self._process is not None and self._process.returncode is None:
            if is_brief == self._is_brief:
                return self._process
            await self.close()
        self._is_brief = is_brief
        self._forget_share()
        try:
            self._shared = shared = SharedCpuShare.create(self._share)
            process = await asyncio.create_subprocess_exec(
                *self._command,
                *arguments(Options(shared.descriptor, self._takes_part, is_brief)),
                pass_fds=(shared.descriptor,),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=PIPE_BYTES_MAX,
                start_new_session=True,  # the kernel may share processors out by session
            )
        except OSError as error:
            raise CleanerUnavailable(f"no process can be begun: {error.strerror or error}") from error
        assert process.stdin is not None
        self._process = process
        self._send(process.stdin, CompactionSettings.of(self._settings).encode())
        return process

    def _forget_share(self) -> None:
        shared, self._shared = self._shared, None
        if shared is not None:
            shared.close()

    def _send(self, stream: asyncio.StreamWriter, body: bytes) -> None:
        stream.write(HEAD.pack(0, len(body)) + body)

    async def _event(self, stream: asyncio.StreamReader) -> CleaningEvent | Failure | None:
        """The process's next event; None if the process has ended."""
        try:
            kind, length = HEAD.unpack(await stream.readexactly(HEAD.size))
            if length > FRAME_BYTES_MAX:
                raise CleaningInterrupted(f"the process that cleans said {length} bytes at once")
            return decode_event(kind, await stream.readexactly(length))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        except (ValueError, CorruptFile) as error:
            raise CleaningInterrupted(f"the process that cleans is not understood: {error}") from error
