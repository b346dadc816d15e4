"""CPU the active controller spends on a big cluster: `python -m bench.micro_controller`.

Decisions and state only, no log and no network: a node with a third of the partitions is fenced, partitions are evened out,
one changes, and a snapshot is made and replayed. Figures are CPU milliseconds, the median of the repeats.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from bmq.controller.balancer import equalize
from bmq.controller.decision_context import DecisionContext
from bmq.controller.moves import move_records
from bmq.controller.node_registration import decide_fencing
from bmq.controller.node_sessions import Overdue
from bmq.controller.replica_placement import new_partition, place
from bmq.metadata.broker_configs import static_configs
from bmq.metadata.image import Node
from bmq.metadata.state import MetadataState, partition_record
from bmq.protocol.metadata_records import (
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    TopicRecord,
    decode_record,
    encode_record,
)

NODES = (1, 2, 3)
FIRST_TOPIC = UUID(int=1_000)
REPLAY_BOUND_MS = 700.0
CHANGE_BOUND_MS = 20.0


class BigCluster:
    """Three nodes and the partitions of `topics` topics; `take` goes through the records' bytes, as a log does."""

    def __init__(self, topics: int, partitions_per_topic: int) -> None:
        self.state = _empty_state()
        self.offset = 0
        self.take([_registration(node_id) for node_id in NODES])
        nodes = self.state.image_at(self.offset).nodes
        for number in range(topics):
            topic_id = UUID(int=FIRST_TOPIC.int + number)
            records: list[MetadataRecord] = [TopicRecord(name=f"topic-{number}", topic_id=topic_id)]
            for index, replicas in enumerate(place(nodes, partitions_per_topic, len(NODES), number)):
                records.append(partition_record(topic_id, new_partition(index, replicas, nodes)))
            self.take(records)

    def take(self, records: Sequence[MetadataRecord]) -> None:
        for value in [encode_record(record) for record in records]:
            self.state.replay(decode_record(value))
        self.offset += len(records)

    @property
    def context(self) -> DecisionContext:
        return DecisionContext(
            self.state.image_at(self.offset),
            self.state.registrations,
            self.state.features,
            self.offset,
            lambda topic_id, partition: partition.high_watermark_floor,
            lambda topic_id, partition: False,
            time.time_ns() // 1_000_000,
        )

    def change_one(self) -> None:
        self.take([PartitionChangeRecord(partition_id=0, topic_id=FIRST_TOPIC, leader=2, reason="by hand")])
        self.state.image_at(self.offset)

    def fence_one(self) -> None:
        self.take(decide_fencing(self.context, [Overdue(3, 0, "was silent for 2 s")]).records)
        self.state.image_at(self.offset)

    def even_out(self) -> None:
        context = self.context
        moves = equalize(context.image, context.owners, lambda key: True, context.image.partition_count)
        self.take(move_records(context, moves))
        self.state.image_at(self.offset)


def measure(topics: int, partitions_per_topic: int) -> dict[str, float]:
    """Milliseconds by what was done."""
    cluster = BigCluster(topics, partitions_per_topic)
    cluster.change_one()
    measured = {"change_ms": _cpu_ms(cluster.change_one), "fence_ms": _cpu_ms(cluster.fence_one)}
    cluster.take([BrokerRegistrationChangeRecord(broker_id=3, fenced=-1)])
    measured["even_out_ms"] = _cpu_ms(cluster.even_out)
    snapshots: list[bytes] = []
    measured["snapshot_ms"] = _cpu_ms(lambda: snapshots.append(cluster.state.snapshot()))
    again = _empty_state()

    def replay() -> None:
        again.replay_snapshot(snapshots[0])
        again.image_at(cluster.offset)

    measured["replay_ms"] = _cpu_ms(replay)
    return measured


def _cpu_ms(work: Callable[[], None]) -> float:
    began_s = time.process_time()
    work()
    return (time.process_time() - began_s) * 1000


def _empty_state() -> MetadataState:
    return MetadataState("cluster", 1, static_configs(Node(1, "127.0.0.1", 9092), {}))


def _registration(node_id: int) -> RegisterBrokerRecord:
    endpoints = (
        BrokerEndpoint(name="PLAINTEXT", host=f"node-{node_id}", port=9092),
        BrokerEndpoint(name="INTERNAL", host=f"node-{node_id}", port=9093),
    )
    return RegisterBrokerRecord(
        broker_id=node_id, incarnation_id=UUID(int=node_id), broker_epoch=0, end_points=endpoints, fenced=False
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    report: dict[str, Any] = {"partitions": options.partitions, "medians": {}}
    for topics in (1, 100, options.partitions):
        samples = [measure(topics, options.partitions // topics) for _ in range(options.repeats)]
        report["medians"][f"{topics}_topics"] = {
            name: round(statistics.median(sample[name] for sample in samples), 2) for name in samples[0]
        }
    worst = {name: max(each[name] for each in report["medians"].values()) for name in ("replay_ms", "change_ms")}
    report["criteria"] = [
        {"id": name, "value": worst[name], "op": "<=", "bound": bound, "holds": worst[name] <= bound}
        for name, bound in (("replay_ms", REPLAY_BOUND_MS), ("change_ms", CHANGE_BOUND_MS))
    ]
    json.dump(report, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
