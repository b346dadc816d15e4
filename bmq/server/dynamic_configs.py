"""Applies broker configs that are altered while the server runs. Topic defaults are read from the metadata image instead."""

from __future__ import annotations

from collections.abc import Callable

from bmq.broker.manager import PartitionManager
from bmq.coordinator.config import CoordinatorConfig
from bmq.coordinator.coordinator import GroupCoordinator
from bmq.coordinator.transactions.coordinator import TransactionCoordinator
from bmq.metadata.broker_configs import QUOTA_SCOPE, BrokerConfigs
from bmq.metadata.connection_limits import connection_creation_rate
from bmq.proxy.throttles import Throttles
from bmq.server.broker_configs import check_policy, compaction_pace, coordinator_config

Adjust = Callable[[CoordinatorConfig], CoordinatorConfig]


def follow(
    configs: BrokerConfigs,
    manager: PartitionManager,
    groups: GroupCoordinator,
    transactions: TransactionCoordinator,
    throttles: Throttles,
    adjust: Adjust = lambda config: config,
) -> None:
    """Apply the configs in force. Call it at the start and after each change."""
    manager.expire_producer_ids_after(configs.number("producer.id.expiration.ms"))
    manager.pace_compaction(compaction_pace(configs))
    groups.reconfigure(adjust(coordinator_config(configs)))
    transactions.reconfigure_checks(check_policy(configs))
    throttles.set_connection_rate(connection_creation_rate(configs))
    throttles.set_scope(is_cluster=configs.value_of(QUOTA_SCOPE) == "cluster")
