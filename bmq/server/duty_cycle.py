"""Limits this process to a share of a processor: it works and pauses in turns."""

from __future__ import annotations

import atexit
import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import Final

from bmq.aio.duty_pauses import pause_after

WORK_S: Final = 0.005
REST_MAX_S: Final = 0.5


class DutyCycle:
    """Stops the whole process now and then, from within, also while it imports a library.

    The kernel sends SIGPROF after a fixed processor time, and the handler sleeps. Python calls handlers on the main thread
    between two of its instructions, so a long call of compiled code is followed by its pause. A process can have one only.
    `share`: returns the share of the time that the process may run, more than 0, at most 1.
    """

    def __init__(self, share: Callable[[], float]) -> None:
        self._share = share
        self._measured_at_s = time.process_time()

    def begin(self) -> None:
        """Limit the process from now until it ends."""
        signal.signal(signal.SIGPROF, self._rest)
        atexit.register(signal.setitimer, signal.ITIMER_PROF, 0.0)  # an interpreter that ends has no handlers
        signal.setitimer(signal.ITIMER_PROF, WORK_S, WORK_S)

    def _rest(self, _number: int, _frame: FrameType | None) -> None:
        now_s = time.process_time()
        ran_s, self._measured_at_s = now_s - self._measured_at_s, now_s
        time.sleep(pause_after(ran_s, self._share(), REST_MAX_S))
