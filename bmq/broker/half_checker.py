"""The port by which a partition's owner has half messages checked, and copies of those given up written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol

from bmq.protocol.batch_records import Record
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError


class CheckTarget(NamedTuple):
    """Where a check goes: to an address, or as a record into a topic. One of the two is empty."""

    url: str
    topic: str


class Check(NamedTuple):
    """`number`: 1 and up."""

    offset: int
    check_id: str
    number: int


class CheckRequest(NamedTuple):
    """Half messages of one partition that are undecided at this moment."""

    topic: str
    partition: int
    checks: tuple[Check, ...]


class CheckAnswer(NamedTuple):
    """The offsets of decided half messages. Those that it does not name stay undecided."""

    committed: tuple[int, ...] = ()
    rolled_back: tuple[int, ...] = ()


class NobodyAsked(KafkaError):
    """This node may not ask there. The checks do not count."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_CONFIG, message)


class HalfChecker(Protocol):
    """One for a process. It bounds how many requests are on their way at once."""

    async def ask(self, target: CheckTarget, take: Callable[[], Awaitable[CheckRequest | None]]) -> CheckAnswer | None:
        """Call `take` when there is room for a request, and send it. None: there was nothing left to ask.

        Raises NobodyAsked; BmqError if there was no answer, or what `take` raises.
        """

    async def copy(self, topic: str, partition: int, records: Sequence[Record]) -> None:
        """Write given-up messages of this partition into the topic; returns when they are durable. Raises BmqError."""

    async def close(self) -> None:
        """Ask no more; connections are closed."""
