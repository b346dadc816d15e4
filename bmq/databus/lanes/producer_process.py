"""Transactions of a lane in a process of its own, so that producing does not take the interpreter from the event loop.

Threads of CPython share one lock, and librdkafka takes records one by one: what a lane produces in a tenth of a second is a
pause of tens of milliseconds for the applications of the agent, or a process.
"""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Final

from bmq.databus.lanes.kafka_transactions import CALL_S, COMMIT_S, TransactionConfig
from bmq.databus.lanes.producer_messages import (
    Add,
    Answer,
    Close,
    Commit,
    Committed,
    Failed,
    Refused,
    Request,
    Start,
    Started,
)
from bmq.databus.lanes.transactions import SendFailed, TopicsRefused
from bmq.databus.spool.frame import SpooledRecord

COMMAND: Final = (sys.executable, "-P", "-m", "bmq.databus.lanes.producer_main")
"""-P: modules come from the installation, not from the directory that the agent was started in."""
ANSWER_S: Final = 4 * (COMMIT_S + CALL_S)
"""Longer than all the waits of a commit together."""
END_S: Final = 2.0


class ProducerProcess:
    """The port of transactions.py. The process is begun by `start`, again if it has ended, and ended by `end`.

    `answer_s`: a process that does not answer for so long is killed.
    """

    def __init__(
        self, config: TransactionConfig, *, answer_s: float = ANSWER_S, command: Sequence[str] = COMMAND
    ) -> None:
        self._config, self._answer_s, self._command = config, answer_s, command
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None

    def start(self, batch_bytes: int) -> int:
        if self._connection is None:
            self._begin()
        answer = self._answer(Start(self._config, batch_bytes))
        assert isinstance(answer, Started)
        return answer.position

    def add(self, records: Sequence[SpooledRecord]) -> None:
        if records:
            self._send(Add(b"".join(record.frame for record in records)))

    def commit(self, position: int) -> None:
        answer = self._answer(Commit(position))
        assert isinstance(answer, Committed)

    def close(self) -> None:
        if self._connection is not None:
            with suppress(SendFailed):
                self._send(Close())

    def end(self) -> None:
        connection, self._connection = self._connection, None
        process, self._process = self._process, None
        if connection is not None:
            connection.close()
        if process is not None:
            _wait(process)

    # --- parts

    def _begin(self) -> None:
        """Raises SendFailed."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            for option in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
                ours.setsockopt(socket.SOL_SOCKET, option, _timeval(self._answer_s))
            try:
                self._process = subprocess.Popen(
                    [*self._command, str(theirs.fileno())], stdin=subprocess.DEVNULL, pass_fds=(theirs.fileno(),)
                )
            except OSError as error:
                raise SendFailed(f"no process can be begun to produce: {error.strerror or error}") from None
            self._connection = Connection(ours.detach())

    def _send(self, request: Request) -> None:
        """Raises SendFailed."""
        assert self._connection is not None, "a lane starts first"
        with self._failures():
            self._connection.send(request)

    def _answer(self, request: Request) -> Answer:
        """Raises SendFailed, TopicsRefused."""
        self._send(request)
        assert self._connection is not None
        with self._failures():
            answer: Answer = self._connection.recv()
        if isinstance(answer, Failed):
            raise SendFailed(answer.sentence)
        if isinstance(answer, Refused):
            raise TopicsRefused(answer.topics)
        return answer

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """The process is ended by them. Raises SendFailed."""
        try:
            yield
        except BlockingIOError:
            assert self._process is not None
            self._process.kill()
            self.end()
            raise SendFailed(f"the process that produces did not answer in {self._answer_s:g} s") from None
        except (EOFError, OSError):
            process = self._process
            self.end()
            raise SendFailed(f"the process that produces ended {_how(process)}") from None


def _wait(process: subprocess.Popen[bytes]) -> None:
    """It ends by itself once its socket is closed."""
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _how(process: subprocess.Popen[bytes] | None) -> str:
    code = None if process is None else process.returncode
    if code is None:
        return "unexpectedly"
    return f"by signal {-code}" if code < 0 else f"with exit code {code}"


def _timeval(seconds: float) -> bytes:
    return struct.pack("ll", int(seconds), int(seconds % 1 * 1_000_000))
