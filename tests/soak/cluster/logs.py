"""What nodes logged that should be known, or should not be there."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from tests.support.cluster import ClusterNode

# What only a mistake of ours makes Python say.
MISTAKES: Final = (
    "Traceback (most recent call last)",
    "was never retrieved",
    "was never awaited",
    "Task was destroyed",
)


def log_events(nodes: Iterable[ClusterNode]) -> Counter[str]:
    """How often each event of level warning or above was logged, as `level event`."""
    found: Counter[str] = Counter()
    for node in nodes:
        for line in node.process.log_file.read_text(errors="replace").splitlines():
            event = _parsed(line)
            if event.get("level") in ("warning", "error", "critical"):
                found[f"{event['level']} {event.get('event')}"] += 1
    return found


def mistakes(nodes: Iterable[ClusterNode]) -> list[str]:
    """What should not be in any log."""
    return [
        f"node {node.node_id} logged {sign!r}: {node.process.log_file}"
        for node in nodes
        for sign in MISTAKES
        if sign in node.process.log_file.read_text(errors="replace")
    ]


def _parsed(line: str) -> Mapping[str, Any]:
    if not line.startswith("{"):
        return {}
    try:
        event = json.loads(line)
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}
