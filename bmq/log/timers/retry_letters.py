"""The port by which the owner of a retry topic's partition has dead letters written. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from bmq.protocol.batch_records import Record


class DeadRetry(NamedTuple):
    """A record whose last attempt failed. `offset`: its name in the retry topic. `attempts`: how often it was produced there."""

    offset: int
    attempts: int
    record: Record


class RetryLetters(Protocol):
    """Writes dead letters of retry topics."""

    def refusal(self, topic_name: str, size_bytes: int) -> str | None:
        """One sentence that says why this retry topic's dead letters cannot be written now; None if they can.

        `size_bytes`: size of the longest of the records.
        """

    async def write(self, topic_name: str, partition: int, dead: Sequence[DeadRetry]) -> int:
        """Write dead letters for the first of `dead`, durably; returns for how many, at least one.

        Raises KafkaError; some dead letters may be written then.
        """
