"""What a query needs of its topic: the port, and the values that go through it. Pure.

bmq.index.topic_log implements it with a Kafka client.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from bmq.dataclass import dataclass

RECORD_BYTES: Final = 256
"""What a record takes beside its key, its value and its headers."""


@dataclass(frozen=True, slots=True)
class LogRecord:
    """`timestamp_ms`: None for a record that has none."""

    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    @property
    def scanned_bytes(self) -> int:
        """What it counts for in a scan."""
        headers = sum(len(name) + len(value or b"") for name, value in self.headers)
        return RECORD_BYTES + len(self.key or b"") + len(self.value or b"") + headers


@dataclass(frozen=True, slots=True)
class TopicState:
    """`ends`: the next offsets of readers of committed records."""

    topic_id: uuid.UUID
    log_starts: Mapping[int, int]
    ends: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Tail:
    """What `scan` came to. `reached`: by partition the first offset that was not read. `bytes`: `scanned_bytes` of all."""

    reached: Mapping[int, int]
    records: int
    bytes: int


class TopicReader(Protocol):
    """Deadlines are of time.monotonic."""

    def state(self, topic: str) -> TopicState | None:
        """The present state; None: there is no such topic. Raises SourceAway."""

    def scan(
        self,
        topic: str,
        ranges: Mapping[int, tuple[int, int]],
        take: Callable[[LogRecord], None],
        *,
        bytes_max: int,
        deadline_s: float,
    ) -> Tail: ...

    def fetch(
        self, topic: str, offsets: Mapping[int, Sequence[int]], *, bytes_max: int, deadline_s: float
    ) -> dict[tuple[int, int], LogRecord | None]: ...
