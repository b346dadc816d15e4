"""Produces to a topic with delay, all records delayed, and the same records to a topic without."""

from __future__ import annotations

from typing import Any, Final

from bench.cluster.sides import Side
from bench.loads.client import Client
from bench.queues.timers.criteria import DELAYED, INSERT_BYTES, UNDELAYED
from bench.queues.timers.delayed import make_topic

PARTITIONS: Final = 6
REPLICATION: Final = 1
DELAY_MS: Final = 30 * 86_400_000
WARM_S: Final = 2.0


def measure(side: Side, client: Client, seconds: float, number: int, pair: dict[str, Any]) -> None:
    """One pair: both topics are new, and who comes first changes. Raises LoadFailed, AdminFailed."""
    order = (DELAYED, UNDELAYED)[:: 1 if number % 2 == 0 else -1]
    for name, record_bytes in INSERT_BYTES.items():
        for kind in order:
            topic = f"{kind}-{name}-{number}"
            make_topic(side.addresses, topic, PARTITIONS, REPLICATION, has_delay=kind == DELAYED)
            found = client.produce(
                side.bootstrap, side.pids, topic, PARTITIONS,
                record_bytes=record_bytes, warm_s=WARM_S, seconds=seconds, delay_ms=DELAY_MS,
            )  # fmt: skip
            pair.setdefault(name, {})[kind] = found
