"""Collects what this process knows of its own health, for GET /v1/health."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from bmq.admin.health import RECENT_S, HealthFacts
from bmq.admin.logged_errors import LoggedErrors
from bmq.log.clock import Clock
from bmq.log.store import SegmentStore
from bmq.server.stores import OnDataNodes


class HealthOfServer(Protocol):
    """A server that knows how far it is: NodeServer, StandaloneServer."""

    def health(self) -> HealthFacts: ...


def own_health(
    server: Callable[[], HealthOfServer], store: SegmentStore, errors: LoggedErrors, clock: Clock
) -> HealthFacts:
    """The facts as of now: the server's own, the store's, and what was logged lately."""
    return replace(
        server().health(),
        left_out_datanodes=len(store.bad_nodes.current()) if isinstance(store, OnDataNodes) else 0,
        errors=errors.since(clock.now_ms() - RECENT_S * 1000),
    )
