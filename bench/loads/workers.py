"""One node beside two of them on the same two cores, under a client in C that costs next to nothing.

The nodes are what `bmq node --workers` runs under its supervisor: processes side by side, each a proxy and a broker.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from bench.cluster.filling import fill
from bench.cluster.sides import Side
from bench.core.client import Client, Load
from bench.core.frames import fetch_frames, produce_frames
from bench.core.loads import BATCH_1K, FETCH_STEP, FETCHED_LEAST, IN_FLIGHT
from bench.loads.loads import PARTITIONS, RECORD_BYTES, make_topic
from bench.loads.plan import Plan
from bench.workloads import settle

BACKLOG: Final = "backlog"
PRODUCED: Final = "produced"
CONNECTIONS: Final = 4
"""To all nodes together, so that one node and two are asked for the same."""


def measure(side: Side, plan: Plan, directory: Path) -> dict[str, Any]:
    """MB/s of fetches from, and of produces to, all nodes of the side together. Raises LoadFailed, FillFailed."""
    replication = 1  # more than there are nodes is refused; HDFS keeps three in any case
    make_topic(side, BACKLOG, PARTITIONS, replication)
    make_topic(side, PRODUCED, PARTITIONS, replication)
    fill(side.bootstrap, BACKLOG, PARTITIONS, PARTITIONS * plan.workers_backlog_bytes, RECORD_BYTES)
    ports = [int(address.rpartition(":")[2]) for address in side.addresses]
    clients = [Client(directory / f"client-{number}", None) for number in range(len(ports))]
    each = CONNECTIONS // len(ports)
    offsets = range(0, plan.workers_backlog_bytes // RECORD_BYTES - 2 * FETCH_STEP, FETCH_STEP)
    now_ms = int(time.time() * 1000)
    batches = produce_frames(PRODUCED, [range(PARTITIONS)], RECORD_BYTES, BATCH_1K, now_ms)
    loads = {
        "fetch": Load(fetch_frames(BACKLOG, PARTITIONS, offsets), each, 1, 0, FETCHED_LEAST),
        "produce": Load(batches, each, IN_FLIGHT),
    }
    found: dict[str, Any] = {}
    with ThreadPoolExecutor(len(ports)) as threads:
        for name, load in loads.items():
            settle()
            # Both at once: each client to a node of its own.
            under_way = [
                threads.submit(client.put, port, {}, load, warm_s=plan.warm_s, seconds=plan.seconds)
                for client, port in zip(clients, ports, strict=True)
            ]
            found[name] = [one.result() for one in under_way]
    value_bytes = sum(one["answers"] for one in found["produce"]) * batches.records * RECORD_BYTES
    return {
        **found,
        "fetch_mb_per_s": sum(one["received_bytes"] for one in found["fetch"]) / plan.seconds / 1e6,
        "produce_mb_per_s": value_bytes / plan.seconds / 1e6,
    }
