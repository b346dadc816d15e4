"""The memory of one partition's owner. The parts of a PartitionRuntime share it; each reads what it needs.

Only the runtime's machine changes `state` and `log`; `files` and `producers` are set once, when the log was walked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from bmq.broker.context import BrokerContext
from bmq.broker.group_backlog import Backlog
from bmq.broker.in_flight_batches import InFlightBatches
from bmq.broker.partition_events import Event, OwnershipLost
from bmq.broker.partition_load import PartitionLoad
from bmq.broker.partition_states import Offline, State
from bmq.broker.waiters import Waiters
from bmq.log.config import LogConfig
from bmq.log.damage import StateDamaged
from bmq.log.names import PartitionPaths, partition_directory
from bmq.log.partition_files import PartitionFiles
from bmq.log.partition_log import TopicPartition
from bmq.log.producer_state import ProducerStates
from bmq.log.store import FencedWriter, FileMissing, StoreError
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError

T = TypeVar("T")

READ_TRIES_MAX = 3


class Machine(Protocol):
    """What the parts of a runtime ask of its machine."""

    def feed(self, event: Event) -> None:
        """Step, perform the effects, then run the callbacks. Events that come up meanwhile are queued."""

    def fail(self, error: BaseException) -> None:
        """An error that no retry helps against: go offline, loudly. Does nothing once the state is final."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a task of the partition; if it fails, the partition goes offline."""


class Timers(Protocol):
    """The part that follows the log of a partition with delayed records."""

    def synced(self, high_watermark: int, size_bytes: int) -> None:
        """Everything below is durable, `size_bytes` more than before."""

    def rollback(self, end_offset: int) -> None:
        """Batches that were placed at or past this offset were refused: the log ends here."""

    async def make_room(self, offset: int) -> None:
        """Try to need nothing of the log below `offset` any more. Never raises a BmqError."""


class OwnedPartition:
    """`log` is None before the partition is owned, `files` before its log was walked and recorded.

    `timers` is None unless the topic has delay, or had it.
    """

    __slots__ = (
        "backlog",
        "config",
        "context",
        "files",
        "leader_epoch",
        "load",
        "log",
        "machine",
        "paths",
        "producers",
        "state",
        "tail",
        "timers",
        "topic_name",
        "topic_partition",
        "waiters",
    )

    def __init__(
        self,
        context: BrokerContext,
        topic_partition: TopicPartition,
        topic_name: str,
        leader_epoch: int,
        config: LogConfig,
        state: State,
        machine: Machine,
    ) -> None:
        self.context = context
        self.topic_partition = topic_partition
        self.topic_name = topic_name
        self.leader_epoch = leader_epoch
        self.config = config
        self.paths = PartitionPaths(partition_directory(topic_partition), leader_epoch)
        self.state = state
        self.machine = machine
        self.log: InFlightBatches | None = None
        self.files: PartitionFiles | None = None
        self.producers = ProducerStates()
        self.tail = context.tail_cache.partition()
        self.waiters = Waiters()
        self.load = PartitionLoad()
        self.backlog = Backlog()
        self.timers: Timers | None = None

    @property
    def is_owning(self) -> bool:
        return self.state.is_owning

    @property
    def log_start_offset(self) -> int:
        return 0 if self.files is None else self.files.log_start_offset

    @property
    def high_watermark(self) -> int:
        return 0 if self.log is None else self.log.high_watermark

    @property
    def log_end_offset(self) -> int:
        return 0 if self.log is None else self.log.log_end_offset

    @property
    def last_stable_offset(self) -> int:
        high_watermark = self.high_watermark
        stable_offset = self.producers.last_stable_offset(high_watermark)
        # Retention may have deleted the beginning of an open transaction.
        return stable_offset if stable_offset == high_watermark else max(stable_offset, self.log_start_offset)

    def closed_code(self) -> ErrorCode:
        """The error for appends while the partition takes none; NONE when it does."""
        state = self.state
        if isinstance(state, Offline):
            return ErrorCode.KAFKA_STORAGE_ERROR
        is_open = self.files is not None and not state.is_final and not state.is_leaving
        return ErrorCode.NONE if is_open else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def names(self) -> dict[str, Any]:
        """For log lines."""
        return {
            "topic": self.topic_name,
            "partition": self.topic_partition.partition,
            "leader_epoch": self.leader_epoch,
        }

    def own_files(self) -> PartitionFiles:
        """Raises KafkaError NOT_LEADER_OR_FOLLOWER while the partition is not owned."""
        if self.files is None or not self.is_owning:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the partition is not owned here")
        return self.files

    async def with_files(self, action: Callable[[PartitionFiles], Coroutine[Any, Any, T]]) -> T:
        """Run `action`; FencedWriter and StoreError become KafkaError NOT_LEADER_OR_FOLLOWER and KAFKA_STORAGE_ERROR.

        StateDamaged and other errors (OFFSET_OUT_OF_RANGE, BadBatch) are raised as they are.
        """
        tries = 0
        while True:
            files = self.own_files()
            try:
                return await action(files)
            except FencedWriter as error:
                self.machine.feed(OwnershipLost())
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, str(error)) from error
            except FileMissing as error:
                # Retention may have removed the file since we looked; then the newer manifest shows that (rule 13).
                tries += 1
                if tries == READ_TRIES_MAX:
                    raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
            except StateDamaged:
                raise
            except StoreError as error:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
