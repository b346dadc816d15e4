"""Ends a job whose parent is gone: the parent holds the other end of the job's standard input."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Final

STOP_WAIT_S: Final = 30.0


class ParentWatch:
    """From `start` on, the end of standard input kills this process with all that it started, and its JVM.

    After `stop_by` it calls that function first, and kills what has not ended `STOP_WAIT_S` later. The process should
    lead a process group; otherwise it ends only itself.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        self._descriptor = sys.stdin.fileno() if descriptor is None else descriptor
        self._stop: Callable[[], object] | None = None

    def start(self) -> None:
        threading.Thread(target=self._watch, name="bmq-parent-watch", daemon=True).start()

    def stop_by(self, stop: Callable[[], object]) -> None:
        """`stop` ends the process in order, from another thread than the main one."""
        self._stop = stop

    def _watch(self) -> None:
        try:
            # Not through sys.stdin: Python's end would wait for its lock.
            while os.read(self._descriptor, 4_096):
                pass
        except OSError:
            pass  # as good as its end
        if self._stop is not None:
            killing = threading.Timer(STOP_WAIT_S, self.kill)
            killing.daemon = True
            killing.start()
            self._stop()
        else:
            self.kill()

    def kill(self) -> None:
        if os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os._exit(1)
