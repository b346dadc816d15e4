"""Translates between settings, Kafka's config names, and the roles' configs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Final

import structlog

from bmq.broker.context import CompactionPace, VerificationRetry
from bmq.coordinator.config import ConsumerConfig, CoordinatorConfig, NewGroupConfig, ShareConfig, StreamsConfig
from bmq.coordinator.transactions.check_back import CheckPolicy
from bmq.coordinator.transactions.config import TransactionConfig
from bmq.metadata.broker_configs import BROKER_CONFIGS, SHARE_RECORD_NAMES, BrokerConfigs
from bmq.metadata.config_keys import NO_EFFECT, split_list
from bmq.metadata.transaction_check_configs import (
    CHECK_BEFORE_MS,
    CHECK_EXTRA_MS,
    CHECK_ID_TOPIC,
    CHECK_IDS,
    CHECK_INTERVAL_MS,
    CHECK_TOPIC,
    CHECK_URL,
)
from bmq.server.kafka_names import SETTING_OF
from bmq.server.listener_settings import without_listener_configs
from bmq.server.settings import Settings

_log = structlog.get_logger("bmq.cli")

STANDALONE_DEFAULTS: Final = {
    # As in Kafka's own server.properties for one node: a developer's group need not wait for further members.
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


def kafka_configs(settings: Settings, defaults: Mapping[str, str] | None = None) -> dict[str, str]:
    """The settings under Kafka's names; `defaults`: defaults that differ from Kafka's."""
    own = {"log.dirs": settings.store or str(settings.data)}
    for name, (table, setting) in SETTING_OF.items():
        value = _text(getattr(getattr(settings, table), setting))
        if value != BROKER_CONFIGS[name].default or name in settings.kafka:
            own[name] = value
    return {**(defaults or {}), **without_listener_configs(settings.kafka), **own}


def _text(value: float | str) -> str:
    """Whole numbers without a fraction, large ones as Java writes them."""
    return f"{value:.17g}".replace("e+", "E") if isinstance(value, float) else str(value)


def warn_without_effect(settings: Settings) -> None:
    """Log one line about configs under Kafka's names that have no effect here."""
    names = [
        name
        for name in sorted(settings.kafka)
        if name in BROKER_CONFIGS and BROKER_CONFIGS[name].documentation.startswith(NO_EFFECT)
    ]
    if names:
        _log.warning("broker_configs_without_effect", names=",".join(names), see="docs/CONFIG.md")


def coordinator_config(configs: BrokerConfigs) -> CoordinatorConfig:
    """Kafka's `group.*` and `offsets.*` settings in the coordinator's terms."""
    return CoordinatorConfig(
        consumer=ConsumerConfig(
            **_intervals(configs, "consumer"),
            max_size=configs.number("group.consumer.max.size"),
            assignors=split_list(configs.value_of("group.consumer.assignors") or ""),
            migration_policy=configs.value_of("group.consumer.migration.policy") or "",
            regex_refresh_interval_ms=configs.number("group.consumer.regex.refresh.interval.ms"),
        ),
        share=ShareConfig(
            **_intervals(configs, "share"),
            max_size=configs.number("group.share.max.size"),
            **{
                f"{bound}{name.replace('.', '_')}": configs.number(f"group.share.{bound.replace('_', '.')}{name}")
                for name in SHARE_RECORD_NAMES
                for bound in ("", "min_", "max_")
            },
        ),
        streams=StreamsConfig(
            **_intervals(configs, "streams"),
            initial_rebalance_delay_ms=configs.number("group.streams.initial.rebalance.delay.ms"),
            max_size=configs.number("group.streams.max.size"),
            standby_replicas=configs.number("group.streams.num.standby.replicas"),
            max_standby_replicas=configs.number("group.streams.max.standby.replicas"),
        ),
        group_min_session_timeout_ms=configs.number("group.min.session.timeout.ms"),
        group_max_session_timeout_ms=configs.number("group.max.session.timeout.ms"),
        group_initial_rebalance_delay_ms=configs.number("group.initial.rebalance.delay.ms"),
        group_max_size=configs.number("group.max.size"),
        offset_metadata_max_bytes=configs.number("offset.metadata.max.bytes"),
        message_max_bytes=configs.number("message.max.bytes"),
        offsets_retention_ms=configs.number("offsets.retention.minutes") * 60_000,
        offsets_retention_check_interval_ms=configs.number("offsets.retention.check.interval.ms"),
    )


def _intervals(configs: BrokerConfigs, kind: str) -> dict[str, int]:
    """Settings common to the groups of the new protocols, by NewGroupConfig's names."""
    return {each.name: configs.number(f"group.{kind}.{each.name.replace('_', '.')}") for each in fields(NewGroupConfig)}


def transaction_config(configs: BrokerConfigs) -> TransactionConfig:
    """Kafka's `transaction.*` settings in the coordinator's terms."""
    return TransactionConfig(
        transaction_max_timeout_ms=configs.number("transaction.max.timeout.ms"),
        transactional_id_expiration_ms=configs.number("transactional.id.expiration.ms"),
        abort_timed_out_interval_ms=configs.number("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
        remove_expired_interval_ms=configs.number("transaction.remove.expired.transaction.cleanup.interval.ms"),
        message_max_bytes=configs.number("message.max.bytes"),
    )


def check_policy(configs: BrokerConfigs) -> CheckPolicy:
    """Which open transactions are asked back about, and how."""
    return CheckPolicy(
        id_prefixes=split_list(configs.value_of(CHECK_IDS) or ""),
        url=configs.value_of(CHECK_URL) or "",
        topic=configs.value_of(CHECK_TOPIC) or "",
        id_topic=configs.value_of(CHECK_ID_TOPIC) or "",
        before_ms=configs.number(CHECK_BEFORE_MS),
        interval_ms=configs.number(CHECK_INTERVAL_MS),
        extra_ms=configs.number(CHECK_EXTRA_MS),
    )


def verification_retry(configs: BrokerConfigs) -> VerificationRetry:
    """How owners of partitions retry the verification of transactions."""
    return VerificationRetry(
        configs.number("add.partitions.to.txn.retry.backoff.ms"),
        configs.number("add.partitions.to.txn.retry.backoff.max.ms"),
    )


def is_compacting(configs: BrokerConfigs) -> bool:
    """Whether logs are compacted at all."""
    return configs.value_of("log.cleaner.enable") == "true"


def compaction_pace(configs: BrokerConfigs) -> CompactionPace:
    """Kafka's `log.cleaner.*` settings in the broker's terms."""
    return CompactionPace(
        check_interval_ms=configs.number("log.cleaner.backoff.ms"),
        map_bytes=configs.number("log.cleaner.dedupe.buffer.size"),
        bytes_per_s_max=float(configs.value_of("log.cleaner.io.max.bytes.per.second") or "inf"),
    )


def is_verifying(configs: BrokerConfigs) -> bool:
    """Whether partitions' owners verify with the transaction coordinator that clients have added the partition."""
    return configs.value_of("transaction.partition.verification.enable") == "true"
