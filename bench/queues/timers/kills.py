"""Nodes are killed while delayed records are held and delivered: what was lost, doubled, or came too early."""

from __future__ import annotations

import threading
import time
from random import Random
from typing import Any, Final

from bench.cluster.sides import Side
from bench.findings import say
from bench.queues.timers.delayed import DelayedConsumer, DelayedProducer, make_topic
from bench.workloads import LoadFailed

TOPIC: Final = "killed-timers"
PARTITIONS: Final = 6
REPLICATION: Final = 3
RATE_PER_S: Final = 1_000
DELAYS_MS: Final = (0, 15_000)
BETWEEN_S: Final = (0.5, 2.0)
DOWN_S: Final = (0.5, 1.5)
DRAIN_S: Final = 120.0
SEED: Final = 1


class _Producing(threading.Thread):
    """At a fixed rate, until it is told to end."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.producer = DelayedProducer(bootstrap, TOPIC, PARTITIONS)
        self.finish = threading.Event()

    def run(self) -> None:
        random, count, began_s = Random(SEED), 0, time.monotonic()
        while not self.finish.is_set():
            self.producer.produce(int(time.time() * 1000) + random.randint(*DELAYS_MS))
            count += 1
            self.finish.wait(max(0.0, began_s + count / RATE_PER_S - time.monotonic()))


class _Reading(threading.Thread):
    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.consumer = DelayedConsumer(bootstrap, TOPIC, PARTITIONS)
        self.finish = threading.Event()

    def run(self) -> None:
        while not self.finish.is_set():
            self.consumer.poll()


def measure(side: Side, kills: int) -> dict[str, Any]:
    """Raises LoadFailed, AdminFailed."""
    make_topic(side.addresses, TOPIC, PARTITIONS, REPLICATION)
    producing, reading = _Producing(side.bootstrap), _Reading(side.bootstrap)
    producing.start()
    reading.start()
    random, began_s = Random(SEED), time.monotonic()
    for number in range(kills):
        time.sleep(random.uniform(*BETWEEN_S))
        victim = random.choice(list(side.broker_ids))
        say(f"  kill {number + 1} of {kills}: node {victim}")
        side.nodes[victim].kill()
        time.sleep(random.uniform(*DOWN_S))
        side.nodes[victim].start()
        side.wait_whole()
    producing.finish.set()
    producing.join()
    acknowledged = producing.producer.finish()
    received = reading.consumer.received
    deadline_s = time.monotonic() + DRAIN_S
    while time.monotonic() < deadline_s and not acknowledged.due_ms.keys() <= received.times.keys():
        time.sleep(0.5)
    time.sleep(DELAYS_MS[1] / 1000)  # what would come a second time
    reading.finish.set()
    reading.join()
    reading.consumer.close()
    if len(acknowledged.due_ms) < kills:
        raise LoadFailed(f"only {len(acknowledged.due_ms)} records were acknowledged")
    return {
        "kills": kills,
        "records": len(acknowledged.due_ms),
        "refused": len(acknowledged.failed),
        "seconds": round(time.monotonic() - began_s, 1),
        **received.wrong(acknowledged),
    }
