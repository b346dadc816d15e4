"""What a supervisor of workers (`bmq node --workers N`) says of them in its log, as JSON."""

from __future__ import annotations

import re
from typing import Final

STARTED: Final = re.compile(r'"node_id": (\d+), "pid": (\d+), "event": "worker_started"')


def started_pids(log: str, node_id: int | None = None) -> list[int]:
    """Process ids in the order of the starts: of one node's workers, or of all."""
    return [int(pid) for node, pid in STARTED.findall(log) if node_id is None or int(node) == node_id]
