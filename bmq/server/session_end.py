"""Ends a dead worker's session in ZooKeeper; runs in a short-lived process."""

from __future__ import annotations

import signal
from typing import Final

import structlog

from bmq.election.election import ElectionUnavailable
from bmq.election.zookeeper_address import ZooKeeperAddress
from bmq.election.zookeeper_session_end import end_session
from bmq.election.zookeeper_wire import SessionKey
from bmq.server.settings import Settings

# Added to the session's timeout. Only a hanging name server takes that long: the lookup cannot be interrupted
# otherwise.
ALARM_S: Final = 1.0

_log = structlog.get_logger("bmq.cli")


def end_worker_session(settings: Settings, key: SessionKey) -> None:
    """End the session. Tries for one session timeout: by then the session has expired, unless ZooKeeper was away."""
    wait_s = settings.cluster.zookeeper_session_ms / 1000
    signal.setitimer(signal.ITIMER_REAL, wait_s + ALARM_S)
    try:
        was_there = end_session(
            ZooKeeperAddress.parse(settings.zookeeper).servers, key, wait_s, settings.zookeeper_security
        )
    except ElectionUnavailable as error:
        _log.warning("session_not_ended", node_id=settings.node_id, reason=str(error))
    else:
        _log.info("session_ended", node_id=settings.node_id, was_over=not was_there)
