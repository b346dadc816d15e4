"""How much of the time this process runs: work and rest in turns, so that it takes a share of a processor."""

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
    """Stops the whole process now and then, from within: whatever it does, be it the loading of a library.

    The kernel sends SIGPROF after so much processor time, and its handler sleeps. Python calls handlers on the main thread,
    between two of its instructions: a long call of compiled code is rested from when it is over. There can be one only.
    `share`: of the time, that it may run now, more than 0, at most 1.
    """

    def __init__(self, share: Callable[[], float]) -> None:
        self._share = share
        self._measured_at_s = time.process_time()

    def begin(self) -> None:
        """From here on, until the process ends."""
        signal.signal(signal.SIGPROF, self._rest)
        atexit.register(signal.setitimer, signal.ITIMER_PROF, 0.0)  # an interpreter that ends has no handlers
        signal.setitimer(signal.ITIMER_PROF, WORK_S, WORK_S)

    def _rest(self, _number: int, _frame: FrameType | None) -> None:
        now_s = time.process_time()
        ran_s, self._measured_at_s = now_s - self._measured_at_s, now_s
        time.sleep(pause_after(ran_s, self._share(), REST_MAX_S))
