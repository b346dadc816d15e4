"""A worker tells its supervisor that its event loop runs, and its session; without a supervisor it stops."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection

import structlog

from bmq.election.zookeeper_wire import SessionKey
from bmq.server.worker_messages import BEAT, PASSWORD_BYTES_MAX, session_message
from bmq.server.workers import BEAT_INTERVAL_S

_log = structlog.get_logger("bmq.cli")


class Heartbeat:
    """From `start` on, sends a message each BEAT_INTERVAL_S. `on_alone` is called once when the supervisor is gone."""

    def __init__(self, supervisor: Connection, on_alone: Callable[[], None]) -> None:
        os.set_blocking(supervisor.fileno(), False)
        self._supervisor = supervisor
        self._on_alone = on_alone
        self._timer: asyncio.TimerHandle | None = None
        self._unsent_session: SessionKey | None = None

    def start(self) -> None:
        self._beat()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._supervisor.close()

    def send_session(self, key: SessionKey) -> None:
        """Set the session that the supervisor ends when this process has died; before or after `start`."""
        # A password longer than any of ZooKeeper's could fill the pipe, so that session has to time out.
        self._unsent_session = key if len(key.password) <= PASSWORD_BYTES_MAX else None
        with suppress(OSError):  # sent again with the next beat, which also notices when the supervisor is gone
            self._send_session()

    def _send_session(self) -> None:
        if self._unsent_session is not None:
            self._supervisor.send_bytes(session_message(self._unsent_session))
            self._unsent_session = None

    def _beat(self) -> None:
        try:
            self._send_session()
            self._supervisor.send_bytes(BEAT)
        except BlockingIOError:
            pass  # the supervisor stands still; it has enough unread messages
        except OSError:
            _log.error("supervisor_gone")
            self._on_alone()
            return
        self._timer = asyncio.get_running_loop().call_later(BEAT_INTERVAL_S, self._beat)
