"""Views in the controller: which may be made, what they are in the image, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import pytest

from bmq.controller.balancer import equalize
from bmq.controller.config_alter import decide_incremental_alter_configs
from bmq.controller.failover import owned_by, owner_counts
from bmq.controller.partition_counts import decide_create_partitions
from bmq.controller.replica_placement import leader_changes
from bmq.controller.topics import TopicLimits, decide_create_topics, decide_delete_topics
from bmq.controller.views import VIEWS_PER_TOPIC_MAX
from bmq.metadata.broker_configs import BrokerConfigs
from bmq.metadata.config_keys import Operation, ResourceType
from bmq.metadata.image import MetadataImage
from bmq.metadata.state import MetadataState, registration_record
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from bmq.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from bmq.protocol.messages.create_topics_response import CreatableTopicResult
from bmq.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from bmq.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from bmq.protocol.metadata_records import PartitionChangeRecord, PartitionRecord
from tests.unit.proxy_fetch.cluster import NODE

pytestmark = pytest.mark.unit

BROKER = BrokerConfigs({}, {}, {})


class Cluster:
    """The metadata of a cluster of one node; requests are decided and replayed."""

    def __init__(self) -> None:
        self.state = MetadataState("c", NODE.node_id, {})
        self.state.replay(registration_record(NODE, UUID(int=1), 1))
        self.offset = 0
        self.ids = iter(range(10, 10_000))

    @property
    def image(self) -> MetadataImage:
        self.offset += 1
        return self.state.image_at(self.offset)

    def create(
        self,
        name: str,
        configs: Mapping[str, str] | None = None,
        *,
        limits: TopicLimits | None = None,
        **fields: Any,
    ) -> CreatableTopicResult:
        wanted = CreatableTopic(
            name=name,
            configs=[CreatableTopicConfig(name=one, value=value) for one, value in (configs or {}).items()],
            **{"num_partitions": -1, "replication_factor": -1, **fields},
        )
        return self.create_all([wanted], limits)[0]

    def create_all(
        self, wanted: Sequence[CreatableTopic], limits: TopicLimits | None = None
    ) -> Sequence[CreatableTopicResult]:
        ids = [UUID(int=next(self.ids)) for _ in wanted]
        request = CreateTopicsRequest(topics=wanted, timeout_ms=1000)
        decision = decide_create_topics(self.image, request, BROKER, limits or TopicLimits(), ids)
        self.records = list(decision.records)
        for record in self.records:
            self.state.replay(record)
        return decision.response.topics

    def view(self, name: str, base: str = "t", text: str = "tag = 'a'", **fields: Any) -> CreatableTopicResult:
        return self.create(name, {"bmq.view.of": base, "bmq.view.filter": text}, **fields)

    def delete(self, *names: str) -> dict[str, tuple[int, str | None]]:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names], timeout_ms=1000)
        decision = decide_delete_topics(self.image, request)
        for record in decision.records:
            self.state.replay(record)
        return {one.name or "": (one.error_code, one.error_message) for one in decision.response.responses}

    def alter(self, topic: str, name: str, value: str) -> tuple[int, str | None]:
        config = AlterableConfig(name=name, config_operation=Operation.SET, value=value)
        resource = AlterConfigsResource(resource_type=ResourceType.TOPIC, resource_name=topic, configs=[config])
        request = IncrementalAlterConfigsRequest(resources=[resource])
        decision = decide_incremental_alter_configs(self.image, request, BROKER, NODE.node_id)
        (answer,) = decision.response.responses
        return answer.error_code, answer.error_message

    def grow(self, topic: str, count: int) -> tuple[int, str | None]:
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=topic, count=count, assignments=None)], timeout_ms=1000
        )
        decision = decide_create_partitions(self.image, request, TopicLimits())
        for record in decision.records:
            self.state.replay(record)
        (answer,) = decision.response.results
        return answer.error_code, answer.error_message


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    assert made.create("t", num_partitions=3).error_code == 0
    return made


def test_a_view_has_its_own_id_and_the_bases_partitions(cluster: Cluster) -> None:
    made = cluster.view("v")
    assert (made.error_code, made.num_partitions, made.replication_factor) == (0, 3, 1)
    assert not any(isinstance(record, PartitionRecord) for record in cluster.records)
    image = cluster.image
    view, base = image.topics["v"], image.topics["t"]
    assert view.topic_id == made.topic_id != base.topic_id
    assert view.partitions == base.partitions and view.log_id == base.topic_id
    assert view.view is not None
    assert (view.view.base_name, view.view.base_id, view.view.filter) == ("t", base.topic_id, "tag = 'a'")
    assert image.partition_count == 3
    assert [one.name for one in image.logs()] == ["t"]
    assert image.partition(view.topic_id, 0) is None and image.partition(base.topic_id, 0) is not None
    assert cluster.view("same", num_partitions=3).error_code == 0


def test_partitions_and_owners_follow_the_base(cluster: Cluster) -> None:
    cluster.view("v")
    assert cluster.grow("t", 5) == (0, None)
    base = cluster.image.topics["t"]
    assert len(cluster.image.topics["v"].partitions) == 5
    change = PartitionChangeRecord(partition_id=1, topic_id=base.topic_id, leader=7)
    cluster.state.replay(change)
    assert cluster.image.topics["v"].partitions[1].leader == 7
    assert cluster.image.topics["v"].view == cluster.image.views[cluster.image.topics["v"].topic_id].view


def test_an_image_from_a_snapshot_is_the_same(cluster: Cluster) -> None:
    cluster.view("v")
    loaded = MetadataState("c", NODE.node_id, {})
    loaded.replay_snapshot(cluster.state.snapshot())
    assert loaded.image_at(99).topics == cluster.image.topics
    assert loaded.image_at(99).views == cluster.image.views
    assert loaded.image_at(99).partition_count == 3


def test_owners_are_decided_for_logs_alone(cluster: Cluster) -> None:
    cluster.view("v")
    image = cluster.image
    base_id = image.topics["t"].topic_id
    assert {topic_id for topic_id, _ in owned_by(image, NODE.node_id)} == {base_id}
    assert owner_counts(image, image.nodes) == {NODE.node_id: 3}
    changes = leader_changes(image, {5: NODE})
    assert changes and {change.topic_id for change in changes} == {base_id}
    moves = equalize(image, {NODE.node_id: NODE, 5: NODE}, lambda key: True, 100)
    assert moves and {move.topic_id for move in moves} == {base_id}
    for change in changes:
        cluster.state.replay(change)
    assert cluster.image.topics["v"].partitions == cluster.image.topics["t"].partitions


@pytest.mark.parametrize(
    ("name", "base", "text", "fields", "code", "sentence"),
    [
        ("v", "v", "TRUE", {}, ErrorCode.INVALID_CONFIG, "cannot show itself"),
        ("v", "gone", "TRUE", {}, ErrorCode.INVALID_CONFIG, "There is no topic 'gone'"),
        ("w", "v", "TRUE", {}, ErrorCode.INVALID_CONFIG, "'v' is a view itself: make one of 't'"),
        ("w", "__consumer_offsets", "TRUE", {}, ErrorCode.INVALID_CONFIG, "internal topic"),
        ("w", "t", "", {}, ErrorCode.INVALID_CONFIG, "the filter is empty"),
        ("w", "t", "value = 'x'", {}, ErrorCode.INVALID_CONFIG, "does not look at the value"),
        ("w", "t", "(" * 10_000, {}, ErrorCode.INVALID_CONFIG, "bytes, 8192 are allowed"),
        ("w", "t", "x" * 1_000_000, {}, ErrorCode.INVALID_CONFIG, "maximum value size"),
        ("w", "", "TRUE", {}, ErrorCode.INVALID_CONFIG, "has to name the topic"),
        ("w", "t", "TRUE", {"num_partitions": 4}, ErrorCode.INVALID_PARTITIONS, "which are 3"),
        ("t", "t", "TRUE", {}, ErrorCode.TOPIC_ALREADY_EXISTS, "already exists"),
        (
            "w", "t", "TRUE",
            {"assignments": [CreatableReplicaAssignment(partition_index=0, broker_ids=[1])]},
            ErrorCode.INVALID_REQUEST, "not assigned to nodes",
        ),
    ],
)  # fmt: skip
def test_what_is_no_view_is_refused(
    cluster: Cluster, name: str, base: str, text: str, fields: dict[str, object], code: ErrorCode, sentence: str
) -> None:
    if name != "v":
        cluster.view("v")
    cluster.create("__consumer_offsets")
    before = cluster.image.topics
    made = cluster.view(name, base, text, **fields)
    assert made.error_code == code
    assert sentence in (made.error_message or "") and "\n" not in (made.error_message or "")
    assert cluster.image.topics == before


def test_a_view_has_no_configs_of_a_log(cluster: Cluster) -> None:
    configs = {"bmq.view.of": "t", "bmq.view.filter": "TRUE", "retention.ms": "1"}
    made = cluster.create("v", configs)
    assert made.error_code == ErrorCode.INVALID_CONFIG
    assert "retention.ms is set for t" in (made.error_message or "")
    assert cluster.view("v").error_code == 0
    code, message = cluster.alter("v", "retention.ms", "1")
    assert code == ErrorCode.INVALID_CONFIG and "no log of its own" in (message or "")


def test_what_makes_a_view_never_changes(cluster: Cluster) -> None:
    cluster.view("v")
    for topic, name, value in (
        ("v", "bmq.view.filter", "tag = 'b'"),
        ("v", "bmq.view.of", "u"),
        ("t", "bmq.view.of", "v"),
        ("t", "bmq.view.filter", "TRUE"),
    ):
        code, message = cluster.alter(topic, name, value)
        assert code == ErrorCode.INVALID_CONFIG and "make another view" in (message or "")


def test_a_view_does_not_grow_by_itself(cluster: Cluster) -> None:
    cluster.view("v")
    code, message = cluster.grow("v", 9)
    assert code == ErrorCode.POLICY_VIOLATION and "no log of its own" in (message or "")


def test_a_base_is_deleted_behind_its_views(cluster: Cluster) -> None:
    cluster.view("v")
    cluster.view("w")
    code, message = cluster.delete("t")["t"]
    assert code == ErrorCode.POLICY_VIOLATION and message == "'t' has views: delete 'v', 'w' first."
    assert cluster.delete("t", "v")["t"][0] == ErrorCode.POLICY_VIOLATION
    assert "v" not in cluster.image.topics and "t" in cluster.image.topics
    assert cluster.delete("t", "w") == {"w": (0, None), "t": (0, None)}
    image = cluster.image
    assert not image.topics and not image.views and image.partition_count == 0


def test_a_name_may_be_a_view_and_then_a_topic(cluster: Cluster) -> None:
    cluster.view("v")
    cluster.delete("v")
    assert cluster.create("v", num_partitions=2).error_code == 0
    image = cluster.image
    assert image.topics["v"].view is None and image.partition_count == 5 and not image.views


def test_views_of_a_topic_are_bounded_and_need_no_room_for_partitions(cluster: Cluster) -> None:
    full = TopicLimits(partitions_max=3)
    for number in range(VIEWS_PER_TOPIC_MAX - 1):
        assert cluster.view(f"v{number}", limits=full).error_code == 0
    configs = [
        CreatableTopicConfig(name="bmq.view.of", value="t"),
        CreatableTopicConfig(name="bmq.view.filter", value="TRUE"),
    ]
    last = [
        CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, configs=configs)
        for name in ("last", "over")
    ]
    codes = [one.error_code for one in cluster.create_all(last)]
    assert codes == [0, ErrorCode.POLICY_VIOLATION]
