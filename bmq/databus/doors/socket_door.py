"""The Unix socket: frames of socket_frame.py, many at once on each connection, answered in order.

All connections share one receive buffer. A connection keeps only the bytes of a frame that is not whole, within a budget of
the door; past it the frame's bytes are thrown away as they come, and the answer is to try again. A client that does not read
its answers is not read either.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final, cast

from bmq.databus.doors.unix_path import BACKLOG, listening_socket
from bmq.databus.intake import Intake
from bmq.databus.intake_record import NewRecord
from bmq.databus.settings import AgentSettings
from bmq.databus.socket_frame import (
    Answer,
    BadFrame,
    Code,
    encoded_answer,
    frame_length,
    parse_request,
    request_id_at,
)

RECEIVE_BYTES: Final = 256 * 1024
MEMORY_RETRY_MS: Final = 500
SWEEP_S: Final = 1.0
_ID_BYTES: Final = 10
"""From a frame's beginning to the end of its request id."""


class SocketDoor:
    """Counts are plain numbers for the metrics."""

    def __init__(self, intake: Intake, settings: AgentSettings, now_s: Callable[[], float]) -> None:
        self.intake = intake
        self.settings = settings
        self.now_s = now_s
        self.buffer = memoryview(bytearray(RECEIVE_BYTES))
        self.held_bytes = 0
        """Of all frames that are not whole."""
        self.connections: set[Connection] = set()
        self.partial: set[Connection] = set()
        """Those that wait for the rest of a frame."""
        self.bad_frames = 0
        self.refused_connections = 0
        self._server: asyncio.AbstractServer | None = None
        self._sweep: asyncio.TimerHandle | None = None

    async def open(self) -> None:
        """Raises SocketUnusable."""
        settings = self.settings
        listener = listening_socket(
            Path(settings.socket),
            mode=int(settings.socket_mode, 8),
            owner=settings.socket_owner,
            group=settings.socket_group,
        )
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(lambda: Connection(self), sock=listener, backlog=BACKLOG)
        self._sweep = loop.call_later(SWEEP_S, self._end_late_frames)

    async def close(self) -> None:
        """Connections that have answers to get are flushed by the loop."""
        if self._sweep is not None:
            self._sweep.cancel()
        if self._server is not None:
            self._server.close()
            Path(self.settings.socket).unlink(missing_ok=True)
        for connection in list(self.connections):
            connection.close()

    def _end_late_frames(self) -> None:
        now_s = self.now_s()
        for connection in [one for one in self.partial if now_s - one.partial_since_s > self.settings.frame_timeout_s]:
            connection.fail(f"the rest of a frame did not come in {self.settings.frame_timeout_s:g} s")
        self._sweep = asyncio.get_running_loop().call_later(SWEEP_S, self._end_late_frames)


class Connection(asyncio.BufferedProtocol):
    """One client. `partial_since_s`: when the frame that is not whole began."""

    __slots__ = ("_answers", "_door", "_is_ending", "_owed", "_rest", "_skip", "_transport", "partial_since_s")

    def __init__(self, door: SocketDoor) -> None:
        self.partial_since_s = 0.0
        self._door = door
        self._transport: asyncio.Transport | None = None
        self._rest = bytearray()
        self._skip = 0
        self._answers: list[bytes] = []
        self._owed = 0
        """Answers that the intake is to give."""
        self._is_ending = False

    # --- of asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        door = self._door
        self._transport = cast("asyncio.Transport", transport)
        if len(door.connections) >= door.settings.connections_max:
            door.refused_connections += 1
            sentence = f"the agent has {door.settings.connections_max} connections, which is its limit"
            self._is_ending = True
            self._transport.write(encoded_answer(Answer(Code.TOO_MANY_CONNECTIONS, 0, -1, 1_000, sentence)))
            self._transport.close()
            return
        door.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        door = self._door
        door.connections.discard(self)
        door.partial.discard(self)
        door.held_bytes -= len(self._rest)
        self._rest = bytearray()
        self._transport = None

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._door.buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._is_ending:
            return
        start = 0
        if self._skip:
            start = min(self._skip, nbytes)
            self._skip -= start
            if self._skip:
                return
            self._door.partial.discard(self)
        received = self._door.buffer[start:nbytes]
        if not self._rest:
            end = self._take(received, len(received))
            if end < len(received) and not self._is_ending and not self._skip:
                self._hold(received[end:])
            return
        self._hold(received)
        end = self._take(self._rest, len(self._rest))
        if end:
            self._forget(end)

    def eof_received(self) -> bool | None:
        """A client may send its last records, end its side, and still read the answers."""
        if self._rest or self._skip:
            self.fail("the connection ended in the middle of a frame")
        self._door.intake.flush()
        if not self._owed:
            return None
        self._is_ending = True  # with its last answer
        return True

    def pause_writing(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        if self._transport is not None and not self._is_ending:
            self._transport.resume_reading()

    # --- of the intake

    def answer(self, content: bytes) -> None:
        self._answers.append(content)
        self._owed -= 1

    def flush_answers(self) -> None:
        answers, self._answers = self._answers, []
        if self._transport is not None:
            self._transport.write(b"".join(answers))
            if self._is_ending and not self._owed:
                self._transport.close()

    # --- parts

    def fail(self, sentence: str) -> None:
        """Answer what was taken, then this, and close."""
        self._end(sentence, 0)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _take(self, data: memoryview | bytearray, length: int) -> int:
        """The whole frames of the bytes; the offset behind them."""
        offset = 0
        offer = self._door.intake.offer
        frame_bytes_max = self._door.settings.frame_bytes_max
        while length - offset >= 4:
            try:
                end = offset + frame_length(data, offset, frame_bytes_max)
                if end > length:
                    break
                request = parse_request(data, offset, end)
            except BadFrame as error:
                self._end(str(error), request_id_at(data, offset) if length - offset >= _ID_BYTES else 0)
                return length
            request_id, timestamp_ms, channel, key, value, headers = request
            self._owed += 1
            offer(self, request_id, channel, NewRecord(timestamp_ms, key, value, headers))
            offset = end
        return offset

    def _hold(self, received: memoryview) -> None:
        """Keep a part of a frame, or throw it away: the door has a budget."""
        door = self._door
        rest = self._rest
        if not rest:
            self.partial_since_s = door.now_s()
            door.partial.add(self)
        rest += received
        door.held_bytes += len(received)
        if door.held_bytes > door.settings.memory_bytes_max and len(rest) >= _ID_BYTES:
            try:
                wanted = frame_length(rest, 0, door.settings.frame_bytes_max)
            except BadFrame:
                return  # the caller finds the same
            if wanted > len(rest):
                self._skip = wanted - len(rest)
                sentence = "the agent holds as many bytes of unfinished records as it may"
                self._owed += 1
                door.intake.refuse(self, Answer(Code.RETRY, request_id_at(rest, 0), -1, MEMORY_RETRY_MS, sentence))
                door.held_bytes -= len(rest)
                self._rest = bytearray()

    def _forget(self, end: int) -> None:
        """Bytes of frames that were taken. What is left begins a frame now."""
        door = self._door
        if self._is_ending:
            return
        del self._rest[:end]
        door.held_bytes -= end
        if self._rest:
            self.partial_since_s = door.now_s()
        else:
            door.partial.discard(self)

    def _end(self, sentence: str, request_id: int) -> None:
        if self._is_ending:
            return
        door = self._door
        self._is_ending = True
        door.bad_frames += 1
        door.partial.discard(self)
        door.held_bytes -= len(self._rest)
        self._rest = bytearray()
        self._owed += 1
        door.intake.refuse(self, Answer(Code.BAD_FRAME, request_id, -1, 0, sentence))
        door.intake.flush()
