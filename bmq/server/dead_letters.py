"""Wires the writing of dead letters of share groups and of retry topics into a server process."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from bmq.admin.redrives import Redrives
from bmq.log.clock import Clock
from bmq.metadata.broker_configs import BrokerConfigs
from bmq.metadata.dead_letter_configs import AUTO_CREATE, PREFIX
from bmq.metadata.image import MetadataImage
from bmq.protocol.request_context import RequestMethod
from bmq.proxy.appender import Appender
from bmq.proxy.batch_opener import BatchOpener
from bmq.proxy.dead_letters.letter_topics import DeadLetterSettings
from bmq.proxy.dead_letters.producer import DeadLetterProducer
from bmq.proxy.dead_letters.record_appends import RecordAppender
from bmq.proxy.dead_letters.record_reads import RecordReader
from bmq.proxy.dead_letters.redrive import Redriver
from bmq.proxy.dead_letters.redrive_progress import CommittedProgress
from bmq.proxy.dead_letters.retry_letters import RetryLetterProducer
from bmq.proxy.fetcher import Fetcher
from bmq.proxy.partitions import Partitions
from bmq.proxy.producer_ids import ProducerIds
from bmq.proxy.services import Groups

if TYPE_CHECKING:
    from bmq.proxy.fetch_resources import FetchResources


class RecordIo(NamedTuple):
    """Reads and appends single records in any partition of the cluster."""

    partitions: Partitions
    reader: RecordReader
    appender: RecordAppender
    shared: Callable[[], FetchResources]
    opener: BatchOpener


def record_io(
    partitions: Partitions,
    fetcher: Callable[[], Fetcher],
    appender: Callable[[], Appender],
    producer_ids: Callable[[], ProducerIds],
    opener: BatchOpener,
) -> RecordIo:
    """Make it. `fetcher()`, `appender()`, `producer_ids()`: called once the process serves."""

    def shared() -> FetchResources:
        return fetcher().shared

    return RecordIo(partitions, RecordReader(shared, opener), RecordAppender(appender, producer_ids), shared, opener)


def redrives(
    io: RecordIo,
    image: Callable[[], MetadataImage],
    groups: Groups,
    clock: Clock,
    rng: Random,
    is_active: Callable[[], bool],
) -> Redrives:
    """Make the redrives of dead letters. `is_active()`: whether the active controller is in this process."""
    redriver = Redriver(image, io.partitions, io.reader, io.appender, CommittedProgress(groups), clock)
    return Redrives(redriver, clock, rng, is_active)


class LetterProducers(NamedTuple):
    of_groups: DeadLetterProducer
    of_retries: RetryLetterProducer


def letter_producers(
    io: RecordIo,
    image: Callable[[], MetadataImage],
    clock: Clock,
    create_topics: RequestMethod,
    configs: BrokerConfigs,
) -> LetterProducers:
    """Make the producers of dead letters. `configs`: this node's broker configs."""

    def settings() -> DeadLetterSettings:
        return DeadLetterSettings(configs.value_of(PREFIX) or "", configs.value_of(AUTO_CREATE) == "true")

    return LetterProducers(
        DeadLetterProducer(image, io.partitions, io.reader, io.appender, clock, create_topics, settings),
        RetryLetterProducer(image, io.appender, clock, create_topics, settings),
    )
