"""Collects what this process knows of its own health, for GET /v1/health."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from bmq.admin.health import RECENT_S, START_WAIT_S, HealthFacts, UnstartedPartition
from bmq.admin.logged_errors import LoggedErrors
from bmq.broker.start_waits import StartWaits
from bmq.log.clock import Clock
from bmq.log.store import SegmentStore
from bmq.server.stores import OnDataNodes


class HealthOfServer(Protocol):
    """A server that knows how far it is: NodeServer, StandaloneServer."""

    def health(self) -> HealthFacts: ...


def unstarted(waits: StartWaits) -> tuple[UnstartedPartition, ...]:
    """The partitions whose start waits for so long that the health tells of it, the longest wait first."""
    return tuple(UnstartedPartition(*wait) for wait in waits.longer_than(START_WAIT_S))


def own_health(
    server: Callable[[], HealthOfServer], store: SegmentStore, errors: LoggedErrors, clock: Clock
) -> HealthFacts:
    """The facts as of now: the server's own, the store's, and what was logged lately."""
    return replace(
        server().health(),
        left_out_datanodes=len(store.bad_nodes.current()) if isinstance(store, OnDataNodes) else 0,
        errors=errors.since(clock.now_ms() - RECENT_S * 1000),
    )
