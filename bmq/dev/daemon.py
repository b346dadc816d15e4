"""One child process that serves: started, watched until it is ready, paused, killed, and never left behind.

Nothing here belongs to an event loop, so that a process started under one loop may be ended under another.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from bmq.protocol.errors import BmqError

START_WAIT_S: Final = 90.0
STOP_WAIT_S: Final = 15.0
KILL_WAIT_S: Final = 10.0
POLL_INTERVAL_S: Final = 0.02
LOG_TAIL_LINES: Final = 40
LOG_TAIL_BYTES: Final = 64 * 1024
LOG_HEAD_BYTES: Final = 1024 * 1024

# Asks the kernel to kill the daemon when its parent dies. The child asks before it becomes the daemon; if the parent
# has died before that, the parent id has changed. Other systems than Linux cannot do this, and there a daemon outlives
# a parent that was killed.
_DIE_WITH_PARENT: Final = """
import ctypes, os, signal, sys
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
if sys.platform == "linux" and ctypes.CDLL(None).prctl(1, signal.SIGKILL) != 0:
    sys.exit("prctl(PR_SET_PDEATHSIG) failed")
if os.getppid() != int(sys.argv[1]):
    sys.exit("the parent is gone")
os.execv(sys.argv[2], sys.argv[2:])
"""

# Why a daemon is not ready yet, in a few words; None when it is.
Probe = Callable[[], Awaitable[str | None]]


class DaemonFailed(BmqError):
    """A daemon ended or stayed silent when it should not have; the message ends with the last lines of its log."""


class WrongDaemonState(BmqError):
    """An order that does not fit the state: starting a running daemon, pausing a stopped one."""


class Daemon:
    """One process. Both its output streams go to the end of `log_file`. `environment`: over that of this process.

    The process dies with the *thread* that started it (a limit of Linux): start it from a thread that lives on, such as
    the main thread, not from a worker of `asyncio.to_thread`.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log_file: Path,
        probe: Probe,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.log_file = log_file
        self.is_paused = False
        self._command = list(command)
        self._probe = probe
        self._environment = dict(environment or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start_bytes = 0

    # -- Orders ------------------------------------------------------------------------------------------------------

    def spawn(self) -> None:
        """Start the process and return at once. Raises WrongDaemonState when it runs."""
        if self.is_running:
            raise WrongDaemonState(f"{self.name} is running already")
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        with self.log_file.open("ab") as log:
            self._log_start_bytes = log.tell()
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid()), *self._command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self._environment},
                start_new_session=True,  # an interrupt from the terminal is ours to pass on, in the right order
            )
        self.is_paused = False

    async def wait_ready(self, timeout_s: float = START_WAIT_S) -> None:
        """Return once it serves. Raises DaemonFailed when it ends before that or takes longer than `timeout_s`."""
        reason: str | None = "just started"
        try:
            async with asyncio.timeout(timeout_s):
                while reason is not None:
                    was_running = self.is_running
                    reason = await self._probe()
                    if reason is not None and not was_running:
                        raise DaemonFailed(f"{self.name} ended with {self.exit_text} while it started{self.log_tail()}")
                    if reason is not None:
                        await asyncio.sleep(POLL_INTERVAL_S)
        except TimeoutError:
            raise DaemonFailed(f"{self.name} was not ready within {timeout_s:g} s: {reason}{self.log_tail()}") from None

    async def start(self, timeout_s: float = START_WAIT_S) -> None:
        """Start it and wait until it serves. Raises WrongDaemonState and DaemonFailed."""
        self.spawn()
        await self.wait_ready(timeout_s)

    async def wait_ended(self, timeout_s: float) -> int:
        """Its exit code (negative: the signal) once it has ended by itself. Raises DaemonFailed after `timeout_s`."""
        if self._process is None:
            raise WrongDaemonState(f"{self.name} was never started")
        if not await _ended_within(self._process, timeout_s):
            raise DaemonFailed(f"{self.name} is still running after {timeout_s:g} s{self.log_tail()}")
        return self._process.returncode

    async def stop(self, timeout_s: float = STOP_WAIT_S) -> None:
        """SIGTERM, and SIGKILL if it is still there after `timeout_s`. Nothing happens when it is not running."""
        await self._end(signal.SIGTERM, timeout_s)

    async def kill(self) -> None:
        """SIGKILL, paused or not; gone when this returns. Nothing happens when it is not running."""
        await self._end(signal.SIGKILL, KILL_WAIT_S)

    async def restart(self, timeout_s: float = START_WAIT_S) -> None:
        """Stop it (or find it stopped), then start it on the same ports and files."""
        await self.stop()
        await self.start(timeout_s)

    async def pause(self) -> None:
        """SIGSTOP: its connections stay and nothing is answered. Returns when all its threads stand still.

        Raises WrongDaemonState when it is not running, DaemonFailed when it goes on.
        """
        process = self._signal(signal.SIGSTOP, "pause")
        self.is_paused = True
        if not await _holds_within(lambda: has_stopped(process.pid), STOP_WAIT_S):
            raise DaemonFailed(f"{self.name} (pid {process.pid}) still runs {STOP_WAIT_S:g} s after SIGSTOP")

    async def resume(self) -> None:
        """SIGCONT. Raises WrongDaemonState when it is not running."""
        self._signal(signal.SIGCONT, "resume")
        self.is_paused = False

    # -- State -------------------------------------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        """Whether there is a process; a paused one counts."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        """Process id while there is a process."""
        return self._process.pid if self._process is not None and self.is_running else None

    @property
    def state(self) -> str:
        """`running`, `paused` or `stopped`."""
        if not self.is_running:
            return "stopped"
        return "paused" if self.is_paused else "running"

    @property
    def exit_text(self) -> str:
        """How the last process ended: `exit code 1`, `SIGKILL`."""
        code = self._process.poll() if self._process is not None else None
        if code is None:
            return "nothing"
        return f"exit code {code}" if code >= 0 else signal.Signals(-code).name

    def log_head(self) -> str:
        """The first lines logged by the present process; empty before it logged anything."""
        try:
            with self.log_file.open("rb") as log:
                log.seek(self._log_start_bytes)
                return log.read(LOG_HEAD_BYTES).decode(errors="replace")
        except FileNotFoundError:
            return ""

    def log_tail(self, lines: int = LOG_TAIL_LINES) -> str:
        """The last lines logged by this process, to follow the first line of a failure."""
        try:
            with self.log_file.open("rb") as log:
                end = log.seek(0, os.SEEK_END)
                log.seek(max(self._log_start_bytes, end - LOG_TAIL_BYTES))
                text = log.read().decode(errors="replace")
        except FileNotFoundError:
            return f"\n(no log at {self.log_file})"
        return "\n".join([f"\n--- last lines of {self.log_file}:", *text.splitlines()[-lines:]])

    # -- Parts -------------------------------------------------------------------------------------------------------

    def _signal(self, number: signal.Signals, order: str) -> subprocess.Popen[bytes]:
        if self._process is None or not self.is_running:
            raise WrongDaemonState(f"{self.name} is not running, so it cannot {order}")
        self._process.send_signal(number)
        return self._process

    async def _end(self, number: signal.Signals, timeout_s: float) -> None:
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.send_signal(number)
        # A paused process handles no signal but SIGKILL until it is resumed.
        process.send_signal(signal.SIGCONT)
        if not await _ended_within(process, timeout_s):
            process.kill()
            if not await _ended_within(process, KILL_WAIT_S):
                raise DaemonFailed(f"{self.name} (pid {process.pid}) is still there {KILL_WAIT_S:g} s after SIGKILL")
        self.is_paused = False


def has_stopped(pid: int) -> bool:
    """Whether all threads of this child stand still after SIGSTOP, or it has ended.

    On a busy machine its threads go on until one of them runs and takes the signal.
    """
    return os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None


async def _ended_within(process: subprocess.Popen[bytes], timeout_s: float) -> bool:
    return await _holds_within(lambda: process.poll() is not None, timeout_s)


async def _holds_within(condition: Callable[[], bool], timeout_s: float) -> bool:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    while not condition():
        if loop.time() > deadline:
            return False
        await asyncio.sleep(POLL_INTERVAL_S)
    return True
