"""What a partition's owner needs to have half messages checked: something that asks, and that writes copies of those given up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol

from bmq.protocol.batch_records import Record
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError


class CheckTarget(NamedTuple):
    """Whom to ask: an address, or by a record in a topic. One of them is empty."""

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
    """Offsets of those that are decided; about the others nothing was said."""

    committed: tuple[int, ...] = ()
    rolled_back: tuple[int, ...] = ()


class NobodyAsked(KafkaError):
    """This node may not ask there. The checks do not count."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_CONFIG, message)


class HalfChecker(Protocol):
    """One for a process. It bounds how many requests are on their way at once."""

    async def ask(self, target: CheckTarget, take: Callable[[], Awaitable[CheckRequest | None]]) -> CheckAnswer | None:
        """Call `take` when it is its turn, and ask at once. None: nothing was to be asked any more.

        Raises NobodyAsked; BmqError if there was no answer, or what `take` raises.
        """

    async def copy(self, topic: str, partition: int, records: Sequence[Record]) -> None:
        """Write given-up messages of this partition into the topic; returns when they are durable. Raises BmqError."""

    async def close(self) -> None:
        """Ask no more; connections are closed."""
