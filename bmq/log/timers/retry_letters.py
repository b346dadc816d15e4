"""What the owner of a retry topic's partition asks of the rest of the server: to write dead letters. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from bmq.protocol.batch_records import Record


class DeadRetry(NamedTuple):
    """A record whose last attempt has failed. `offset`: its name in the retry topic. `attempts`: how often it was produced there."""

    offset: int
    attempts: int
    record: Record


class RetryLetters(Protocol):
    """Writes dead letters of retry topics."""

    def refusal(self, topic_name: str, size_bytes: int) -> str | None:
        """Why no dead letter of this retry topic can be written now, in one sentence; None: it can.

        `size_bytes`: of the longest record.
        """

    async def write(self, topic_name: str, partition: int, dead: Sequence[DeadRetry]) -> int:
        """Dead letters of the first of `dead`: how many, at least one. They are durable. Raises KafkaError, after which some
        may be there.
        """
