"""Configs of share groups' dead letters: Kafka's of KIP-1191 (4.4), and one of ours. Pure."""

from __future__ import annotations

from typing import Final

from bmq.metadata.config_keys import ConfigKey, ConfigType, InvalidConfig, Value, one_of
from bmq.protocol.dead_letters import TOPIC_CONFIG
from bmq.protocol.topic_names import InvalidTopicName, validate_name

AUTO_CREATE: Final = "errors.deadletterqueue.auto.create.topics.enable"
PREFIX: Final = "errors.deadletterqueue.topic.name.prefix"
INTERNAL_PREFIX: Final = "__"


def check_topic_name(name: str, value: Value, why_not_internal: str) -> None:
    """Check the name of a topic into which a server writes records of clients; empty: none. Raises InvalidConfig."""
    text = str(value)
    if not text:
        return
    try:
        validate_name(text)
    except InvalidTopicName as error:
        raise InvalidConfig(f"Invalid value {value} for configuration {name}: {error}") from error
    if text.startswith(INTERNAL_PREFIX):
        raise InvalidConfig(f"Invalid value {value} for configuration {name}: {why_not_internal}")


def _topic_name(name: str, value: Value) -> None:
    check_topic_name(name, value, f"dead letters do not go into internal topics ({INTERNAL_PREFIX}…)")


def _prefix(name: str, value: Value) -> None:
    if value and str(value).startswith(INTERNAL_PREFIX):
        raise InvalidConfig(f"Invalid value {value} for configuration {name}: names of internal topics begin so")
    _topic_name(name, value)


DEAD_LETTER_GROUP_CONFIGS: Final = (
    ConfigKey(
        "errors.deadletterqueue.topic.name",
        ConfigType.STRING,
        "",
        "The topic of the group's dead letters. Empty: it has none, and records that are given up are archived.",
        _topic_name,
        is_dynamic=True,
    ),
    ConfigKey(
        "errors.deadletterqueue.copy.record.enable",
        ConfigType.BOOLEAN,
        "true",
        "Whether a dead letter has the record's key, value and headers too.",
        is_dynamic=True,
    ),
    ConfigKey(
        "bmq.share.dead.letter.policy",
        ConfigType.STRING,
        "keep",
        "While dead letters cannot be written: 'keep' their records until they can; 'drop' them after five tries, as Kafka does.",
        one_of("keep", "drop"),
        is_dynamic=True,
    ),
)
DEAD_LETTER_BROKER_CONFIGS: Final = (
    ConfigKey(
        AUTO_CREATE,
        ConfigType.BOOLEAN,
        "false",
        "Whether a topic of dead letters that does not exist is created, with the defaults of topics.",
    ),
    ConfigKey(
        PREFIX,
        ConfigType.STRING,
        "dlq.",
        "How the names of topics of dead letters begin. Empty: any name.",
        _prefix,
    ),
)
DEAD_LETTER_TOPIC_CONFIG: Final = ConfigKey(
    TOPIC_CONFIG,
    ConfigType.BOOLEAN,
    "false",
    "Whether share groups may write dead letters into this topic, with the rights of the servers.",
)
