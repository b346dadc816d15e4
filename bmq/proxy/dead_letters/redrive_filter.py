"""Which dead letters are delivered again, and what the record is then. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2s
from typing import Final, NamedTuple

from bmq.protocol.batch_records import Record
from bmq.protocol.dead_letters import HEADERS, DeadReason
from bmq.proxy.dead_letters.letters import COPY_HEADER

REDRIVEN_HEADER: Final = "bmq-redriven-from"
"""Of a record that is delivered again: TOPIC-PARTITION-OFFSET of its dead letter."""
_REASONS: Final = {reason.text: reason for reason in DeadReason}


class Letter(NamedTuple):
    """A dead letter's own headers, in words. `headers`: those of the record that it is a copy of."""

    topic: str
    partition: int
    offset: int
    group_id: str
    reason: DeadReason | None
    headers: Sequence[tuple[str, bytes | None]]
    has_copy: bool


def letter_of(record: Record) -> Letter | None:
    """None: the record is not a dead letter of a share group."""
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
    """Dead letters of one group that are to be delivered again; None: any. `from_ms`, `to_ms`: when they were written, the
    second one excluded. `topic`, `partition`: of the record.
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
    """The consumer group whose committed offsets say how far the redrive of these letters is; each filter has its own."""
    name = f"bmq-redrive.{group_id}"
    if wanted == LetterFilter():
        return name
    return f"{name}.{blake2s(repr(wanted).encode(), digest_size=4).hexdigest()}"


def redriven(record: Record, letter: Letter, letters_topic: str, letters_partition: int, now_ms: int) -> Record:
    """The record as it was, and where its dead letter is; of earlier redrives only the newest is named."""
    place = f"{letters_topic}-{letters_partition}-{record.offset}"
    own = [(name, value) for name, value in letter.headers if name != REDRIVEN_HEADER]
    return Record(record.key, record.value, [*own, (REDRIVEN_HEADER, place.encode())], now_ms)
