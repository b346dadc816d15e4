"""The controller's settings (units in the names)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bmq.controller.topics import TopicLimits


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """`broker_configs`: what the server's settings say under Kafka's names (num.partitions, log.retention.hours, …)."""

    cluster_id: str = ""
    broker_configs: Mapping[str, str] = field(default_factory=dict)
    topic_limits: TopicLimits = field(default_factory=TopicLimits)

    requests_waiting_max: int = 1_000
    """Requests that wait for their turn to decide; more are answered with REQUEST_TIMED_OUT at once."""
    request_wait_min_ms: int = 1_000
    """How long a request is waited for at least: clients that say 0 mean "do not wait for others", not "do not do it"."""
    request_wait_max_ms: int = 120_000
    internal_request_wait_max_ms: int = 30_000
    """For what has no timeout of its own: configs, producer ids, automatic topics."""
    close_wait_max_ms: int = 3_000
    """How long `close` waits for writes that have begun."""
    log_level: str = "INFO"
    """Shown as the level of the root logger."""

    topic_deletion_delay_ms: int = 1_000
    """Between a topic's deletion and that of its files: its owners stop and readers finish."""
    topic_deletion_retry_ms: int = 1_000
    topic_deletion_retry_max_ms: int = 60_000
    topic_deletions_parallel_max: int = 2
