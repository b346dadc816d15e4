"""The loads of bench/workloads.py against a cluster, with three replicas."""

from __future__ import annotations

from typing import Any, Final

from bench.cluster.admin import create_topic, create_topics_request, wait_for_leaders
from bench.cluster.sides import Side
from bench.workloads import Sizes, run_all

PARTITIONS: Final = 6
REPLICATION: Final = 3


def run_loads(side: Side, sizes: Sizes, raw: dict[str, Any]) -> None:
    """Every load against one fresh cluster; `raw` is given what is found."""

    def make_topic(topic: str) -> None:
        create_topic(side.addresses, create_topics_request(topic, PARTITIONS, REPLICATION))
        wait_for_leaders(side.addresses, topic, PARTITIONS)

    run_all(side, sizes, make_topic, raw)
