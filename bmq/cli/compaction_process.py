"""Has logs cleaned by a process of its own, begun when there is something to clean and ended when there was nothing for
a while: what it holds, memory and compiled loops, is worth keeping from one log to the next, and no longer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from typing import Final

import structlog

from bmq.cli.compaction_command import COMMAND, Options, arguments
from bmq.cli.processor_turns import Turns, is_starved, turns_of
from bmq.cli.settings import Settings
from bmq.cli.shared_share import SharedShare
from bmq.compaction.frames import FRAME_BYTES_MAX, HEAD, Failure, decode_event, encode_plan
from bmq.log.compaction import CleaningEnd, CleaningEvent, CleaningInterrupted, CleaningPlan, Uncleanable
from bmq.log.store import CorruptFile

IDLE_MAX_S: Final = 30.0
PIPE_BYTES_MAX: Final = 2 * 1024 * 1024
WATCH_S: Final = 60.0

_log = structlog.get_logger("bmq.cli")


class CompactionProcess:
    """Implements bmq.log.compaction.LogCleaning, for one cleaning at a time. `settings`: those that name the store.

    One that gets no processor is ended, and the next one takes part as others do: a process cannot leave SCHED_IDLE
    without a privilege, so it has to be another.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        idle_max_s: float = IDLE_MAX_S,
        watch_s: float = WATCH_S,
        turns: Callable[[int], Turns | None] = turns_of,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._settings = settings
        self._idle_max_s = idle_max_s
        self._watch_s = watch_s
        self._turns = turns
        self._command = command
        self._takes_part = False
        self._share = 1.0
        self._shared: SharedShare | None = None
        self._watch: asyncio.TimerHandle | None = None
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
            if not self._takes_part:
                self._watch_over(process, None)
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
            self._shared.say(share)

    async def close(self) -> None:
        """As LogCleaning.close: end the process. Another one is begun when it is needed after all."""
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
            self._takes_part = True
            with suppress(ProcessLookupError):
                process.kill()  # the reader of its events sees them end
            return
        self._watch = asyncio.get_running_loop().call_later(self._watch_s, self._watch_over, process, after)

    def _end_soon(self) -> None:
        self._takes_part = False
        task = asyncio.get_running_loop().create_task(self.close())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _begun(self) -> asyncio.subprocess.Process:
        if self._process is not None and self._process.returncode is None:
            return self._process
        self._forget_share()
        try:
            self._shared = shared = SharedShare.made(self._share)
            process = await asyncio.create_subprocess_exec(
                *self._command,
                *arguments(Options(shared.descriptor, self._takes_part)),
                pass_fds=(shared.descriptor,),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=PIPE_BYTES_MAX,
                start_new_session=True,  # the kernel may share processors out by session
            )
        except OSError as error:
            raise CleaningInterrupted(f"no process can be begun: {error.strerror or error}") from error
        assert process.stdin is not None
        self._process = process
        self._send(process.stdin, self._settings.model_dump_json().encode())
        return process

    def _forget_share(self) -> None:
        shared, self._shared = self._shared, None
        if shared is not None:
            shared.close()

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
