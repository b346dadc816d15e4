"""Broker configs under Kafka's names that this server has as settings under other names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

SETTING_OF: Final[Mapping[str, tuple[str, str]]] = {
    "connections.max.idle.ms": ("proxy", "connections_max_idle_ms"),
    "fetch.max.bytes": ("fetch", "fetch_max_bytes"),
    "log.cleaner.backoff.ms": ("broker", "compaction_check_interval_ms"),
    "log.cleaner.dedupe.buffer.size": ("broker", "compaction_map_bytes"),
    "log.cleaner.io.max.bytes.per.second": ("broker", "compaction_bytes_per_s_max"),
    "log.retention.check.interval.ms": ("broker", "retention_check_interval_ms"),
    "max.connections": ("proxy", "connections_max"),
    "max.incremental.fetch.session.cache.slots": ("fetch", "fetch_session_slots_max"),
    "producer.id.expiration.ms": ("broker", "producer_id_expiration_ms"),
    "socket.request.max.bytes": ("proxy", "request_bytes_max"),
}
"""(table, setting) by Kafka's name: the same value, so either name may be used."""

INSTEAD: Final[Mapping[str, str]] = {
    "broker.id": "node_id",
    "broker.rack": "rack",
    "log.dir": "store, or data",
    "log.dirs": "store, or data",
    "node.id": "node_id",
    "process.roles": "roles",
}
"""The settings to use instead, where values have another form."""


def own_settings(kafka: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The server's settings that these broker configs set, by table."""
    found: dict[str, dict[str, Any]] = {}
    for name, (table, setting) in SETTING_OF.items():
        if name in kafka:
            found.setdefault(table, {})[setting] = kafka[name]
    return found


def why_not_here(kafka: Mapping[str, Any]) -> str | None:
    """Why these broker configs cannot be given under Kafka's names; None if they can."""
    for name in sorted(kafka.keys() & INSTEAD.keys()):
        return f"setting kafka.{name}: use {INSTEAD[name]} instead"
    return None
