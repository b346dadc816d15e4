"""Creating and deleting topics and adding partitions: codes and words are what a Kafka 4.3 node answered."""

from __future__ import annotations

from uuid import UUID

import pytest

from bmq.controller.decision import Decision
from bmq.controller.partition_counts import decide_create_partitions
from bmq.controller.topics import TopicLimits, decide_create_topics, decide_delete_topics
from bmq.metadata.image import MetadataImage, Node
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from bmq.protocol.messages.create_topics_response import CreateTopicsResponse
from bmq.protocol.metadata_records import RemoveTopicRecord, TopicRecord
from tests.unit.controller.support import BROKER, NODE, Cluster, create, delete, grow, topic

pytestmark = pytest.mark.unit

LIMITS = TopicLimits()


def decide(
    image: MetadataImage, request: CreateTopicsRequest, limits: TopicLimits = LIMITS
) -> Decision[CreateTopicsResponse]:
    ids = [UUID(int=1_000 + len(image.topics) + n) for n in range(len(request.topics))]
    return decide_create_topics(image, request, BROKER, limits, ids)


def cluster_with(*topics: CreatableTopic, nodes: tuple[Node, ...] = ()) -> Cluster:
    cluster = Cluster(*nodes)
    for wanted in topics:
        cluster.take(decide(cluster.image, create(wanted)).records)
    return cluster


def refusal(image: MetadataImage, wanted: CreatableTopic) -> tuple[ErrorCode, str]:
    decision = decide(image, create(wanted))
    (result,) = decision.response.topics
    assert not decision.records
    assert (result.topic_id, result.num_partitions, result.replication_factor) == (None, -1, -1)
    return ErrorCode(result.error_code), result.error_message or ""


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "Topic name is invalid: the empty string is not allowed"),
        (".", "Topic name is invalid: '.' is not allowed"),
        ("..", "Topic name is invalid: '..' is not allowed"),
        (
            "a b",
            "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
        ),
        (
            "é",
            "Topic name is invalid: 'é' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
        ),
        (
            "x" * 250,
            f"Topic name is invalid: the length of '{'x' * 250}' is longer than the max allowed length 249",
        ),
        ("my_topic.x", "Topic 'my_topic.x' collides with existing topic: my.topic_x"),
    ],
)
def test_bad_names(name: str, message: str) -> None:
    image = cluster_with(topic("my.topic_x")).image
    assert refusal(image, topic(name)) == (ErrorCode.INVALID_TOPIC_EXCEPTION, message)


def test_names_at_the_edge_are_fine() -> None:
    image = cluster_with(topic("x" * 249), topic("a-B_9.z"), topic("...")).image
    assert set(image.topics) == {"x" * 249, "a-B_9.z", "..."}


@pytest.mark.parametrize(
    ("wanted", "code", "message"),
    [
        (topic("there"), ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'there' already exists."),
        (
            topic("__cluster_metadata"),
            ErrorCode.INVALID_REQUEST,
            "Creation of internal topic __cluster_metadata is prohibited.",
        ),
        (
            topic("t", 0),
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value: 0.",
        ),
        (
            topic("t", -2),
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value: -2.",
        ),
        (
            topic("t", 2**31 - 1),
            ErrorCode.POLICY_VIOLATION,
            "Excessively large number of partitions per request: 2147483647, 10000 are allowed.",
        ),
        (
            topic("t", 1, 0),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value, but it is 0.",
        ),
        (
            topic("t", 1, 2),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Unable to replicate the partition 2 time(s): The target replication factor of 2 cannot be reached because "
            "only 1 broker(s) are registered.",
        ),
        (
            topic("t", configs={"retention.ms": None}),
            ErrorCode.INVALID_CONFIG,
            "Null value not supported for topic configs: retention.ms",
        ),
        (topic("t", configs={"nope": "1"}), ErrorCode.INVALID_CONFIG, "Unknown topic config name: nope"),
        (
            topic("t", 2, -1, assignments=[(0, (1,))]),
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        ),
        (
            topic("t", -1, 1, assignments=[(0, (1,))]),
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        ),
        (
            topic("t", -1, -1, assignments=[(0, (1,)), (2, (1,))]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            topic("t", -1, -1, assignments=[(0, (1,)), (0, (1,))]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Found multiple manual partition assignments for partition 0",
        ),
        (
            topic("t", -1, -1, assignments=[(0, (9,))]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        (
            topic("t", -1, -1, assignments=[(0, (1, 1))]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes the broker 1 more than once.",
        ),
        (
            topic("t", -1, -1, assignments=[(0, ())]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes an empty replica list.",
        ),
        (
            topic("t", configs={"bmq.retry.levels": "1s"}),
            ErrorCode.INVALID_CONFIG,
            "bmq.retry.levels is for topics named TOPIC.retry.GROUP, and not for t",
        ),
    ],
)
def test_bad_topics(wanted: CreatableTopic, code: ErrorCode, message: str) -> None:
    assert refusal(cluster_with(topic("there")).image, wanted) == (code, message)


def test_uneven_manual_assignment() -> None:
    image = Cluster(NODE, Node(2, "b", 2)).image
    code, message = refusal(image, topic("t", -1, -1, assignments=[(0, (1,)), (1, (1, 2))]))
    assert code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert "2 replica(s)" in message and "have 1 replica(s)" in message


def test_created_topic_is_answered_with_all_its_configs() -> None:
    cluster = Cluster()
    decision = decide(cluster.image, create(topic("t", 3, configs={"retention.ms": " 1000 "})))
    (result,) = decision.response.topics
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 3, 1)
    configs = {config.name: config for config in result.configs or ()}
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("1000", 1)
    assert (configs["max.message.bytes"].value, configs["max.message.bytes"].config_source) == ("1048588", 5)
    assert (configs["segment.bytes"].value, configs["segment.bytes"].config_source) == ("134217728", 4)
    cluster.take(decision.records)
    made = cluster.image.topics["t"]
    assert made.topic_id == result.topic_id
    assert [(p.partition, p.leader, p.leader_epoch, p.replicas, p.isr) for p in made.partitions] == [
        (n, 1, 0, (1,), (1,)) for n in range(3)
    ]
    assert made.log_config.retention_ms == 1_000


def test_counts_left_to_the_server_are_its_defaults() -> None:
    cluster = Cluster()
    cluster.take(decide(cluster.image, create(topic("t", -1, -1))).records)
    assert len(cluster.image.topics["t"].partitions) == 1


def test_topics_of_a_request_fail_alone_and_duplicates_once() -> None:
    request = create(topic("twice"), topic("good"), topic("twice"), topic("bad/name"), topic("a.b"), topic("a_b"))
    decision = decide(Cluster().image, request)
    codes = {result.name: ErrorCode(result.error_code) for result in decision.response.topics}
    assert codes == {
        "twice": ErrorCode.INVALID_REQUEST,
        "good": ErrorCode.NONE,
        "bad/name": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "a.b": ErrorCode.NONE,
        "a_b": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
    assert [r.name for r in decision.records if isinstance(r, TopicRecord)] == ["good", "a.b"]


def test_validate_only_writes_nothing() -> None:
    decision = decide(Cluster().image, create(topic("t", 3), validate_only=True))
    assert decision.response.topics[0].num_partitions == 3
    assert not decision.records


def test_cluster_never_gets_more_partitions_than_allowed() -> None:
    limits = TopicLimits(partitions_per_request_max=100, partitions_max=5)
    decision = decide(Cluster().image, create(topic("a", 3), topic("b", 3), topic("c", 2)), limits)
    codes = [ErrorCode(result.error_code) for result in decision.response.topics]
    assert codes == [ErrorCode.NONE, ErrorCode.POLICY_VIOLATION, ErrorCode.NONE]


# --- deletion


def test_topics_are_deleted_by_name_and_by_id() -> None:
    cluster = cluster_with(topic("a"), topic("b", configs={"retention.ms": "5"}), topic("c"))
    ids = {name: found.topic_id for name, found in cluster.image.topics.items()}
    decision = decide_delete_topics(cluster.image, delete("a", ids["b"]))
    assert [(r.name, r.topic_id, r.error_code) for r in decision.response.responses] == [
        ("a", ids["a"], 0),
        ("b", ids["b"], 0),
    ]
    assert decision.records == [RemoveTopicRecord(topic_id=ids["a"]), RemoveTopicRecord(topic_id=ids["b"])]
    cluster.take(decision.records)
    assert set(cluster.image.topics) == {"c"} and set(cluster.image.topics_by_id) == {ids["c"]}
    assert cluster.image.deleted_topics == {ids["a"], ids["b"]}
    # A topic of the same name is another topic: nothing of the old one's configs is left.
    cluster.take(decide(cluster.image, create(topic("b"))).records)
    assert cluster.image.topics["b"].configs == {}


@pytest.mark.parametrize(
    ("wanted", "code", "message"),
    [
        ("nono", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."),
        (UUID(int=77), ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID."),
        (("a", UUID(int=77)), ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id."),
        ((None, None), ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified."),
    ],
)
def test_bad_deletions(wanted: str | UUID, code: ErrorCode, message: str) -> None:
    decision = decide_delete_topics(cluster_with(topic("a")).image, delete(wanted))
    (result,) = decision.response.responses
    assert (result.error_code, result.error_message, decision.records) == (code, message, [])


def test_duplicate_deletions_are_refused_once() -> None:
    image = cluster_with(topic("a"), topic("b")).image
    b = image.topics["b"].topic_id
    decision = decide_delete_topics(image, delete("a", "a", b, b))
    assert [(r.name, r.error_message) for r in decision.response.responses] == [
        ("a", "Duplicate topic name."),
        (None, "Duplicate topic id."),
    ]


@pytest.mark.parametrize("is_name_first", [True, False])
def test_a_topic_by_name_and_by_id_is_refused_once_as_by_kafka(is_name_first: bool) -> None:
    image = cluster_with(topic("a"), topic("b")).image
    b = image.topics["b"].topic_id
    decision = decide_delete_topics(image, delete("b", b, "a") if is_name_first else delete(b, "b", "a"))
    assert [(r.name, r.error_code) for r in decision.response.responses] == [
        ("b", ErrorCode.INVALID_REQUEST),
        ("a", ErrorCode.NONE),
    ]
    assert len(decision.records) == 1


def test_deletion_can_be_disabled() -> None:
    decision = decide_delete_topics(cluster_with(topic("a")).image, delete("a"), is_enabled=False)
    assert decision.response.responses[0].error_code == ErrorCode.TOPIC_DELETION_DISABLED
    assert not decision.records


# --- more partitions


def test_partitions_are_added_behind_the_old_ones() -> None:
    cluster = cluster_with(topic("a", 2))
    before = cluster.image.topics["a"].partitions
    decision = decide_create_partitions(cluster.image, grow("a", 5), LIMITS)
    cluster.take(decision.records)
    after = cluster.image.topics["a"].partitions
    assert after[:2] == before and [p.partition for p in after] == [0, 1, 2, 3, 4]
    assert cluster.image.partition_count == 5
    assert not decide_create_partitions(cluster.image, grow("a", 9, validate_only=True), LIMITS).records


@pytest.mark.parametrize(
    ("name", "count", "assignments", "code", "message"),
    [
        ("a", 2, None, ErrorCode.INVALID_PARTITIONS, "Topic already has 2 partition(s)."),
        (
            "a",
            1,
            None,
            ErrorCode.INVALID_PARTITIONS,
            "The topic a currently has 2 partition(s); 1 would not be an increase.",
        ),
        ("zz", 3, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'zz' does not exist."),
        (
            "a",
            2**31 - 1,
            None,
            ErrorCode.POLICY_VIOLATION,
            "Adding 2147483645 partition(s) to topic a is more than is allowed: 10000 per request, 200000 in the cluster.",
        ),
        (
            "a",
            5,
            [(1,)],
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Attempted to add 3 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            "a",
            3,
            [(9,)],
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        (
            "a",
            3,
            [()],
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes an empty replica list.",
        ),
    ],
)
def test_bad_partition_counts(
    name: str, count: int, assignments: list[tuple[int, ...]] | None, code: ErrorCode, message: str
) -> None:
    decision = decide_create_partitions(cluster_with(topic("a", 2)).image, grow(name, count, assignments), LIMITS)
    (result,) = decision.response.results
    assert (result.error_code, result.error_message, decision.records) == (code, message, [])
