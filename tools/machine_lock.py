"""One run at a time of what needs the whole machine: `make test`, `make campaign`, benchmarks and soaks.

Two of them side by side make each other's waits run out. The second waits and says for which.

    python -m tools.machine_lock WHAT COMMAND …      # run COMMAND with the lock held

The lock is a lock of the system on a file at a fixed place, whatever TMPDIR says; it ends with the process that holds it.
Processes started by the holder find VARIABLE in their environment and do not wait for it.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

PLACE: Final = Path(f"/tmp/bmq-machine-{os.getuid()}.lock")
VARIABLE: Final = "BMQ_MACHINE_LOCK"
LOOK_INTERVAL_S: Final = 1.0
SAY_INTERVAL_S: Final = 60.0
WAIT_MAX_S: Final = 8 * 3600.0
HOLDER_BYTES_MAX: Final = 500


class MachineTaken(Exception):
    """Another run has held the machine for longer than anyone waits."""


def say(line: str) -> None:
    print(line, flush=True)


def acquire(what: str, place: Path = PLACE, wait_max_s: float = WAIT_MAX_S, say: Callable[[str], None] = say) -> int:
    """The descriptor of the locked file; closing it, or the end of this process, gives the lock back.

    `what`: how the holder is named to those that wait. Raises MachineTaken after `wait_max_s`.
    """
    file = os.open(place, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    began = time.monotonic()
    said_at = -SAY_INTERVAL_S
    while not _locked(file):
        waited_s = time.monotonic() - began
        if waited_s > wait_max_s:
            holder = _holder(file)
            os.close(file)
            raise MachineTaken(f"{holder} still has the machine after {wait_max_s:.0f} s")
        if waited_s - said_at >= SAY_INTERVAL_S:
            said_at = waited_s
            say(f"waiting for {_holder(file)}, which has the machine ({waited_s:.0f} s so far)")
        time.sleep(LOOK_INTERVAL_S if waited_s > LOOK_INTERVAL_S else LOOK_INTERVAL_S / 20)
    holder = f"{what}, process {os.getpid()}, in {Path.cwd()}, since {time.strftime('%H:%M:%S')}"
    os.ftruncate(file, 0)
    os.pwrite(file, holder.encode()[:HOLDER_BYTES_MAX], 0)
    return file


@contextmanager
def machine_lock(what: str, place: Path = PLACE) -> Iterator[None]:
    """Hold the lock inside; nothing is done when a process above this one holds it."""
    if VARIABLE in os.environ:
        yield
        return
    file = acquire(what, place)
    os.environ[VARIABLE] = str(os.getpid())
    try:
        yield
    finally:
        del os.environ[VARIABLE]
        os.close(file)


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(file: int) -> str:
    return os.pread(file, HOLDER_BYTES_MAX, 0).decode(errors="replace") or "another run"


def main() -> None:
    if len(sys.argv) < 3:
        sys.exit("usage: python -m tools.machine_lock WHAT COMMAND …")
    what, *command = sys.argv[1:]
    if VARIABLE not in os.environ:
        try:
            # The command takes the place of this process, and its children get no descriptor they did not ask for.
            os.set_inheritable(acquire(what), True)
        except MachineTaken as taken:
            sys.exit(str(taken))
        os.environ[VARIABLE] = str(os.getpid())
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
