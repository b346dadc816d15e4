"""One job as a process with a process group of its own: what it says, how it ended, and that nothing of it is left.

Spark's JVM is a child of the job and of its group. Whenever the job's process has ended, the rest of the group is killed, before
the process id can belong to another process.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO, Final

from bmq.spark.tables.ending import Ending
from bmq.spark.tables.job_lines import ERROR_CHARACTERS_MAX, StateLine, state_of_line

LINE_BYTES_MAX: Final = 1 << 20
"""A longer line comes in parts."""
_ERROR_LINES_KEPT: Final = 20
_OWN_ERROR: Final = "bmq: "

OnEnd = Callable[[Ending, str | None], object]


class JobProcess:
    """Raises OSError when it cannot be started. The functions are called from threads of this object, `on_end` last.

    `on_alive`: the job says that it runs. `on_line`: a line of its standard error. The job ends by itself when this process
    is gone: its standard input ends then (`--end-with-parent`).
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        on_alive: Callable[[], object],
        on_line: Callable[[str], object],
        on_end: OnEnd,
    ) -> None:
        self._on_alive = on_alive
        self._on_line = on_line
        self._on_end = on_end
        self._ended: StateLine | None = None
        self._errors: deque[str] = deque(maxlen=_ERROR_LINES_KEPT)
        self._signals = threading.Lock()
        self._is_reaped = False
        self._process = subprocess.Popen(
            command,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._process.stdout is not None and self._process.stderr is not None
        self._readers = [
            threading.Thread(target=self._read, args=(stream, take), name=f"bmq-job-{self.pid}", daemon=True)
            for stream, take in ((self._process.stdout, self._output), (self._process.stderr, self._error))
        ]
        self._waiter = threading.Thread(target=self._wait, name=f"bmq-job-{self.pid}-end", daemon=True)
        for thread in (*self._readers, self._waiter):
            thread.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> None:
        """Ask it to stop."""
        with self._signals:
            if not self._is_reaped:
                os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """End it and all of its group at once."""
        with self._signals:
            if not self._is_reaped:
                self._kill_group()

    def join(self) -> None:
        """Wait until it has ended and `on_end` was called."""
        self._waiter.join()

    def _kill_group(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def _read(self, stream: IO[bytes], take: Callable[[str], object]) -> None:
        while line := stream.readline(LINE_BYTES_MAX):
            take(line.decode(errors="replace").rstrip("\r\n"))
        stream.close()

    def _output(self, line: str) -> None:
        state = state_of_line(line)
        if state is not None and state.ending is None:
            self._on_alive()
        elif state is not None:
            self._ended = state

    def _error(self, line: str) -> None:
        self._errors.append(line)
        self._on_line(line)

    def _wait(self) -> None:
        # The process stays a zombie here, so that its id cannot be another's.
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        with self._signals:
            self._kill_group()
            exit_code = self._process.wait()
            self._is_reaped = True
        for reader in self._readers:
            reader.join()
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        self._on_end(*how_it_ended(exit_code, self._ended, list(self._errors)))


def how_it_ended(exit_code: int, said: StateLine | None, errors: Sequence[str]) -> tuple[Ending, str | None]:
    """The ending and its sentence. `said`: the job's own last state; `errors`: the last lines of its standard error."""
    if said is not None and said.ending is not None:
        return said.ending, said.error
    if exit_code < 0:
        return Ending.FAILED, f"the job was killed by {_signal_name(-exit_code)}"
    own = [line.removeprefix(_OWN_ERROR) for line in errors if line.startswith(_OWN_ERROR)]
    last = own or [line.strip() for line in errors if line.strip()]
    why = f": {last[-1][:ERROR_CHARACTERS_MAX]}" if last else ""
    return Ending.FAILED, f"the job ended with exit code {exit_code}{why}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
