"""Settings of the cluster's internal protocols (units in the names)."""

from __future__ import annotations

from random import Random

from bmq.aio.backoff import Backoff
from bmq.controller.failover import FAILOVERS_AT_FIRST, IDLE_FAILOVER_DELAY_MS
from bmq.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """The table `[cluster]` of a node's settings."""

    heartbeat_interval_ms: int = 500
    """How often a node sends a heartbeat to the controller."""
    heartbeat_timeout_ms: int = 2_000
    """Candidates depose a controller that is silent for this time."""
    node_session_timeout_ms: int = 2_000
    """A node that is silent for this time is fenced, and its partitions move.

    Kafka: broker.session.timeout.ms."""
    registration_timeout_ms: int = 10_000
    """The same while a node registers, is let in, or stops: the controller has to write first."""
    report_interval_ms: int = 1_000
    """How often high watermarks and load are reported, where they changed."""
    report_interval_min_ms: int = 10
    """The same after a partition has begun to be served.

    The controller may wait for that."""
    metadata_wait_max_ms: int = 5_000
    """How long one poll for metadata waits at the controller."""
    metadata_fetch_bytes_max: int = 4 * 1024 * 1024
    """Metadata records in one answer."""
    registration_wait_max_ms: int = 30_000
    """How long a node tries to register before it ends with a sentence.

    An earlier process may still seem alive."""
    retry_min_ms: int = 20
    """First pause between tries to reach the controller."""
    retry_max_ms: int = 500
    """Longest of them."""
    release_wait_max_ms: int = 1_500
    """How long a new owner waits for the old one to hand a partition over; then it takes it."""
    failovers_at_first: int = FAILOVERS_AT_FIRST
    """This many of a dead node's partitions get their next owners at once, those in use first."""
    idle_failover_delay_ms: int = IDLE_FAILOVER_DELAY_MS
    """The same number follows at once; the others get theirs after this delay."""
    takeover_delay_ms: int = 3_000
    """When the unused partitions of a dead node are started without a request; those in use start at once."""
    takeovers_behind_max: int = 4
    """How many of these start at the same time."""
    zookeeper_session_ms: int = 6_000
    """ZooKeeper session; the backstop for dead nodes."""
    store_silence_max_ms: int = 5_000
    """A node that has not reached HDFS for this time says so. If another one can write, it takes the partitions over.

    `0`: nodes do not look, and keep their partitions."""
    shutdown_wait_max_ms: int = 180_000
    """How long a stopping node waits for its partitions to move, besides `stop_timeout_ms`."""
    shutdown_silence_max_ms: int = 6_000
    """It stops waiting when no controller has answered it for this time."""

    def retry_backoff(self, random: Random) -> Backoff:
        """The pauses between tries to reach the controller or the metadata log."""
        return Backoff(random, first_s=self.retry_min_ms / 1000, max_s=self.retry_max_ms / 1000)

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
