"""A worker tells its supervisor that its event loop goes round; without a supervisor it leaves."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from multiprocessing.connection import Connection

import structlog

from bmq.cli.workers import BEAT_INTERVAL_S

_log = structlog.get_logger("bmq.cli")


class Heartbeat:
    """From `start` on, one byte each BEAT_INTERVAL_S. `on_alone` is called once when nobody is there to hear it."""

    def __init__(self, supervisor: Connection, on_alone: Callable[[], None]) -> None:
        self._supervisor = supervisor
        self._on_alone = on_alone
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        os.set_blocking(self._supervisor.fileno(), False)
        self._beat()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._supervisor.close()

    def _beat(self) -> None:
        try:
            self._supervisor.send_bytes(b".")
        except BlockingIOError:
            pass  # the supervisor stands still; what it has not read yet is enough
        except OSError:
            _log.error("supervisor_gone")
            self._on_alone()
            return
        self._timer = asyncio.get_running_loop().call_later(BEAT_INTERVAL_S, self._beat)
