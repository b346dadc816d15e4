"""Clusters of many nodes in short: contexts to decide in, requests of nodes, and a state that replays what is decided."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from uuid import UUID

from bmq.controller.decision_context import DecisionContext
from bmq.controller.replica_placement import new_partition
from bmq.metadata.features import METADATA_VERSION_MAX, METADATA_VERSION_MIN, SUPPORTED_FEATURES
from bmq.metadata.image import MetadataImage, Node, PartitionImage
from bmq.metadata.state import partition_record
from bmq.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from bmq.protocol.messages.broker_registration_request import BrokerRegistrationRequest, Feature, Listener
from bmq.protocol.metadata_records import (
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    RegisterBrokerRecord,
    TopicRecord,
    decode_record,
    encode_record,
)
from tests.unit.controller.support import NODE, Cluster

NOW_MS = 1_700_000_000_000
BROKER_ROLES = ("broker", "coordinator", "proxy")
KNOWN_OFFSET = 2**40
"""A metadata offset beyond everything: the node knows all."""


def registered(
    node_id: int,
    *,
    rack: str | None = None,
    roles: Sequence[str] = BROKER_ROLES,
    fenced: bool = False,
    epoch: int = 0,
    draining: bool = False,
    incarnation: int = 0,
) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=node_id,
        incarnation_id=UUID(int=1_000 + 100 * node_id + incarnation),
        broker_epoch=epoch,
        end_points=(
            BrokerEndpoint(name="PLAINTEXT", host=f"h{node_id}", port=9_092),
            BrokerEndpoint(name="INTERNAL", host=f"h{node_id}", port=9_093),
        ),
        features=SUPPORTED_FEATURES,
        rack=rack,
        fenced=fenced,
        in_controlled_shutdown=draining,
        roles=tuple(sorted(roles)),
    )


def registration(
    node_id: int,
    incarnation: int = 0,
    *,
    cluster_id: str = "cluster",
    roles: Sequence[str] = BROKER_ROLES,
    levels: tuple[int, int] | None = (METADATA_VERSION_MIN, METADATA_VERSION_MAX),
    listeners: Sequence[Listener] | None = None,
    rack: str | None = None,
) -> BrokerRegistrationRequest:
    """`levels`: of bmq.metadata.version; None does not name the feature."""
    if listeners is None:
        names = ["PLAINTEXT"] * ("proxy" in roles or not roles) + ["INTERNAL", "REST"]
        listeners = [Listener(name=name, host=f"h{node_id}", port=9_092 + n) for n, name in enumerate(names)]
    features = []
    if levels is not None:
        features = [
            Feature(name="bmq.metadata.version", min_supported_version=levels[0], max_supported_version=levels[1])
        ]
    return BrokerRegistrationRequest(
        broker_id=node_id,
        cluster_id=cluster_id,
        incarnation_id=UUID(int=1_000 + 100 * node_id + incarnation),
        listeners=listeners,
        features=features,
        rack=rack,
        roles=roles,
    )


def heartbeat(
    node_id: int, epoch: int, *, offset: int = KNOWN_OFFSET, want_fence: bool = False, want_shut_down: bool = False
) -> BrokerHeartbeatRequest:
    return BrokerHeartbeatRequest(
        broker_id=node_id,
        broker_epoch=epoch,
        current_metadata_offset=offset,
        want_fence=want_fence,
        want_shut_down=want_shut_down,
    )


class ManyNodes(Cluster):
    """A cluster of nodes that reach each other; `take` replays records by their bytes. Floors are 0 unless set, and nothing is in use."""

    def __init__(self, *registrations: RegisterBrokerRecord) -> None:
        super().__init__(NODE)
        self.take([BrokerRegistrationChangeRecord(broker_id=NODE.node_id, fenced=1), *registrations])
        self.floors: dict[tuple[UUID, int], int] = {}
        self.in_use: set[tuple[UUID, int]] = set()

    def take(self, records: Iterable[MetadataRecord]) -> None:
        super().take([decode_record(encode_record(record)) for record in records])

    @property
    def context(self) -> DecisionContext:
        return DecisionContext(
            self.image,
            self.state.registrations,
            self.state.features,
            self.offset,
            self.floor_of,
            lambda topic_id, partition: (topic_id, partition.partition) in self.in_use,
            NOW_MS,
        )

    def floor_of(self, topic_id: UUID, partition: PartitionImage) -> int:
        return max(partition.high_watermark_floor, self.floors.get((topic_id, partition.partition), 0))

    def topic(self, name: str, replicas: Sequence[tuple[int, ...]], *, leaders: Sequence[int] | None = None) -> UUID:
        """A topic with these replicas; the first live ones lead, or `leaders`."""
        topic_id = UUID(int=10_000 + len(self.image.topics))
        records: list[MetadataRecord] = [TopicRecord(name=name, topic_id=topic_id)]
        for number, nodes in enumerate(replicas):
            partition = new_partition(number, nodes, self.context.owners)
            if leaders is not None:
                partition = replace(partition, leader=leaders[number])
            records.append(partition_record(topic_id, partition))
        self.take(records)
        return topic_id

    def partitions(self, name: str) -> tuple[PartitionImage, ...]:
        return self.image.topics[name].partitions

    def leaders(self, name: str) -> list[int]:
        return [partition.leader for partition in self.partitions(name)]


def owners_by_count(image: MetadataImage, nodes: Iterable[int]) -> dict[int, int]:
    counts = dict.fromkeys(nodes, 0)
    for topic in image.topics.values():
        for partition in topic.partitions:
            counts[partition.leader] = counts.get(partition.leader, 0) + 1
    return counts


def require_sound(image: MetadataImage, is_owner: Callable[[Node], bool] = lambda node: "broker" in node.roles) -> None:
    """Holds after every decision while somebody lives who may own partitions."""
    live = {node_id for node_id, node in image.nodes.items() if is_owner(node)}
    for topic in image.topics.values():
        for partition in topic.partitions:
            where = (topic.name, partition)
            assert len(set(partition.replicas)) == len(partition.replicas) > 0, where
            if live:
                assert partition.leader in live, where
                assert partition.leader in partition.replicas, where
                assert partition.leader in partition.isr, where
