"""A block of work that is ended when it takes too long."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class PartTimedOut(Exception):
    """A part took longer than it was given."""


@contextmanager
def time_limit(seconds: float, what: str) -> Iterator[None]:
    """Raises PartTimedOut inside the block when it takes longer; in the main thread alone."""

    def ring(_: int, __: FrameType | None) -> None:
        raise PartTimedOut(f"{what} took longer than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def seconds_since(began: float) -> float:
    return round(time.monotonic() - began, 1)
