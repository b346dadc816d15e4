"""DescribeConfigs, IncrementalAlterConfigs, AlterConfigs: values, sources, codes and words of a Kafka 4.3 node."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import pytest

from bmq.controller.config_alter import CLIENT_METRICS_MAX, decide_alter_configs, decide_incremental_alter_configs
from bmq.controller.config_describe import describe_configs
from bmq.controller.config_list import list_config_resources
from bmq.controller.topics import TopicLimits, decide_create_topics
from bmq.metadata.broker_configs import BROKER_CONFIGS, HIDDEN_BY_DEFAULT
from bmq.metadata.config_keys import ConfigSource
from bmq.metadata.topic_configs import TOPIC_CONFIGS
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.describe_configs_request import DescribeConfigsRequest
from bmq.protocol.messages.describe_configs_response import DescribeConfigsResourceResult, DescribeConfigsResult
from bmq.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from bmq.protocol.messages.list_config_resources_request import ListConfigResourcesRequest
from bmq.protocol.metadata_records import ConfigRecord
from tests.unit.controller.support import Cluster, create, describe, full, incremental, topic

pytestmark = pytest.mark.unit

TOPIC, BROKER, LOGGER = 2, 4, 8
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster(settings={"log.segment.bytes": "1073741824"})
    request = create(topic("aa", 2, configs={"retention.ms": " 1000 "}), topic("ab"))
    ids = [UUID(int=11), UUID(int=12)]
    made.take(decide_create_topics(made.image, request, made.broker, TopicLimits(), ids).records)
    return made


def ask(cluster: Cluster, request: DescribeConfigsRequest) -> Sequence[DescribeConfigsResult]:
    return describe_configs(cluster.image, request, cluster.broker, 1, {"root": "INFO"}).results


def configs_of(cluster: Cluster, kind: int, name: str, *names: str) -> dict[str, DescribeConfigsResourceResult]:
    (result,) = ask(cluster, describe((kind, name, names), synonyms=True))
    assert result.error_code == ErrorCode.NONE, result.error_message
    return {config.name: config for config in result.configs}


def alter(cluster: Cluster, request: IncrementalAlterConfigsRequest) -> tuple[ErrorCode, str | None]:
    decision = decide_incremental_alter_configs(cluster.image, request, cluster.broker, 1)
    (result,) = decision.response.responses
    if result.error_code:
        assert not decision.records
    cluster.take(decision.records)
    return ErrorCode(result.error_code), result.error_message


def synonyms_of(config: DescribeConfigsResourceResult) -> list[tuple[str, str | None, int]]:
    return [(synonym.name, synonym.value, synonym.source) for synonym in config.synonyms]


# --- describing


def test_all_topic_configs_are_described(cluster: Cluster) -> None:
    for keys in (None, ()):
        (result,) = ask(cluster, describe((TOPIC, "aa", keys), documentation=True))
        assert {config.name for config in result.configs} == set(TOPIC_CONFIGS)
        assert all(config.documentation and not config.read_only for config in result.configs)
        by_name = {config.name: config for config in result.configs}
        assert (by_name["retention.ms"].value, by_name["retention.ms"].config_source) == ("1000", 1)
        assert (by_name["cleanup.policy"].value, by_name["cleanup.policy"].config_source) == ("delete", 5)
        assert by_name["cleanup.policy"].config_type == 7


def test_only_named_configs_are_described_and_unknown_names_left_out(cluster: Cluster) -> None:
    (result,) = ask(cluster, describe((TOPIC, "aa", ("retention.ms", "nope"))))
    assert [(config.name, config.documentation, config.synonyms) for config in result.configs] == [
        ("retention.ms", None, ())
    ]


def test_synonyms_show_where_a_value_would_come_from(cluster: Cluster) -> None:
    found = configs_of(cluster, TOPIC, "aa", "retention.ms", "max.message.bytes", "segment.ms")
    assert synonyms_of(found["retention.ms"]) == [("retention.ms", "1000", 1)]
    assert synonyms_of(found["max.message.bytes"]) == [("message.max.bytes", "1048588", 5)]
    assert synonyms_of(found["segment.ms"]) == []
    for name in ("1", ""):
        assert alter(cluster, incremental(BROKER, name, ("log.retention.ms", SET, "5000"))) == (ErrorCode.NONE, None)
    behind = [("log.retention.ms", "5000", 2), ("log.retention.ms", "5000", 3), ("log.retention.hours", "168", 5)]
    found = configs_of(cluster, TOPIC, "aa", "retention.ms")
    assert synonyms_of(found["retention.ms"]) == [("retention.ms", "1000", 1), *behind]
    found = configs_of(cluster, TOPIC, "ab", "retention.ms")
    assert (found["retention.ms"].value, found["retention.ms"].config_source) == ("5000", 2)
    assert synonyms_of(found["retention.ms"]) == behind
    found = configs_of(cluster, BROKER, "1", "log.retention.ms")
    assert (found["log.retention.ms"].value, found["log.retention.ms"].config_source) == ("5000", 2)
    assert synonyms_of(found["log.retention.ms"]) == behind
    assert cluster.image.topics["ab"].log_config.retention_ms == 5_000
    assert cluster.image.topics["aa"].log_config.retention_ms == 1_000


def test_broker_configs_are_described(cluster: Cluster) -> None:
    found = configs_of(cluster, BROKER, "1")
    assert set(found) == set(BROKER_CONFIGS) - HIDDEN_BY_DEFAULT
    assert (found["node.id"].value, found["node.id"].config_source, found["node.id"].read_only) == ("1", 4, True)
    assert (found["num.partitions"].value, found["num.partitions"].read_only) == ("1", True)
    assert (found["log.retention.ms"].value, found["log.retention.ms"].read_only) == (None, False)
    assert found["advertised.listeners"].value == "PLAINTEXT://127.0.0.1:9092"
    assert configs_of(cluster, BROKER, "") == {}


def test_cluster_wide_broker_configs_are_described_alone(cluster: Cluster) -> None:
    alter(cluster, incremental(BROKER, "", ("message.max.bytes", SET, "7"), ("plugin.secret", SET, "x")))
    found = configs_of(cluster, BROKER, "")
    assert (found["message.max.bytes"].value, found["message.max.bytes"].config_source) == ("7", 3)
    secret = found["plugin.secret"]
    assert (secret.value, secret.is_sensitive, secret.read_only, secret.config_type) == (None, True, True, 0)
    assert synonyms_of(secret) == [("plugin.secret", None, ConfigSource.DYNAMIC_DEFAULT_BROKER)]
    assert set(found) == {"message.max.bytes", "plugin.secret"}


def test_loggers_are_described(cluster: Cluster) -> None:
    root = configs_of(cluster, LOGGER, "1")["root"]
    assert (root.value, root.config_source) == ("INFO", 6)


@pytest.mark.parametrize(
    ("kind", "name", "code", "message"),
    [
        (TOPIC, "zz", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'zz' does not exist."),
        (
            TOPIC,
            "",
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "Topic name is invalid: the empty string is not allowed",
        ),
        (
            BROKER,
            "2",
            ErrorCode.INVALID_REQUEST,
            "Unexpected broker id, expected 1 or empty string, but received 2",
        ),
        (BROKER, "x", ErrorCode.INVALID_REQUEST, "Broker id must be an integer, but it is: x"),
        (BROKER, "1 ", ErrorCode.INVALID_REQUEST, "Broker id must be an integer, but it is: 1 "),
        (BROKER, "0_1", ErrorCode.INVALID_REQUEST, "Broker id must be an integer, but it is: 0_1"),
        (BROKER, "١", ErrorCode.INVALID_REQUEST, "Broker id must be an integer, but it is: ١"),
        (LOGGER, "", ErrorCode.INVALID_REQUEST, "Broker id must not be empty"),
        (LOGGER, "2", ErrorCode.INVALID_REQUEST, "Unexpected broker id, expected 1 but received 2"),
        (3, "x", ErrorCode.INVALID_REQUEST, "Unsupported resource type: 3"),
        (-1, "x", ErrorCode.INVALID_REQUEST, "Unsupported resource type: -1"),
    ],
)
def test_what_cannot_be_described(cluster: Cluster, kind: int, name: str, code: ErrorCode, message: str) -> None:
    bad, good = ask(cluster, describe((kind, name, None), (TOPIC, "aa", None)))
    assert (bad.error_code, bad.error_message, bad.configs) == (code, message, ())
    assert good.error_code == ErrorCode.NONE


# --- altering


def test_lists_are_appended_to_and_subtracted_from_as_in_kafka(cluster: Cluster) -> None:
    def policy() -> tuple[str | None, int]:
        config = configs_of(cluster, TOPIC, "aa", "cleanup.policy")["cleanup.policy"]
        return config.value, config.config_source

    steps = [
        (APPEND, "compact", "delete,compact"),
        (APPEND, "compact", "delete,compact"),
        (SUBTRACT, "delete", "compact"),
        (SUBTRACT, "compact", ""),
        (SUBTRACT, "compact", ""),
        (SET, "compact", "compact"),
        (APPEND, "delete,", "compact,delete"),
        (APPEND, ",", "compact,delete"),
        (SUBTRACT, "", "compact,delete"),
        (SUBTRACT, " delete", "compact,delete"),
        (APPEND, " compact", "compact,delete"),
        (SET, "compact, delete ,compact", "compact,delete"),
        (SET, "compact,delete", "compact,delete"),
        (SUBTRACT, "burn,delete,", "compact"),
    ]
    for operation, value, outcome in steps:
        assert alter(cluster, incremental(TOPIC, "aa", ("cleanup.policy", operation, value))) == (ErrorCode.NONE, None)
        assert policy() == (outcome, 1)
    for value in ("", ",delete", " "):
        # An item is what stands between two commas, be it nothing.
        code, _ = alter(cluster, incremental(TOPIC, "aa", ("cleanup.policy", APPEND, value)))
        assert code is ErrorCode.INVALID_CONFIG
        assert policy() == ("compact", 1)
    assert alter(cluster, incremental(TOPIC, "aa", ("cleanup.policy", DELETE, None)))[0] is ErrorCode.NONE
    assert policy() == ("delete", 5)


def test_what_is_not_there_is_deleted_in_peace(cluster: Cluster) -> None:
    for name in ("segment.ms", "nope"):
        assert alter(cluster, incremental(TOPIC, "aa", (name, DELETE, None))) == (ErrorCode.NONE, None)
    assert alter(cluster, incremental(BROKER, "1", ("message.max.bytes", DELETE, None))) == (ErrorCode.NONE, None)


def test_validate_only_changes_nothing_and_one_bad_config_spoils_the_others(cluster: Cluster) -> None:
    alter(cluster, incremental(TOPIC, "aa", ("retention.ms", SET, "77"), validate_only=True))
    code, _ = alter(cluster, incremental(TOPIC, "aa", ("retention.ms", SET, "88"), ("nope", SET, "1")))
    assert code is ErrorCode.INVALID_CONFIG
    assert cluster.image.topics["aa"].configs == {"retention.ms": " 1000 "}


@pytest.mark.parametrize(
    ("kind", "name", "change", "code", "message"),
    [
        (
            TOPIC,
            "aa",
            ("retention.ms", APPEND, "5"),
            ErrorCode.INVALID_CONFIG,
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        (
            TOPIC,
            "aa",
            ("nope", SUBTRACT, "5"),
            ErrorCode.INVALID_CONFIG,
            "Can't SUBTRACT to key nope because its type is not LIST.",
        ),
        (
            TOPIC,
            "aa",
            ("cleanup.policy", APPEND, "foo"),
            ErrorCode.INVALID_CONFIG,
            "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        (
            TOPIC,
            "aa",
            ("retention.ms", SET, None),
            ErrorCode.INVALID_REQUEST,
            "Null value not supported for : retention.ms",
        ),
        (
            TOPIC,
            "aa",
            ("retention.ms", 7, "5"),
            ErrorCode.INVALID_REQUEST,
            "Unknown operation 7 for config retention.ms",
        ),
        (TOPIC, "aa", ("nope", SET, "5"), ErrorCode.INVALID_CONFIG, "Unknown topic config name: nope"),
        (
            TOPIC,
            "zz",
            ("retention.ms", SET, "5"),
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "The topic 'zz' does not exist.",
        ),
        (
            TOPIC,
            "",
            ("retention.ms", SET, "5"),
            ErrorCode.INVALID_REQUEST,
            "Default topic resources are not allowed.",
        ),
        (
            BROKER,
            "1",
            ("num.partitions", SET, "5"),
            ErrorCode.INVALID_REQUEST,
            "Cannot update these configs dynamically: [num.partitions]",
        ),
        (
            BROKER,
            "",
            ("log.retention.ms", SET, "x"),
            ErrorCode.INVALID_REQUEST,
            "Invalid value x for configuration log.retention.ms: Not a number of type LONG",
        ),
        (
            BROKER,
            "1",
            ("log.retention.ms", SET, "-9"),
            ErrorCode.INVALID_REQUEST,
            "Invalid value -9 for configuration retention.ms: Value must be at least -1",
        ),
        (
            BROKER,
            "",
            ("message.max.bytes", SET, "-3"),
            ErrorCode.INVALID_REQUEST,
            "Invalid value -3 for configuration message.max.bytes: Value must be at least 0",
        ),
        (
            BROKER,
            "2",
            ("message.max.bytes", SET, "3"),
            ErrorCode.INVALID_REQUEST,
            "Unexpected broker id, expected 1, but received 2",
        ),
        (
            BROKER,
            "x",
            ("message.max.bytes", SET, "3"),
            ErrorCode.INVALID_REQUEST,
            "Node id must be an integer, but it is: x",
        ),
        (
            BROKER,
            "",
            ("max.connections", SET, "0"),
            ErrorCode.INVALID_REQUEST,
            "Invalid max.connections 0: no client could connect",
        ),
        (
            BROKER,
            "1",
            ("max.connections.per.ip", SET, "0"),
            ErrorCode.INVALID_REQUEST,
            "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.",
        ),
        (
            BROKER,
            "1",
            ("log.retention.ms", SET, "0"),
            ErrorCode.INVALID_REQUEST,
            "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
        ),
        (
            BROKER,
            "",
            ("num.io.threads", SET, "0"),
            ErrorCode.INVALID_REQUEST,
            "Invalid value 0 for configuration num.io.threads: Value must be at least 1",
        ),
        (
            LOGGER,
            "1",
            ("root", SET, "DEBUG"),
            ErrorCode.INVALID_REQUEST,
            "The levels of loggers are altered at their node: ask node 1",
        ),
        (
            LOGGER,
            "2",
            ("root", SET, "DEBUG"),
            ErrorCode.INVALID_REQUEST,
            "Unexpected node id. Expected 1, but received 2",
        ),
        (
            BROKER,
            "1",
            ("log.retention.ms", APPEND, "5"),
            ErrorCode.INVALID_CONFIG,
            "Config value append is not allowed for config key: log.retention.ms",
        ),
        (
            BROKER,
            "",
            ("group.consumer.assignment.interval.ms", SET, "500000"),
            ErrorCode.INVALID_REQUEST,
            "group.consumer.assignment.interval.ms must be less than or equal to "
            "group.consumer.max.assignment.interval.ms",
        ),
        (99, "x", ("retention.ms", SET, "1"), ErrorCode.INVALID_REQUEST, "Unknown resource type 99"),
        (
            TOPIC,
            "aa",
            ("bmq.retry.levels", SET, "1s"),
            ErrorCode.INVALID_CONFIG,
            "bmq.retry.levels is for topics named TOPIC.retry.GROUP, and not for aa",
        ),
    ],
)
def test_changes_that_are_refused(
    cluster: Cluster, kind: int, name: str, change: tuple[str, int, str | None], code: ErrorCode, message: str
) -> None:
    assert alter(cluster, incremental(kind, name, change)) == (code, message)


def test_duplicates_are_refused(cluster: Cluster) -> None:
    twice = incremental(TOPIC, "aa", ("retention.ms", SET, "1"), ("retention.ms", SET, "2"))
    assert alter(cluster, twice) == (ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    resource = incremental(TOPIC, "aa", ("retention.ms", SET, "1")).resources[0]
    both = IncrementalAlterConfigsRequest(resources=[resource, resource])
    decision = decide_incremental_alter_configs(cluster.image, both, cluster.broker, 1)
    assert [result.error_message for result in decision.response.responses] == [
        "Each resource must appear at most once."
    ] * 2
    assert not decision.records


def test_alter_configs_replaces_everything(cluster: Cluster) -> None:
    for request, outcome in (
        (full(TOPIC, "aa", ("segment.ms", "6000")), {"segment.ms": "6000"}),
        (
            full(TOPIC, "aa", ("segment.ms", "6000"), ("preallocate", "true")),
            {"segment.ms": "6000", "preallocate": "true"},
        ),
        (full(TOPIC, "aa"), {}),
    ):
        decision = decide_alter_configs(cluster.image, request, cluster.broker, 1)
        assert decision.response.responses[0].error_code == ErrorCode.NONE
        cluster.take(decision.records)
        assert cluster.image.topics["aa"].configs == outcome
    alter(cluster, incremental(BROKER, "1", ("message.max.bytes", SET, "5")))
    cluster.take(decide_alter_configs(cluster.image, full(BROKER, "1"), cluster.broker, 1).records)
    assert cluster.image.broker_configs == {}


@pytest.mark.parametrize(
    ("kind", "name", "configs", "code", "message"),
    [
        (TOPIC, "aa", [("segment.ms", None)], ErrorCode.INVALID_REQUEST, "Null value not supported for : segment.ms"),
        (TOPIC, "aa", [("nope", "1")], ErrorCode.INVALID_CONFIG, "Unknown topic config name: nope"),
        (TOPIC, "aa", [("segment.ms", "1"), ("segment.ms", "2")], ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys"),
        (TOPIC, "zz", [], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'zz' does not exist."),
        (BROKER, "1", [("num.partitions", "7")], ErrorCode.INVALID_REQUEST, "Cannot update these configs dynamically: [num.partitions]"),
        (LOGGER, "1", [("root", "INFO")], ErrorCode.INVALID_REQUEST, "Unknown resource type 8"),
    ],
)  # fmt: skip
def test_replacements_that_are_refused(
    cluster: Cluster, kind: int, name: str, configs: list[tuple[str, str | None]], code: ErrorCode, message: str
) -> None:
    decision = decide_alter_configs(cluster.image, full(kind, name, *configs), cluster.broker, 1)
    (result,) = decision.response.responses
    assert (result.error_code, result.error_message, decision.records) == (code, message, [])


# --- groups

GROUP = 32


def test_what_is_set_for_a_group_is_shown_in_front_of_the_brokers(cluster: Cluster) -> None:
    before = configs_of(cluster, GROUP, "g")
    assert {name: c.value for name, c in before.items()} == {
        "bmq.lane.enable": "false",
        "bmq.lane.grace.ms": "60000",
        "bmq.share.dead.letter.policy": "keep",
        "bmq.share.retry.backoff": "",
        "bmq.share.subscription.type": "shared",
        "consumer.assignment.interval.ms": "1000",
        "consumer.heartbeat.interval.ms": "5000",
        "consumer.session.timeout.ms": "45000",
        "errors.deadletterqueue.copy.record.enable": "true",
        "errors.deadletterqueue.topic.name": "",
        "share.assignment.interval.ms": "1000",
        "share.auto.offset.reset": "latest",
        "share.delivery.count.limit": "5",
        "share.heartbeat.interval.ms": "5000",
        "share.isolation.level": "read_uncommitted",
        "share.partition.max.record.locks": "2000",
        "share.record.lock.duration.ms": "30000",
        "share.renew.acknowledge.enable": "true",
        "share.session.timeout.ms": "45000",
        "streams.assignment.interval.ms": "1000",
        "streams.heartbeat.interval.ms": "5000",
        "streams.initial.rebalance.delay.ms": "3000",
        "streams.num.standby.replicas": "0",
        "streams.session.timeout.ms": "45000",
    }
    assert {config.config_source for config in before.values()} == {ConfigSource.DEFAULT}
    alone = ("share.auto.offset.reset", "latest", ConfigSource.DEFAULT)
    assert synonyms_of(before["share.auto.offset.reset"]) == [alone], "no config of the broker stands behind it"
    assert alter(cluster, incremental(GROUP, "g", ("consumer.session.timeout.ms", SET, " 50000 ")))[0] == 0
    after = configs_of(cluster, GROUP, "g")["consumer.session.timeout.ms"]
    assert (after.value, after.config_source, after.read_only) == ("50000", ConfigSource.DYNAMIC_GROUP, False)
    assert synonyms_of(after) == [
        ("consumer.session.timeout.ms", "50000", ConfigSource.DYNAMIC_GROUP),
        ("group.consumer.session.timeout.ms", "45000", ConfigSource.DEFAULT),
    ]
    assert cluster.image.group_configs == {"g": {"consumer.session.timeout.ms": " 50000 "}}
    assert alter(cluster, incremental(GROUP, "g", ("consumer.session.timeout.ms", DELETE, None)))[0] == 0
    assert cluster.image.group_configs == {}


@pytest.mark.parametrize(
    ("text", "is_valid"),
    [
        ("earliest", True),
        ("LATEST", True),
        ("by_duration:PT1H", True),
        ("by_duration:P2DT3H4M5.5S", True),
        ("by_duration:P1D", True),
        ("by_duration:PT0S", False),
        ("by_duration:PT-1S", False),
        ("by_duration:P", False),
        ("by_duration:PT", False),
        ("by_duration:P1DT", False),
        ("by_duration:", False),
        ("none", False),
        ("", False),
    ],
)
def test_where_a_share_group_begins(cluster: Cluster, text: str, is_valid: bool) -> None:
    code, message = alter(cluster, incremental(GROUP, "g", ("share.auto.offset.reset", SET, text)))
    assert code == (ErrorCode.NONE if is_valid else ErrorCode.INVALID_CONFIG)
    assert is_valid or "by_duration:<PnDTnHnMn.nS>" in str(message)


def test_a_groups_configs_are_replaced(cluster: Cluster) -> None:
    for configs in ([("consumer.session.timeout.ms", "46000")], [("consumer.heartbeat.interval.ms", "6000")], []):
        decision = decide_alter_configs(cluster.image, full(GROUP, "aa", *configs), cluster.broker, 1)
        assert decision.response.responses[0].error_code == ErrorCode.NONE
        cluster.take(decision.records)
        assert cluster.image.group_configs == ({"aa": dict(configs)} if configs else {})
    assert cluster.image.topics["aa"].configs == {"retention.ms": " 1000 "}, "a topic of that name is another thing"


@pytest.mark.parametrize(
    ("name", "config", "value", "code", "message"),
    [
        ("g", "nope", "1", ErrorCode.INVALID_CONFIG, "Unknown group config name: nope"),
        ("g", "errors.deadletterqueue.topic.name", "__d", ErrorCode.INVALID_CONFIG, "Invalid value __d for configuration errors.deadletterqueue.topic.name: dead letters do not go into internal topics (__…)"),
        ("g", "errors.deadletterqueue.topic.name", "d/d", ErrorCode.INVALID_CONFIG, "Invalid value d/d for configuration errors.deadletterqueue.topic.name: Topic name is invalid: 'd/d' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("g", "bmq.share.dead.letter.policy", "lose", ErrorCode.INVALID_CONFIG, "Invalid value lose for configuration bmq.share.dead.letter.policy: String must be one of: keep, drop"),
        ("g@blue", "bmq.lane.enable", "true", ErrorCode.INVALID_CONFIG, "bmq.lane.enable: the group 'g@blue' cannot have lanes: its id must have none of @ / #"),
        ("g", "bmq.share.retry.backoff", "2s..1s", ErrorCode.INVALID_CONFIG, "Invalid value 2s..1s for configuration bmq.share.retry.backoff: The first duration of a range must be above 0 and not above the last one"),
        ("g", "bmq.share.subscription.type", "sticky", ErrorCode.INVALID_CONFIG, "Invalid value sticky for configuration bmq.share.subscription.type: String must be one of: shared, key_shared, exclusive, failover"),
        ("g", "share.record.lock.duration.ms", "14999", ErrorCode.INVALID_CONFIG, "share.record.lock.duration.ms must be greater than or equal to group.share.min.record.lock.duration.ms"),
        ("g", "share.delivery.count.limit", "11", ErrorCode.INVALID_CONFIG, "Invalid value 11 for configuration share.delivery.count.limit: Value must be no more than 10"),
        ("g", "share.partition.max.record.locks", "4001", ErrorCode.INVALID_CONFIG, "share.partition.max.record.locks must be less than or equal to group.share.max.partition.max.record.locks"),
        ("g", "consumer.session.timeout.ms", "44999", ErrorCode.INVALID_CONFIG, "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms"),
        ("g", "consumer.heartbeat.interval.ms", "15001", ErrorCode.INVALID_CONFIG, "consumer.heartbeat.interval.ms must be less than or equal to group.consumer.max.heartbeat.interval.ms"),
        ("g", "consumer.assignment.interval.ms", "x", ErrorCode.INVALID_CONFIG, "Invalid value x for configuration consumer.assignment.interval.ms: Not a number of type INT"),
        ("", "consumer.session.timeout.ms", "45000", ErrorCode.INVALID_REQUEST, "Default group resources are not allowed."),
    ],
)  # fmt: skip
def test_group_configs_that_are_refused(
    cluster: Cluster, name: str, config: str, value: str, code: ErrorCode, message: str
) -> None:
    assert alter(cluster, incremental(GROUP, name, (config, SET, value))) == (code, message)
    assert cluster.image.group_configs == {}


def test_a_session_is_longer_than_the_pause_between_heartbeats() -> None:
    bounds = {"group.consumer.min.session.timeout.ms": "1000", "group.consumer.session.timeout.ms": "20000"}
    cluster = Cluster(settings=bounds)
    refused = alter(cluster, incremental(GROUP, "g", ("consumer.session.timeout.ms", SET, "5000")))
    message = "consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms"
    assert refused == (ErrorCode.INVALID_CONFIG, message)


def test_a_group_has_to_have_a_name(cluster: Cluster) -> None:
    (result,) = ask(cluster, describe((GROUP, "", None)))
    assert (result.error_code, result.error_message) == (ErrorCode.INVALID_REQUEST, "Group name must not be empty")


def test_groups_that_have_configs_are_listed(cluster: Cluster) -> None:
    alter(cluster, incremental(GROUP, "g", ("consumer.session.timeout.ms", SET, "50000")))
    for types, version, names in (((), 1, {"aa", "ab", "g"}), ((GROUP,), 1, {"g"})):
        answer = list_config_resources(cluster.image, ListConfigResourcesRequest(resource_types=types), version)
        assert names <= {resource.resource_name for resource in answer.config_resources}
        assert {r.resource_name for r in answer.config_resources if r.resource_type == GROUP} == {"g"}
    assert list_config_resources(cluster.image, ListConfigResourcesRequest(resource_types=(GROUP,)), 0).error_code == 35


# --- client metrics

CLIENT_METRICS = 16


def test_a_subscription_is_what_was_set_and_gone_with_its_last_config(cluster: Cluster) -> None:
    before = configs_of(cluster, CLIENT_METRICS, "s")
    assert {name: config.value for name, config in before.items()} == {
        "interval.ms": "300000",
        "match": "",
        "metrics": "",
    }
    assert {config.config_source for config in before.values()} == {ConfigSource.DEFAULT}
    assert not any(config.synonyms for config in before.values())
    request = incremental(CLIENT_METRICS, "s", ("metrics", SET, "a., b."), ("match", APPEND, "client_id=x.*"))
    assert alter(cluster, request) == (0, None)
    after = configs_of(cluster, CLIENT_METRICS, "s")
    assert (after["metrics"].value, after["metrics"].config_type) == ("a.,b.", 7)
    assert synonyms_of(after["match"]) == [("match", "client_id=x.*", ConfigSource.DYNAMIC_CLIENT_METRICS)]
    assert after["match"].config_source == ConfigSource.DYNAMIC_CLIENT_METRICS and not after["match"].read_only
    assert cluster.image.client_metrics == {"s": {"metrics": "a., b.", "match": "client_id=x.*"}}
    listed = list_config_resources(cluster.image, ListConfigResourcesRequest(), 0)
    assert [(one.resource_type, one.resource_name) for one in listed.config_resources] == [(CLIENT_METRICS, "s")]

    copy = Cluster()
    copy.state.replay_snapshot(cluster.state.snapshot())
    assert copy.state.image_at(1).client_metrics == cluster.image.client_metrics

    alter(cluster, incremental(CLIENT_METRICS, "s", ("metrics", DELETE, None), ("match", DELETE, None)))
    assert cluster.image.client_metrics == {}
    decision = decide_alter_configs(cluster.image, full(CLIENT_METRICS, "s", ("interval.ms", "100")), cluster.broker, 1)
    cluster.take(decision.records)
    assert cluster.image.client_metrics == {"s": {"interval.ms": "100"}}


@pytest.mark.parametrize(
    ("name", "config", "value", "code", "message"),
    [
        ("s", "random", "10", ErrorCode.INVALID_REQUEST, "Unknown client metrics configuration: random"),
        ("s", "interval.ms", "99", ErrorCode.INVALID_REQUEST, "Invalid value 99 for interval.ms, interval must be between 100 and 3600000 (1 hour)"),
        ("s", "interval.ms", "3600001", ErrorCode.INVALID_REQUEST, "Invalid value 3600001 for interval.ms, interval must be between 100 and 3600000 (1 hour)"),
        ("s", "interval.ms", "soon", ErrorCode.INVALID_CONFIG, "Invalid value soon for configuration interval.ms: Not a number of type INT"),
        ("s", "match", "10", ErrorCode.INVALID_CONFIG, "Illegal client matching pattern: 10"),
        ("s", "match", "client_shoe_size=10", ErrorCode.INVALID_CONFIG, "Illegal client matching pattern: client_shoe_size=10"),
        ("s", "match", "client_id=(", ErrorCode.INVALID_CONFIG, "Illegal client matching pattern: client_id=("),
        ("s", "match", "client_id=" + "(a{1000}){1000}", ErrorCode.INVALID_CONFIG, "Illegal client matching pattern: client_id=(a{1000}){1000}"),
        ("s", "match", "client_id=", ErrorCode.INVALID_CONFIG, "Illegal client matching pattern: client_id="),
        ("s", "match", "client_id=a=b", ErrorCode.INVALID_CONFIG, "Illegal client matching pattern: client_id=a=b"),
        ("s", "metrics", "a,,b", ErrorCode.INVALID_CONFIG, "Configuration 'metrics' values must not be empty."),
        ("s", "metrics", "x" * 32_768, ErrorCode.INVALID_CONFIG, "The configuration value of metrics cannot be added because it exceeds the maximum value size of 32767 bytes."),
        ("", "metrics", "x", ErrorCode.INVALID_REQUEST, "Subscription name can't be empty"),
    ],
)  # fmt: skip
def test_subscriptions_that_are_refused(
    cluster: Cluster, name: str, config: str, value: str, code: ErrorCode, message: str
) -> None:
    assert alter(cluster, incremental(CLIENT_METRICS, name, (config, SET, value))) == (code, message)
    assert cluster.image.client_metrics == {}


def test_a_subscription_has_to_have_a_name(cluster: Cluster) -> None:
    (result,) = ask(cluster, describe((CLIENT_METRICS, "", None)))
    assert (result.error_code, result.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "Client metrics subscription name must not be empty",
    )


def test_there_is_a_limit_to_subscriptions(cluster: Cluster) -> None:
    for number in range(CLIENT_METRICS_MAX):
        cluster.take([ConfigRecord(resource_type=CLIENT_METRICS, resource_name=str(number), name="metrics", value="*")])
    assert alter(cluster, incremental(CLIENT_METRICS, "0", ("metrics", SET, "x")))[0] == 0
    code, message = alter(cluster, incremental(CLIENT_METRICS, "one more", ("metrics", SET, "x")))
    assert (code, message) == (ErrorCode.POLICY_VIOLATION, "there are 1000 subscriptions, 1000 are allowed")
