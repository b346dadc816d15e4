"""A cluster grows from one broker to three and shrinks to two, by REST, under a producer."""

from __future__ import annotations

import time
from typing import Any, Final

from bench.cluster.admin import AdminFailed
from bench.cluster.faults import TOPIC, make_topic
from bench.cluster.gaps import lost_or_doubled
from bench.cluster.sides import BmqSide
from bench.cluster.steady import NUMBER_BYTES, SteadyLoad
from testing.steady_load import read_everything

PARTITIONS: Final = 24
RATE: Final = 600.0
CALM_S: Final = 2.0
SETTLED_WAIT_S: Final = 60.0
POLL_S: Final = 0.05
STEPS: Final = (3, 2)


def environment(directory: str) -> dict[str, str]:
    """For nodes that start others on this machine."""
    return {"BMQ_SCALE__DRIVER": "local", "BMQ_SCALE__DIRECTORY": directory}


def measure(side: BmqSide) -> dict[str, Any]:
    """Each step from its order until so many brokers are there and own as much as each other, one partition more or less."""
    make_topic(side, PARTITIONS, replication=1)
    steps = []
    with SteadyLoad(side.bootstrap, TOPIC, PARTITIONS, RATE, NUMBER_BYTES) as load:
        load.wait_until_flowing()
        for brokers in STEPS:
            time.sleep(CALM_S)
            began = time.monotonic()
            side.rest("POST", "/v1/scale", {"brokers": brokers})
            settled_s = _wait_settled(side, brokers, began)
            load.wait_until_flowing()
            steps.append(
                {
                    "brokers": brokers,
                    "settled_s": round(settled_s, 3),
                    **load.seen.gaps(began, time.monotonic()),
                    "owned": _owned(side),
                }
            )
        time.sleep(CALM_S)
        load.finish()
        found = read_everything(side.bootstrap, TOPIC, PARTITIONS)
        return {
            "steps": steps,
            "client_errors": len(load.failed),
            "lost_or_doubled": lost_or_doubled(load.seen.places(), load.seen.placeless(), found),
            "load": load.facts(),
        }


def _owned(side: BmqSide) -> dict[int, int]:
    """Partitions of all topics by broker."""
    nodes = side.rest("GET", "/v1/cluster")["nodes"]
    return {node["node_id"]: node["partitions_led"] for node in nodes if "broker" in node["roles"]}


def _wait_settled(side: BmqSide, brokers: int, began: float) -> float:
    owned: dict[int, int] = {}
    while time.monotonic() - began < SETTLED_WAIT_S:
        owned = _owned(side)
        settled_s = time.monotonic() - began
        if len(owned) == brokers and max(owned.values()) - min(owned.values()) <= 1:
            return settled_s
        time.sleep(POLL_S)
    raise AdminFailed(f"not {brokers} brokers with equal shares within {SETTLED_WAIT_S:g} s: {owned}")
