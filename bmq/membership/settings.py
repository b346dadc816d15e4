"""Settings of what nodes do with each other (units in the names)."""

from __future__ import annotations

from dataclasses import dataclass

from bmq.controller.failover import FAILOVERS_AT_FIRST, IDLE_FAILOVER_DELAY_MS


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """The table `[cluster]` of a node's settings."""

    heartbeat_interval_ms: int = 500
    heartbeat_timeout_ms: int = 2_000
    """A controller that does not answer for so long is thought to hang: candidates depose it."""
    registration_timeout_ms: int = 10_000
    """The same of one that has to write before it can answer: while a node registers, is let in, or stops."""
    report_interval_ms: int = 1_000
    """How often high watermarks and load are told to the controller (only what changed)."""
    report_interval_min_ms: int = 10
    """The same when a partition has just begun to be served: the controller may wait for that."""
    metadata_wait_max_ms: int = 5_000
    """How long one poll for metadata waits at the controller."""
    metadata_fetch_bytes_max: int = 4 * 1024 * 1024
    registration_wait_max_ms: int = 30_000
    """How long a node tries to register before it gives up with a sentence: an earlier process may seem alive yet."""
    retry_min_ms: int = 20
    retry_max_ms: int = 500
    release_wait_max_ms: int = 1_500
    """How long a new owner waits for the old one to drain and seal; then it takes over by force."""
    failovers_at_first: int = FAILOVERS_AT_FIRST
    """So many of a dead node's partitions get their next owners at once, those in use before others."""
    idle_failover_delay_ms: int = IDLE_FAILOVER_DELAY_MS
    """The others get theirs so much later: each of them is news to every process."""
    takeover_delay_ms: int = 3_000
    """When a dead node's partitions are started that nobody used and nobody has asked for by then."""
    takeovers_behind_max: int = 4
    """So many of them at once."""
    zookeeper_session_ms: int = 6_000
    shutdown_wait_max_ms: int = 180_000
    """How long a stopping node waits for its partitions to be taken over in order, a few at a time."""
    shutdown_silence_max_ms: int = 6_000
    """It waits no longer when no controller has answered it for so long."""
