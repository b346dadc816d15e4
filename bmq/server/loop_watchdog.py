"""Ends a node's process whose event loop hangs, if no supervisor does: its clients then find another node.

Otherwise their connections stay open, and they wait for their own timeouts. A worker's supervisor sees the same by its
heartbeat (heartbeat.py), and also if a call keeps the interpreter to itself: then this thread does not run either.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Final

import structlog

from bmq.server.workers import BEAT_INTERVAL_S, LOOK_INTERVAL_S, OWN_PAUSE_S_MAX

EXIT_CODE: Final = 70
"""EX_SOFTWARE: an error inside, not one of the settings."""
HANG_S_MIN: Final = 1.0
"""Several beats: a turn of the event loop may take tenths of a second."""
LAST_WORDS_S_MAX: Final = 2.0
"""What hangs may be the log itself, so neither the line nor the stacks are waited for longer."""

_log = structlog.get_logger("bmq.cli")


class LoopSilence:
    """Whether the event loop hangs, by when it and the one who looks ran last. Decisions only; times in seconds.

    After a pause of the looker's own longer than OWN_PAUSE_S_MAX silence proves nothing: the process was stopped, or
    its machine slept or was overloaded.
    """

    def __init__(self, hang_s: float, now_s: float) -> None:
        self._hang_s = hang_s
        self._beat_s = now_s
        self._looked_s = now_s

    def beat(self, now_s: float) -> None:
        """The loop runs."""
        self._beat_s = now_s

    def hung_s(self, now_s: float) -> float | None:
        """For how long the loop has hung; None: it does not."""
        if now_s - self._looked_s > OWN_PAUSE_S_MAX:
            self._beat_s = now_s
        self._looked_s = now_s
        silent_s = now_s - self._beat_s
        return silent_s if silent_s > self._hang_s else None


class LoopWatchdog:
    """`start` in the running event loop; `close` ends the thread. `hang_s` 0: nothing is watched; below HANG_S_MIN: that."""

    def __init__(self, hang_s: float, node_id: int) -> None:
        self._hang_s = hang_s
        self._node_id = node_id
        self._closed = threading.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._silence = LoopSilence(max(hang_s, HANG_S_MIN), time.monotonic())

    def start(self) -> None:
        if self._hang_s > 0:
            self._beat()
            threading.Thread(target=self._watch, name="bmq-loop-watchdog", daemon=True).start()

    def close(self) -> None:
        self._closed.set()
        if self._timer is not None:
            self._timer.cancel()

    def _beat(self) -> None:
        self._silence.beat(time.monotonic())
        self._timer = asyncio.get_running_loop().call_later(BEAT_INTERVAL_S, self._beat)

    def _watch(self) -> None:
        while not self._closed.wait(LOOK_INTERVAL_S):
            hung_s = self._silence.hung_s(time.monotonic())
            if hung_s is not None:
                self._say(lambda: _log.error("loop_hung", node_id=self._node_id, seconds=round(hung_s, 1)))  # noqa: B023 at once
                self._say(lambda: faulthandler.dump_traceback(sys.stderr, all_threads=True))
                os._exit(EXIT_CODE)

    @staticmethod
    def _say(say: Callable[[], None]) -> None:
        speaker = threading.Thread(target=say, daemon=True)
        speaker.start()
        speaker.join(LAST_WORDS_S_MAX)
