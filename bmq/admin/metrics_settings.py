"""How many series /metrics has, and how long a scrape may take."""

from __future__ import annotations

from bmq.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """Bounds of /metrics."""

    topics_max: int = 200
    """Topics with series of their own at `/metrics`; the others are added up as `(other)`."""
    group_topics_max: int = 200
    """Pairs of group and topic with series of their own at `/metrics`, those with the most lag; the others are added up."""
    scrape_wait_ms: int = 1_000
    """How long a scrape waits for the ends of logs that other nodes own; without an answer the last known end counts."""
