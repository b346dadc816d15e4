"""Wires fetches of share groups at this process's proxy to the shards with the state of share partitions."""

from __future__ import annotations

from collections.abc import Callable

from bmq.coordinator.config import ShareConfig
from bmq.metadata.broker_configs import BrokerConfigs
from bmq.proxy.batch_opener import BatchOpener
from bmq.proxy.fetcher import Fetcher
from bmq.proxy.share.consumers import ShareConsumers
from bmq.proxy.share.former_leaders import FormerLeaders
from bmq.proxy.share.group_terms import ShareDefaults
from bmq.proxy.share.states import ShareStates


def share_consumers(
    fetcher: Fetcher,
    states: ShareStates,
    share_config: Callable[[], ShareConfig],
    broker_configs: BrokerConfigs,
    leaders: FormerLeaders | None = None,
    opener: BatchOpener | None = None,
) -> ShareConsumers:
    """`share_config()`: the settings of share groups now in force. `leaders`: None where leaders never move. `opener`: the
    process's opener of batches.
    """

    known = share_config(), _defaults(share_config())

    def defaults() -> ShareDefaults:
        nonlocal known
        config = share_config()
        if known[0] is not config:
            known = config, _defaults(config)
        return known[1]

    sessions_max = broker_configs.number("group.share.max.share.sessions")
    return ShareConsumers(fetcher.shared, states, defaults, sessions_max=sessions_max, leaders=leaders, opener=opener)


def _defaults(config: ShareConfig) -> ShareDefaults:
    return ShareDefaults(
        config.record_lock_duration_ms, config.min_record_lock_duration_ms, config.max_record_lock_duration_ms
    )
