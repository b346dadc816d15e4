"""What commands on a terminal know of a Kafka cluster: topics, configs, groups, and how a request fails. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Literal, NamedTuple

from bmq.dataclass import dataclass
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError

Partition = tuple[str, int]
"""(topic, partition)."""


class KafkaFailed(KafkaError):
    """A request that failed, in one sentence; `code` is the server's, if it answered."""

    def __init__(self, message: str, code: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR) -> None:
        super().__init__(code, message)


class KafkaUnreachable(KafkaFailed):
    """No server takes a connection."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ErrorCode.BROKER_NOT_AVAILABLE)


class NotFound(KafkaFailed):
    """A topic, a partition, a group or a broker that was named and does not exist."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ErrorCode.INVALID_REQUEST)


@dataclass(frozen=True, slots=True)
class TopicPartitionState:
    """`leader`: None while nobody leads it."""

    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Topic:
    """`topic_id` in Kafka's base64 form."""

    name: str
    topic_id: str
    is_internal: bool
    partitions: tuple[TopicPartitionState, ...]

    @property
    def replication(self) -> int:
        """Of its first partition."""
        return len(self.partitions[0].replicas) if self.partitions else 0

    @property
    def keys(self) -> Sequence[Partition]:
        return [(self.name, each.partition) for each in self.partitions]


class ConfigKind(StrEnum):
    """What configs belong to."""

    TOPIC = "topic"
    BROKER = "broker"
    GROUP = "group"


@dataclass(frozen=True, slots=True)
class Config:
    """`source`: topic, group, broker, all brokers, settings (of the server's process), default, or unknown."""

    name: str
    value: str | None
    source: str
    is_read_only: bool = False
    is_sensitive: bool = False


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One change of KIP-339; `append` and `subtract` for configs that are lists. `value` None: `delete`."""

    name: str
    operation: Literal["set", "delete", "append", "subtract"]
    value: str | None


class Group(NamedTuple):
    """`kind`: classic, consumer or other. `is_simple`: only offsets, without members ever."""

    name: str
    kind: str
    state: str
    is_simple: bool


@dataclass(frozen=True, slots=True)
class Member:
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assigned: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class GroupDetails:
    """`coordinator`: id of its node."""

    name: str
    kind: str
    state: str
    assignor: str
    coordinator: int | None
    members: tuple[Member, ...]
