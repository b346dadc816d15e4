"""The controller's settings (units in the names)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field

from bmq.controller.balancer import BalancerLimits
from bmq.controller.failover import FAILOVERS_AT_FIRST, IDLE_FAILOVER_DELAY_MS
from bmq.controller.topics import TopicLimits
from bmq.dataclass import dataclass

RunAside = Callable[[Callable[[], None]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """`broker_configs`: the server's settings under Kafka's names (num.partitions, log.retention.hours, …)."""

    cluster_id: str = ""
    broker_configs: Mapping[str, str] = field(default_factory=dict)
    topic_limits: TopicLimits = field(default_factory=TopicLimits)

    requests_waiting_max: int = 1_000
    """Requests that wait for their turn to decide; more are answered with REQUEST_TIMED_OUT at once."""
    request_wait_min_ms: int = 1_000
    """The least time for a request: clients that say 0 mean "do not wait for others", not "do not do it"."""
    request_wait_max_ms: int = 120_000
    internal_request_wait_max_ms: int = 30_000
    """For requests without a timeout of their own: configs, producer ids, automatic topics."""
    close_wait_max_ms: int = 3_000
    """How long `close` waits for writes that have begun."""
    run_aside: RunAside = asyncio.to_thread
    """Loads the parser of views' filters, which takes a third of a second, away from the event loop."""
    log_level: str = "INFO"
    """Shown as the level of the root logger."""

    node_session_timeout_ms: int = 2_000
    """A node that is silent for this long is fenced."""
    node_link_grace_ms: int = 100
    """A node whose connection was lost has this long to come back."""
    session_check_interval_ms: int = 250
    """Longest pause between two checks for overdue nodes."""
    failovers_at_first: int = FAILOVERS_AT_FIRST
    """This many of a dead node's partitions get their next owners at once, those in use before others."""
    idle_failover_delay_ms: int = IDLE_FAILOVER_DELAY_MS
    """Pause after one more batch of that size, before the remaining partitions get theirs."""
    failover_rest_ms: int = 2_000
    """After a failover nothing is balanced for this long: the new owners still have to start the partitions."""

    balancer_enabled: bool = True
    balancer_interval_ms: int = 1_000
    balancer: BalancerLimits = field(default_factory=BalancerLimits)
    moves_at_once: int = 50
    """Planned moves go in parts of this many, or of a twentieth of them all: idle partitions cost metadata only."""
    moves_in_use_at_once: int = 2
    """How many partitions in use are on their way to their new owners at once, before it is known how quick that is."""
    moves_in_use_at_once_max: int = 32
    """The same while each of them is quick."""
    move_pause_max_ms: int = 1_000
    """A partition whose new owner does not serve it after this long is not waited for."""
    replica_changes_at_once: int = 1_000
    """Changes to replicas of partitions that keep their owners are not urgent, so they are written in parts."""

    snapshot_records_max: int = 50_000
    """A snapshot of the metadata is due when this many records follow the last one."""
    metadata_fetch_wait_max_ms: int = 30_000
    metadata_fetch_bytes_max: int = 8 * 1024 * 1024
    metadata_fetches_max: int = 10_000
    """Metadata fetches that may wait in a long poll; further ones get REQUEST_TIMED_OUT."""
    snapshot_age_records_max: int = 5_000
    """An encoded snapshot is reused while at most this many records have followed it."""

    topic_deletion_delay_ms: int = 1_000
    """From a topic's deletion to that of its files: lets owners stop and readers finish."""
    topic_deletion_again_ms: int = 20_000
    """From the deletion of its files to a second look: an owner that was just starting may have made its directory anew,
    by a call to the store that took long, or because it heard of the deletion late."""
    topic_deletion_retry_ms: int = 1_000
    topic_deletion_retry_max_ms: int = 60_000
    topic_deletions_parallel_max: int = 2
