"""Begins a cluster with the metadata of another one: in an empty root, before its first node starts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from random import Random
from typing import Final

from bmq.broker.context import BrokerSettings
from bmq.broker.manager import PartitionManager
from bmq.log.clock import Clock
from bmq.log.partition_log import PartitionStarting
from bmq.log.root import finish_root, require_empty_root
from bmq.log.state_log import StateLog
from bmq.log.store import SegmentStore
from bmq.membership.controller_leadership import METADATA, METADATA_LOG
from bmq.metadata.image import METADATA_TOPIC_NAME
from bmq.protocol.metadata_records import MetadataRecord, encode_record
from bmq.server.start_retry import StartRetry

FIRST_EPOCH: Final = 0
"""Below that of any controller: elections count from 1."""
_RECORDS_AT_ONCE: Final = 1_000


async def restore_metadata(
    store: SegmentStore,
    records: Sequence[MetadataRecord],
    cluster_id: str,
    *,
    clock: Clock,
    random: Random,
    settings: BrokerSettings,
    retry: StartRetry,
) -> None:
    """Write the records as the metadata log of a new cluster. Raises RootForeign (the root is not empty), KafkaError, StoreError.

    The root's description comes last. Servers refuse a root with topics and without it, so none starts on half of the records.
    """
    await require_empty_root(store)
    holder = f"restore-{random.getrandbits(64):016x}"
    manager = PartitionManager(store, holder, clock, random, settings, may_pad=True)
    try:
        manager.assign(METADATA, FIRST_EPOCH, METADATA_TOPIC_NAME, METADATA_LOG)
        partition = await retry.until_done(
            lambda: manager.leader_of(METADATA), may_pass=lambda error: isinstance(error, PartitionStarting)
        )
        log = StateLog(partition, clock)
        await log.replay(lambda key, value: None, lambda snapshot: None)
        left = iter(records)
        while chunk := [(b"", encode_record(record)) for record in islice(left, _RECORDS_AT_ONCE)]:
            await log.append(chunk)
    finally:
        await manager.close()
    await finish_root(store, holder=holder, cluster_id=cluster_id)
