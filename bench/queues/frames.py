"""The share fetches of many members, as the bytes that go over the wire. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from bench.core.frames import framed
from bmq.protocol.apis import ApiKey
from bmq.protocol.messages.share_fetch_request import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
)
from bmq.protocol.share_state_messages import RECORD_LIMIT, AckType

VERSION: Final = 2
LENGTH_BYTES: Final = 4
MAX_BYTES: Final = 1024 * 1024
_MARK_32: Final = 0x01010101
_MARK_64: Final = 0x0101010101010101


@dataclass(frozen=True, slots=True)
class Fetching:
    """What each member asks for. `members`: (member id, partition), ids of equal lengths."""

    group_id: str
    topic_id: UUID
    members: Sequence[tuple[str, int]]
    max_wait_ms: int = 500
    max_records: int = 1


@dataclass(frozen=True, slots=True)
class SessionFrames:
    """`data`: three requests of each member: it opens its session, fetches, fetches and accepts a range. `epoch_at`,
    `first_at`, `last_at`: where these fields stand, counted from behind the length.
    """

    data: bytes
    epoch_at: int
    first_at: int
    last_at: int


def session_frames(asked: Fetching) -> SessionFrames:
    """Raises ValueError for ids of different lengths."""
    if len({len(member_id) for member_id, _ in asked.members}) != 1:
        raise ValueError("the fields of all members have to stand at the same places")
    first, *_ = asked.members
    return SessionFrames(
        b"".join(frame for member in asked.members for frame in _frames_of(asked, *member)),
        *_places(asked, *first),
    )


def _frames_of(asked: Fetching, member_id: str, partition: int) -> Iterator[bytes]:
    at_once = replace(asked, max_wait_ms=0)
    yield _framed(_request(at_once, member_id, partition, epoch=0, is_named=True))
    yield _framed(_request(asked, member_id, partition, epoch=1))
    yield _framed(_request(asked, member_id, partition, epoch=1, accepted=(0, 0)))


def _places(asked: Fetching, member_id: str, partition: int) -> tuple[int, int, int]:
    def request(epoch: int, first: int, last: int) -> bytes:
        return _framed(_request(asked, member_id, partition, epoch=epoch, accepted=(first, last)))

    none = request(0, 0, 0)
    changed = (request(_MARK_32, 0, 0), request(0, _MARK_64, 0), request(0, 0, _MARK_64))
    epoch_at, first_at, last_at = (
        next(at for at, (left, right) in enumerate(zip(none, one, strict=True)) if left != right) - LENGTH_BYTES
        for one in changed
    )
    return epoch_at, first_at, last_at


def _request(
    asked: Fetching,
    member_id: str,
    partition: int,
    *,
    epoch: int,
    is_named: bool = False,
    accepted: tuple[int, int] | None = None,
) -> ShareFetchRequest:
    batches = (
        []
        if accepted is None
        else [
            AcknowledgementBatch(first_offset=accepted[0], last_offset=accepted[1], acknowledge_types=[AckType.ACCEPT])
        ]
    )
    named = FetchPartition(partition_index=partition, acknowledgement_batches=batches)
    return ShareFetchRequest(
        group_id=asked.group_id,
        member_id=member_id,
        share_session_epoch=epoch,
        max_wait_ms=asked.max_wait_ms,
        min_bytes=1,
        max_bytes=MAX_BYTES,
        # A session is opened without records: they would have to be accepted by a request of its own.
        max_records=0 if is_named else asked.max_records,
        batch_size=asked.max_records,
        share_acquire_mode=RECORD_LIMIT,
        topics=[FetchTopic(topic_id=asked.topic_id, partitions=[named])] if is_named or batches else [],
    )


def _framed(request: Any) -> bytes:
    return framed(ApiKey.SHARE_FETCH, VERSION, 0, request)
