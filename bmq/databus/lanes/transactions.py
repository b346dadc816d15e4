"""The port between a lane and the cluster: transactions that carry the lane's position with its records. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from bmq.databus.spool.frame import SpooledRecord
from bmq.dataclass import dataclass
from bmq.protocol.errors import BmqError


class SendFailed(BmqError):
    """The cluster is away, or refused for now. Whether the transaction was committed is unknown: start again."""


@dataclass(frozen=True, slots=True)
class TopicRefusal:
    """Why the cluster takes no records for a topic. `is_of_a_record`: it may take others."""

    sentence: str
    is_of_a_record: bool = False


class TopicsRefused(BmqError):
    """The transaction is not committed, and will not be while it has records of these topics."""

    def __init__(self, topics: Mapping[str, TopicRefusal]) -> None:
        super().__init__("; ".join(refusal.sentence for refusal in topics.values()))
        self.topics = dict(topics)


class Transactions(Protocol):
    """Of one transactional id. One thread calls it."""

    def start(self, batch_bytes: int) -> int:
        """End what a former process left open, and shut it out. Returns the kept position: records below it are
        committed; 0: none is kept. `batch_bytes`: of the largest batch. Raises SendFailed."""
        ...

    def add(self, records: Sequence[SpooledRecord]) -> None:
        """They are in the next commit. Raises SendFailed."""
        ...

    def commit(self, position: int) -> None:
        """The records that were added, and the position, in one transaction. Raises SendFailed, TopicsRefused."""
        ...

    def close(self) -> None:
        """Without a commit. `start` may follow."""
        ...

    def end(self) -> None:
        """Give back what is held. No other call follows."""
        ...
