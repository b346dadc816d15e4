"""Settings of the cluster's internal protocols (units in the names)."""

from __future__ import annotations

from dataclasses import dataclass

from bmq.controller.failover import FAILOVERS_AT_FIRST, IDLE_FAILOVER_DELAY_MS


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """The table `[cluster]` of a node's settings."""

    heartbeat_interval_ms: int = 500
    heartbeat_timeout_ms: int = 2_000
    """A controller that does not answer for this long is assumed to hang: candidates depose it."""
    node_session_timeout_ms: int = 2_000
    """A node that is silent for this long is fenced by the controller. Kafka: broker.session.timeout.ms."""
    registration_timeout_ms: int = 10_000
    """The same while the controller has to write before it can answer: when a node registers, is unfenced, or stops."""
    report_interval_ms: int = 1_000
    """Interval of reports of high watermarks and load to the controller (only changes)."""
    report_interval_min_ms: int = 10
    """The same after a partition has just begun to be served: the controller may wait for that."""
    metadata_wait_max_ms: int = 5_000
    """How long one poll for metadata waits at the controller."""
    metadata_fetch_bytes_max: int = 4 * 1024 * 1024
    registration_wait_max_ms: int = 30_000
    """How long a node tries to register before it gives up: an earlier process may still seem alive."""
    retry_min_ms: int = 20
    retry_max_ms: int = 500
    release_wait_max_ms: int = 1_500
    """How long a new owner waits for the old one to drain and seal; then it takes over by force."""
    failovers_at_first: int = FAILOVERS_AT_FIRST
    """This many of a dead node's partitions get their next owners at once, those in use before others."""
    idle_failover_delay_ms: int = IDLE_FAILOVER_DELAY_MS
    """The others get theirs this much later: every process has to apply each of these changes."""
    takeover_delay_ms: int = 3_000
    """After this long, a dead node's unused partitions are started if nobody has asked for them."""
    takeovers_behind_max: int = 4
    """How many of them are started at once."""
    zookeeper_session_ms: int = 6_000
    shutdown_wait_max_ms: int = 180_000
    """How long a stopping node waits for its partitions to be taken over in order, a few at a time."""
    shutdown_silence_max_ms: int = 6_000
    """It stops waiting when no controller has answered for this long."""

    def why_impossible(self) -> str:
        """Why no cluster works with these; empty when one does."""
        if self.heartbeat_interval_ms <= 0:
            return f"cluster.heartbeat_interval_ms is {self.heartbeat_interval_ms}; it has to be above 0"
        least_ms = 2 * self.heartbeat_interval_ms
        if self.node_session_timeout_ms < least_ms:
            return (
                f"cluster.node_session_timeout_ms is {self.node_session_timeout_ms}; it has to be at least twice "
                f"cluster.heartbeat_interval_ms ({least_ms}), or one late heartbeat fences a node"
            )
        return ""
