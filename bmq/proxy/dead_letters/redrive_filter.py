"""Chooses the dead letters of a redrive, and restores their records. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2s
from typing import Final, NamedTuple

from bmq.dataclass import dataclass
from bmq.protocol.batch_records import Record
from bmq.protocol.dead_letters import HEADERS, DeadReason
from bmq.proxy.dead_letters.letters import COPY_HEADER

REDRIVEN_HEADER: Final = "bmq-redriven-from"
"""Header of a redriven record: TOPIC-PARTITION-OFFSET of its dead letter."""
_REASONS: Final = {reason.text: reason for reason in DeadReason}


class Letter(NamedTuple):
    """A dead letter's own headers, decoded. `headers`: those of the original record."""

    topic: str
    partition: int
    offset: int
    group_id: str
    reason: DeadReason | None
    headers: Sequence[tuple[str, bytes | None]]
    has_copy: bool


def letter_of(record: Record) -> Letter | None:
    """The record as a dead letter; None if it is none."""
    own, rest = record.headers[: len(HEADERS)], record.headers[len(HEADERS) :]
    if tuple(name for name, _ in own) != HEADERS:
        return None
    topic, partition, offset, group_id, _, message = ((value or b"").decode("utf-8", "replace") for _, value in own)
    if not (partition.isascii() and partition.isdigit() and offset.isascii() and offset.isdigit()):
        return None
    is_without = bool(rest) and rest[0][0] == COPY_HEADER
    has_copy = not is_without and not (record.key is None and record.value is None and not rest)
    return Letter(topic, int(partition), int(offset), group_id, _REASONS.get(message), rest, has_copy)


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """Which dead letters of a group to redrive. A field that is None allows any value.

    `from_ms`, `to_ms`: when the letter was written, from the first (included) to the second (excluded). `topic`, `partition`:
    those of the original record.
    """

    reason: DeadReason | None = None
    topic: str | None = None
    partition: int | None = None
    key: bytes | None = None
    from_ms: int | None = None
    to_ms: int | None = None

    def has(self, letter: Letter, record: Record) -> bool:
        return (
            self.reason in (None, letter.reason)
            and self.topic in (None, letter.topic)
            and self.partition in (None, letter.partition)
            and self.key in (None, record.key)
            and (self.from_ms is None or record.timestamp_ms >= self.from_ms)
            and (self.to_ms is None or record.timestamp_ms < self.to_ms)
        )


def progress_group(group_id: str, wanted: LetterFilter) -> str:
    """The consumer group whose committed offsets are the progress of this redrive; each filter has its own group."""
    name = f"bmq-redrive.{group_id}"
    if wanted == LetterFilter():
        return name
    return f"{name}.{blake2s(repr(wanted).encode(), digest_size=4).hexdigest()}"


def redriven(record: Record, letter: Letter, letters_topic: str, letters_partition: int, now_ms: int) -> Record:
    """The original record, with a header that names its dead letter; headers of earlier redrives are removed."""
    place = f"{letters_topic}-{letters_partition}-{record.offset}"
    own = [(name, value) for name, value in letter.headers if name != REDRIVEN_HEADER]
    return Record(record.key, record.value, [*own, (REDRIVEN_HEADER, place.encode())], now_ms)
