"""What a lane and the process that produces for it say to each other, over a pair of sockets that only the two have."""

from __future__ import annotations

from collections.abc import Mapping

from bmq.databus.lanes.kafka_transactions import TransactionConfig
from bmq.databus.lanes.transactions import TopicRefusal
from bmq.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Start:
    """Answered by Started, Failed."""

    config: TransactionConfig
    batch_bytes: int


@dataclass(frozen=True, slots=True)
class Add:
    """Has no answer. `frames`: whole ones of a spool, one behind the other."""

    frames: bytes


@dataclass(frozen=True, slots=True)
class Commit:
    """Answered by Committed, Failed, Refused."""

    position: int


@dataclass(frozen=True, slots=True)
class Close:
    """Has no answer."""


@dataclass(frozen=True, slots=True)
class Started:
    position: int


@dataclass(frozen=True, slots=True)
class Committed:
    pass


@dataclass(frozen=True, slots=True)
class Failed:
    """`sentence` of a SendFailed."""

    sentence: str


@dataclass(frozen=True, slots=True)
class Refused:
    """`topics` of a TopicsRefused."""

    topics: Mapping[str, TopicRefusal]


Request = Start | Add | Commit | Close
Answer = Started | Committed | Failed | Refused
