"""What nodes logged that should be known, or should not be there."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from testing.cluster import ClusterNode

# What only a mistake of ours makes Python say.
MISTAKES: Final = (
    "Traceback (most recent call last)",
    "was never retrieved",
    "was never awaited",
    "Task was destroyed",
)


def log_events(nodes: Iterable[ClusterNode]) -> Counter[str]:
    """How often each event of level warning or above was logged, as `level event`."""
    return Counter(
        f"{event['level']} {event.get('event')}"
        for node in nodes
        for event in _events(node)
        if event.get("level") in ("warning", "error", "critical")
    )


def partitions_offline(nodes: Iterable[ClusterNode]) -> list[str]:
    """Partitions that wait for an operator's decision since, and why."""
    return [
        f"node {node.node_id} took {event.get('topic')}-{event.get('partition')} offline: {event.get('reason')}"
        for node in nodes
        for event in _events(node)
        if event.get("event") == "partition_offline"
    ]


def mistakes(nodes: Iterable[ClusterNode]) -> list[str]:
    """What should not be in any log."""
    return [
        f"node {node.node_id} logged {sign!r}: {node.process.log_file}"
        for node in nodes
        for sign in MISTAKES
        if sign in node.process.log_file.read_text(errors="replace")
    ]


def _events(node: ClusterNode) -> Iterator[Mapping[str, Any]]:
    return map(_parsed, node.process.log_file.read_text(errors="replace").splitlines())


def _parsed(line: str) -> Mapping[str, Any]:
    if not line.startswith("{"):
        return {}
    try:
        event = json.loads(line)
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}
