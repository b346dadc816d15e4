"""A child process with a log file: started, watched, killed, and never left behind.

Used by tests and benchmarks alike. A child dies with this process even when this one is killed: `setpriv --pdeathsig`
asks the kernel for that, and it keeps the pid because it only executes the command.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import TypeVar

from bmq.dev.daemon import has_stopped
from bmq.dev.ports import pick_ports
from testing.patience import Patience

REPOSITORY = Path(__file__).resolve().parents[1]
JARS = REPOSITORY / ".cache" / "jars"

POLL_INTERVAL_S = 0.005
LOG_TAIL_LINES = 60

T = TypeVar("T")

_running: set[ManagedProcess] = set()


class ProcessFailed(AssertionError):
    """A child process ended or stayed silent when it should not have; the message ends with its log."""


def eventually(condition: Callable[[], T], timeout_s: float, what: str, interval_s: float = 0.05) -> T:
    """The first true result of `condition`, asked every `interval_s`. Raises AssertionError after `timeout_s` of patience."""
    patience = Patience(timeout_s)
    while True:
        result = condition()
        if result:
            patience.note()
            return result
        if patience.is_over():
            raise AssertionError(f"not within {patience.limit_s:.0f} s: {what} (last answer: {result!r})")
        time.sleep(interval_s)


def free_port() -> int:
    """A port that stays free while nobody listens on it, as a server does that cannot say which one it was given, or that is
    down for a while: neither an outgoing connection nor another test takes it.
    """
    (port,) = pick_ports("127.0.0.1", 1, Random())
    return port


def dying_with_us(arguments: Sequence[str]) -> list[str]:
    """The command line, wrapped so that the child is killed when this process ends."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", "--", *arguments] if setpriv else [*arguments]


class ManagedProcess:
    """One child process. Its output, both streams, goes to the end of `log_file`."""

    def __init__(
        self, name: str, arguments: Sequence[str], log_file: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log_file = log_file
        self.arguments = list(arguments)
        self.environment = {**os.environ, **(environment or {})}
        self.started_at = 0.0
        self.is_paused = False
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start_bytes = 0

    def start(self) -> None:
        assert not self.is_running, f"{self.name} runs already"
        self.is_paused = False
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        with self.log_file.open("ab") as log:
            self._log_start_bytes = log.tell()
            self.started_at = time.monotonic()
            self._process = subprocess.Popen(
                dying_with_us(self.arguments),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.environment,
                start_new_session=True,
            )
        _running.add(self)

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} was never started"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def wait_for_line(self, pattern: str, timeout_s: float) -> re.Match[str]:
        """The first line of this run's log that matches. Raises ProcessFailed when the process ends or time is up."""
        compiled = re.compile(pattern, re.MULTILINE)
        patience = Patience(timeout_s)
        while True:
            was_running = self.is_running
            found = compiled.search(self.log_of_this_run())
            if found:
                patience.note()
                return found
            if not was_running:
                raise ProcessFailed(f"{self.name} ended with {self.exit_code} instead of printing {pattern!r}{self}")
            if patience.is_over():
                raise ProcessFailed(f"{self.name} did not print {pattern!r} within {patience.limit_s:.0f} s{self}")
            time.sleep(POLL_INTERVAL_S)

    def wait(self, timeout_s: float) -> int:
        """Its exit code. Raises ProcessFailed when it is still running after `timeout_s`."""
        assert self._process is not None, f"{self.name} was never started"
        patience = Patience(timeout_s)
        try:
            code = self._process.wait(patience.limit_s)
        except subprocess.TimeoutExpired:
            raise ProcessFailed(f"{self.name} still runs after {patience.limit_s:.0f} s{self}") from None
        patience.note()
        _running.discard(self)
        return code

    @property
    def exit_code(self) -> int | None:
        return None if self._process is None else self._process.poll()

    def log_of_this_run(self) -> str:
        with self.log_file.open("rb") as log:
            log.seek(self._log_start_bytes)
            return log.read().decode(errors="replace")

    def pause(self) -> None:
        """SIGSTOP: its connections stay open and nothing is answered. Returns when all its threads stand still."""
        os.kill(self.pid, signal.SIGSTOP)
        self.is_paused = True
        while not has_stopped(self.pid):
            time.sleep(POLL_INTERVAL_S)

    def resume(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)
        self.is_paused = False

    def kill(self) -> None:
        """kill -9, paused or not, and wait until it is gone."""
        self._end(signal.SIGKILL, timeout_s=10)
        self.is_paused = False

    def stop(self, timeout_s: float = 10) -> int:
        """SIGTERM; the exit code. Raises ProcessFailed when it takes longer than `timeout_s`."""
        return self._end(signal.SIGTERM, timeout_s)

    def _end(self, number: signal.Signals, timeout_s: float) -> int:
        process = self._process
        assert process is not None, f"{self.name} was never started"
        if process.poll() is None:
            process.send_signal(number)
        patience = Patience(timeout_s)
        try:
            code = process.wait(patience.limit_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise ProcessFailed(
                f"{self.name} was still running {patience.limit_s:.0f} s after {number.name}{self}"
            ) from None
        else:
            patience.note()
        finally:
            _running.discard(self)
        return code

    def __str__(self) -> str:
        """The end of the log, to be put behind a failure's first line."""
        if not self.log_file.exists():
            return f"\n--- {self.name} has no log"
        lines = self.log_file.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:]
        return "\n".join([f"\n--- last lines of {self.name} ({self.log_file}):", *lines])


def running_processes() -> frozenset[ManagedProcess]:
    return frozenset(process for process in _running if process.is_running)


def kill_everything() -> None:
    """Kill every child that is still there; called at exit as well."""
    for process in list(_running):
        process.kill()


atexit.register(kill_everything)
