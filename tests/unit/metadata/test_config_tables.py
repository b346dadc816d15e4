"""The config tables are Kafka 4.3's: data/*.json was read from its LogConfig and KafkaConfig definitions."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.log.config import BacklogPolicy, LogConfig
from bmq.log.store import Durability
from bmq.metadata.broker_configs import BROKER_CONFIGS, HIDDEN_BY_DEFAULT, BrokerConfigs, static_configs
from bmq.metadata.client_metrics_configs import CLIENT_METRICS_CONFIGS
from bmq.metadata.config_keys import GROUPS_NAMED_MAX, NO_EFFECT, ConfigType, InvalidConfig, text_of
from bmq.metadata.configs_without_effect import SECURITY_CONFIGS
from bmq.metadata.group_configs import GROUP_CONFIGS
from bmq.metadata.image import Node
from bmq.metadata.topic_configs import TOPIC_CONFIGS, effective_values, log_config, validate

pytestmark = pytest.mark.unit

DATA = Path(__file__).parent / "data"
CONFIG_PAGE = Path(__file__).parents[3] / "docs" / "CONFIG.md"
KAFKA_TOPIC: dict[str, dict[str, Any]] = json.loads((DATA / "kafka_4_3_topic_configs.json").read_text())
KAFKA_BROKER: dict[str, dict[str, Any]] = json.loads((DATA / "kafka_4_3_broker_configs.json").read_text())
EMPTY: dict[str, str] = {}


def is_ours(name: str) -> bool:
    """Or Kafka 4.4's, which the tables of 4.3 do not have."""
    return name.startswith(("bmq.", "errors.deadletterqueue."))


def test_every_topic_config_of_kafka_is_there_and_nothing_else_outside_our_namespace() -> None:
    assert {name for name in TOPIC_CONFIGS if not is_ours(name)} == set(KAFKA_TOPIC)


@pytest.mark.parametrize("name", sorted(KAFKA_TOPIC))
def test_topic_config_is_as_in_kafka(name: str) -> None:
    key, theirs = TOPIC_CONFIGS[name], KAFKA_TOPIC[name]
    assert key.type.name == theirs["type"]
    assert key.default == theirs["default"]
    assert [synonym.name for synonym in key.synonyms] == theirs["synonyms"]
    assert len(key.documentation) > 20
    assert text_of(key.parse(key.default or "")) == key.default


def accepts(name: str, text: str) -> bool:
    try:
        TOPIC_CONFIGS[name].parse(text)
    except InvalidConfig:
        return False
    return True


@pytest.mark.parametrize(
    "name", sorted(n for n, key in KAFKA_TOPIC.items() if key["type"] in ("INT", "LONG", "DOUBLE"))
)
def test_topic_config_has_kafkas_range(name: str) -> None:
    valid = KAFKA_TOPIC[name]["valid"]
    bits = {"INT": 31, "LONG": 63, "DOUBLE": 0}[KAFKA_TOPIC[name]["type"]]
    low, high = -(2**bits), 2**bits - 1
    if valid is not None:
        lowest, highest = re.match(r"\[(-?\d+),\.\.\.,?(-?\d+)?\]", valid).groups()  # type: ignore[union-attr]
        low, high = int(lowest), int(highest or high)
    assert accepts(name, str(low)) and accepts(name, str(high))
    assert not accepts(name, str(low - 1)) or valid.endswith(f"or {low - 1}")
    assert not accepts(name, str(high + 1))


@pytest.mark.parametrize(
    "name", sorted(name for name in BROKER_CONFIGS if not is_ours(name) and name not in HIDDEN_BY_DEFAULT)
)
def test_broker_config_is_as_in_kafka(name: str) -> None:
    key, theirs = BROKER_CONFIGS[name], KAFKA_BROKER[name]
    assert key.type.name == theirs["type"]
    assert key.default == theirs["default"]
    assert theirs["dynamic"] or not key.is_dynamic
    assert key.documentation


def test_the_documentation_knows_every_config_and_which_have_no_effect() -> None:
    page = CONFIG_PAGE.read_text()
    keys = [
        *TOPIC_CONFIGS.values(),
        *BROKER_CONFIGS.values(),
        *GROUP_CONFIGS.values(),
        *CLIENT_METRICS_CONFIGS.values(),
    ]
    assert [key.name for key in keys if f"`{key.name}`" not in page] == []
    useless = page[page.index("No effect; accepted, and shown:") :].partition("\nGroups have")[0]
    for key in keys:
        if key.documentation.startswith(NO_EFFECT):
            reason = key.documentation.removeprefix(NO_EFFECT)
            entries = (" ".join(text.split()) for text in useless.split("\n- "))
            (entry,) = (text for text in entries if text.startswith(f"**{reason}**"))
            assert f"`{key.name}`" in entry, f"{key.name}: {reason}"


def test_every_broker_config_of_kafka_is_there() -> None:
    assert set(KAFKA_BROKER) <= set(BROKER_CONFIGS)


@pytest.mark.parametrize("name", sorted(SECURITY_CONFIGS))
def test_what_would_protect_nothing_stops_the_start(name: str) -> None:
    with pytest.raises(InvalidConfig, match="is set: other mechanisms of SASL are not served"):
        static_configs(Node(1, "h", 1), {name: "1"})
    assert not BROKER_CONFIGS[name].is_dynamic
    default = BROKER_CONFIGS[name].default
    if default is not None:
        static_configs(Node(1, "h", 1), {name: default})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        (1.0, "1.0"),
        (0.0, "0.0"),
        (0.001, "0.001"),
        (9_999_999.0, "9999999.0"),
        (0.00025, "2.5E-4"),
        (10_000_000.0, "1.0E7"),
        (-12_345_678.5, "-1.23456785E7"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
    ],
)
def test_doubles_are_written_as_java_writes_them(value: float, text: str) -> None:
    assert text_of(value) == text


def test_every_broker_default_of_a_topic_config_is_shown() -> None:
    names = {synonym.name for key in TOPIC_CONFIGS.values() for synonym in key.synonyms}
    assert names <= set(BROKER_CONFIGS)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("nope", "1", "Unknown topic config name: nope"),
        ("retention.ms", "abc", "Invalid value abc for configuration retention.ms: Not a number of type LONG"),
        ("retention.ms", "-5", "Invalid value -5 for configuration retention.ms: Value must be at least -1"),
        ("retention.ms", "", "Invalid value  for configuration retention.ms: Not a number of type LONG"),
        ("retention.ms", "1_000", "Invalid value 1_000 for configuration retention.ms: Not a number of type LONG"),
        ("retention.ms", "١", "Invalid value ١ for configuration retention.ms: Not a number of type LONG"),
        ("segment.bytes", "10", "Invalid value 10 for configuration segment.bytes: Value must be at least 1048576"),
        (
            "segment.bytes",
            "99999999999",
            "Invalid value 99999999999 for configuration segment.bytes: Not a number of type INT",
        ),
        (
            "cleanup.policy",
            "foo",
            "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        (
            "compression.type",
            "brotli",
            "Invalid value brotli for configuration compression.type: String must be one of: uncompressed, zstd, lz4, "
            "snappy, gzip, producer",
        ),
        (
            "compression.gzip.level",
            "0",
            "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1",
        ),
        (
            "preallocate",
            "yes",
            "Invalid value yes for configuration preallocate: Expected value to be either true or false",
        ),
        (
            "min.cleanable.dirty.ratio",
            "1.5",
            "Invalid value 1.5 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
        ),
        (
            "min.cleanable.dirty.ratio",
            "nan",
            "Invalid value nan for configuration min.cleanable.dirty.ratio: Not a number of type DOUBLE",
        ),
        (
            "leader.replication.throttled.replicas",
            "foo",
            "Invalid value [foo] for configuration leader.replication.throttled.replicas: "
            "leader.replication.throttled.replicas must be the literal '*' or a list of replicas in the following "
            "format: [partitionId]:[brokerId],[partitionId]:[brokerId],...",
        ),
        (
            "remote.storage.enable",
            "true",
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.",
        ),
        (
            "bmq.durability",
            "maybe",
            "Invalid value maybe for configuration bmq.durability: String must be one of: hflush, hsync",
        ),
        ("bmq.unknown", "1", "Unknown topic config name: bmq.unknown"),
        (
            "bmq.retention.groups",
            "a,,b",
            "Invalid value a,,b for configuration bmq.retention.groups: Group ids must not be empty",
        ),
        (
            "bmq.retention.groups",
            "a,b,a",
            "Invalid value a,b,a for configuration bmq.retention.groups: Each group may be named once",
        ),
        (
            "bmq.backlog.quota.bytes",
            "0",
            "Invalid value 0 for configuration bmq.backlog.quota.bytes: Value must be between 1 and 9223372036854775807 "
            "or equal to -1",
        ),
        (
            "bmq.backlog.quota.bytes",
            "1",
            "bmq.backlog.quota.bytes is about what groups have not consumed: bmq.retention.groups must name at least one",
        ),
        (
            "bmq.backlog.quota.ms",
            "1",
            "bmq.backlog.quota.ms is about what groups have not consumed: bmq.retention.groups must name at least one",
        ),
        (
            "bmq.backlog.quota.policy",
            "drop",
            "Invalid value drop for configuration bmq.backlog.quota.policy: String must be one of: producer_request_hold, "
            "producer_exception, consumer_backlog_eviction",
        ),
    ],
)
def test_bad_value_is_refused_in_kafkas_words(name: str, text: str, message: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        validate({name: text}, EMPTY)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("retention.ms", " 100 ", 100),
        ("preallocate", "TRUE", True),
        ("cleanup.policy", "compact, delete", ("compact", "delete")),
        ("cleanup.policy", "", ()),
        ("leader.replication.throttled.replicas", "*", ("*",)),
        ("leader.replication.throttled.replicas", "0:1,12:3", ("0:1", "12:3")),
        ("min.cleanable.dirty.ratio", "1e-1", 0.1),
    ],
)
def test_value_is_read_as_kafka_reads_it(name: str, text: str, value: object) -> None:
    validate({name: text}, EMPTY)
    assert effective_values({name: text}, EMPTY)[name] == value


def test_contradicting_lags_and_endless_values_are_refused() -> None:
    with pytest.raises(InvalidConfig, match=r"min.compaction.lag.ms \(100\) > max.compaction.lag.ms \(10\)"):
        validate({"min.compaction.lag.ms": "100", "max.compaction.lag.ms": "10"}, EMPTY)
    with pytest.raises(InvalidConfig, match="maximum value size of 32767 bytes"):
        validate({"leader.replication.throttled.replicas": "1:1," * 10_000 + "1:1"}, EMPTY)


def test_groups_and_their_backlog() -> None:
    configs = {
        "bmq.retention.groups": " billing , audit",
        "bmq.backlog.quota.bytes": "1000",
        "bmq.backlog.quota.ms": "2000",
        "bmq.backlog.quota.policy": "consumer_backlog_eviction",
        "bmq.retention.groups.max.ms": "-1",
    }
    validate(configs, EMPTY)
    config = log_config(configs, EMPTY)
    assert config.retention_groups == ("billing", "audit") and config.retention_groups_max_ms == -1
    assert (config.backlog_quota_bytes, config.backlog_quota_ms) == (1000, 2000)
    assert config.has_backlog_quota and not LogConfig().has_backlog_quota
    assert config.backlog_quota_policy is BacklogPolicy.CONSUMER_BACKLOG_EVICTION
    with pytest.raises(InvalidConfig, match=r"cleanup\.policy must include delete"):
        validate({**configs, "cleanup.policy": "compact"}, EMPTY)
    many = ",".join(f"g{number}" for number in range(GROUPS_NAMED_MAX + 1))
    with pytest.raises(InvalidConfig, match="At most 16 groups may be named, not 17"):
        validate({"bmq.retention.groups": many}, EMPTY)


@given(st.sampled_from(sorted(TOPIC_CONFIGS)), st.text(max_size=40))
def test_any_text_is_a_value_or_an_invalid_config(name: str, text: str) -> None:
    key = TOPIC_CONFIGS[name]
    try:
        value = key.parse(text)
    except InvalidConfig as error:
        assert name in str(error)
    else:
        assert key.parse(text_of(value)) == value


def test_log_config_of_a_topic_without_configs_is_the_servers_default() -> None:
    assert log_config(EMPTY, BrokerConfigs(static=static_configs(Node(1, "h", 1), {})).topic_defaults) == LogConfig()


def test_log_config_follows_topic_then_broker_in_any_unit() -> None:
    broker = BrokerConfigs(
        dynamic={"message.max.bytes": "77"},
        dynamic_default={"message.max.bytes": "88", "log.cleanup.policy": "compact"},
        static={"log.retention.minutes": "3", "log.retention.hours": "9", "log.roll.hours": "2"},
    ).topic_defaults
    config = log_config({}, broker)
    assert (config.max_message_bytes, config.cleanup_policy) == (77, frozenset({"compact"}))
    assert (config.retention_ms, config.segment_ms) == (180_000, 7_200_000)
    own = log_config({"retention.ms": "-1", "cleanup.policy": "compact,delete"}, broker)
    assert (own.retention_ms, own.cleanup_policy) == (-1, frozenset({"compact", "delete"}))


@pytest.mark.parametrize(
    ("configs", "durability"),
    [
        ({}, Durability.HFLUSH),
        ({"flush.messages": "1"}, Durability.HSYNC),
        ({"flush.messages": "2"}, Durability.HFLUSH),
        ({"flush.messages": "1", "bmq.durability": "hflush"}, Durability.HFLUSH),
        ({"bmq.durability": "hsync"}, Durability.HSYNC),
    ],
)
def test_durability_is_asked_for_in_kafkas_way_or_ours(configs: dict[str, str], durability: Durability) -> None:
    assert log_config(configs, EMPTY).durability is durability


@pytest.mark.parametrize(
    ("configs", "level"),
    [
        ({}, None),
        ({"compression.type": "producer", "compression.zstd.level": "7"}, None),
        ({"compression.type": "uncompressed", "compression.zstd.level": "7"}, None),
        ({"compression.type": "snappy"}, None),
        ({"compression.type": "gzip"}, None),
        ({"compression.type": "gzip", "compression.gzip.level": "1"}, 1),
        ({"compression.type": "lz4"}, 9),
        ({"compression.type": "zstd", "compression.zstd.level": "-1"}, -1),
    ],
)
def test_only_the_level_of_the_topics_own_codec_counts(configs: dict[str, str], level: int | None) -> None:
    assert log_config(configs, EMPTY).compression_level == level


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"num.partition": "3"}, "Unknown broker config name: num.partition"),
        ({"num.partitions": "0"}, "Value must be at least 1"),
        ({"log.retention.ms": "-7"}, "Value must be at least -1"),
        ({"log.retention.hours": "0"}, "log.retention.ms must be unlimited"),
    ],
)
def test_settings_that_cannot_be_are_refused_at_start(settings: dict[str, str], why: str) -> None:
    with pytest.raises(InvalidConfig, match=why):
        static_configs(Node(1, "h", 1), settings)


def test_one_retention_may_hide_another() -> None:
    static_configs(Node(1, "h", 1), {"log.retention.ms": "5", "log.retention.hours": "0"})


def test_addresses_without_a_limit_of_their_own_may_be_shut_out() -> None:
    static_configs(Node(1, "h", 1), {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "::1:5"})


def test_source_of_a_broker_config_is_the_strongest() -> None:
    configs = BrokerConfigs({"message.max.bytes": "1"}, {"message.max.bytes": "2"}, {"message.max.bytes": "3"})
    assert [text for _, text in configs.sources_of("message.max.bytes")] == ["1", "2", "3", "1048588"]
    assert configs.number("num.partitions") == 1
    assert configs.value_of("unknown.config") is None
    assert BROKER_CONFIGS["node.id"].type is ConfigType.INT
