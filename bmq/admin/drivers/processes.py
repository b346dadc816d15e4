"""Identifies a process by its pid and start time, because pids are reused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_BOOT_ID: Final = _PROC / "sys/kernel/random/boot_id"
# Fields of /proc/PID/stat after the command's name, which may contain anything and ends with the last ")" (proc(5)).
_STATE: Final = 0
_START_TIME: Final = 19
_ENDED: Final = ("Z", "X")


def start_mark(pid: int) -> str | None:
    """Distinguishes this process from all others that have had, or will have, its pid; None when it has ended.

    A zombie counts as ended.
    """
    if sys.platform != "linux":
        return _start_mark_of_ps(pid)
    try:
        stat = (_PROC / str(pid) / "stat").read_text(errors="replace")
        boot = _BOOT_ID.read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[_STATE] in _ENDED else f"{boot}/{fields[_START_TIME]}"


def _start_mark_of_ps(pid: int) -> str | None:
    found = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state, _, started = found.stdout.strip().partition(" ")
    return started.strip() or None if state and state[0] not in _ENDED else None


def send_signal(pid: int, mark: str, number: signal.Signals) -> bool:
    """Signal the process if it is still the one with this `mark`; else do nothing and return False."""
    if sys.platform != "linux":
        if start_mark(pid) != mark:
            return False
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        return True
    try:
        # Open the pidfd before comparing the mark, so that the pid cannot be reused in between.
        held = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        if start_mark(pid) != mark:
            return False
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(held, number)
        return True
    finally:
        os.close(held)
