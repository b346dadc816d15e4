"""Does the machine stand still? A thread that asks to be woken ten times a second, and notes when it was not.

What keeps this thread from running keeps tests from running as well: a suspended host, a machine out of memory, a disk that
answers nothing. Its stalls tell a wait that ran out because nothing ran from one that ran out because of a fault.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

INTERVAL_S: Final = 0.1
STALL_S: Final = 2.0
STALLS_KEPT_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class Stall:
    """`end_s`: of the monotonic clock; `length_s`: by how much the thread was woken late."""

    end_s: float
    length_s: float


class StallMeter:
    """Measures while it is entered. `noted` is called with each stall, in the meter's thread."""

    def __init__(
        self,
        now: Callable[[], float] = time.monotonic,
        noted: Callable[[Stall], None] = lambda stall: None,
    ) -> None:
        self.stalls: list[Stall] = []
        self.longest_s = 0.0
        self._now = now
        self._noted = noted
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._measure, name="stall meter", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _measure(self) -> None:
        asked_at = self._now()
        while not self._over.wait(INTERVAL_S):
            woken_at = self._now()
            self.note(asked_at, woken_at)
            asked_at = self._now()

    def note(self, asked_at_s: float, woken_at_s: float) -> None:
        """It asked at `asked_at_s` to be woken after INTERVAL_S, and was at `woken_at_s`."""
        late_s = woken_at_s - asked_at_s - INTERVAL_S
        self.longest_s = max(self.longest_s, late_s)
        if late_s > STALL_S and len(self.stalls) < STALLS_KEPT_MAX:
            stall = Stall(woken_at_s, late_s)
            self.stalls.append(stall)
            self._noted(stall)

    def described(self) -> str:
        """`no stalls, woken at most 0.02 s late`."""
        if not self.stalls:
            return f"no stalls, woken at most {self.longest_s:.2f} s late"
        total_s = sum(stall.length_s for stall in self.stalls)
        return f"STOOD STILL {len(self.stalls)} times, {total_s:.1f} s in all, {self.longest_s:.1f} s at most"
