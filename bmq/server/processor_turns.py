"""Whether a process gets processor time, by the kernel's counters (Linux: sched-stats)."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

WAITS_PER_RUN: Final = 50
"""A process that waits so many times as long as it runs is starved."""


class Turns(NamedTuple):
    """Time that a process's first thread ran, and time that it was runnable but waited for a processor, in seconds."""

    ran_ns: int
    waited_ns: int


def turns_of(pid: int) -> Turns | None:
    """The counters of a process; None if the kernel does not show them."""
    try:
        ran, waited, *_ = Path(f"/proc/{pid}/schedstat").read_text().split()
        return Turns(int(ran), int(waited))
    except (OSError, ValueError):
        return None


def is_starved(before: Turns, after: Turns, seconds: float) -> bool:
    """Whether the process wanted to run most of this time, and hardly ran. Waiting for input or output does not count."""
    ran, waited = after.ran_ns - before.ran_ns, after.waited_ns - before.waited_ns
    return waited > seconds * 1e9 / 2 and waited > ran * WAITS_PER_RUN
