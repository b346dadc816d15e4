"""OffsetCommit 6-10 as clients nearly always send it: no metadata, no tagged fields, names below 127 bytes.

One struct call reads the numbers of a topic's partitions into columns. Any other form is left to the general codec
(codec.py), which reads everything and reports errors.
"""

from __future__ import annotations

from functools import lru_cache, partial
from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple
from uuid import UUID

from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import encode
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from bmq.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

PARTITIONS_MAX: Final = 126
"""Partitions of one topic: their count fits into one byte. Also limits the number of compiled structs."""
TOPICS_MAX: Final = 126
NAME_BYTES_MAX: Final = 126
"""Longer names would make a small commit of many partitions large: each record has the group's name."""
KNOWN_MAX: Final = 4_096
"""Groups to remember, some hundred bytes each."""
KNOWN_PARTITIONS_MAX: Final = 65_536
"""Partitions of all of them together, some hundred bytes each."""
_LEADER_EPOCHS_FROM: Final = 6
_INSTANCE_IDS_FROM: Final = 7
_FLEXIBLE_FROM: Final = 8
_TOPIC_IDS_FROM: Final = 10
_UUID_BYTES: Final = 16
_ZERO_UUID: Final = bytes(_UUID_BYTES)
_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_NO_TAGS: Final = b"\0\0"  # at the end of the last topic and of the request
_PLAIN_ENDS: Final = frozenset((0x0000, 0x0100))  # null or empty metadata, no tagged fields
_EMPTY_OR_NULL_CLASSIC: Final = frozenset((0, -1))


class PlainTopic(NamedTuple):
    """The partitions of a topic: its name, or the bytes of its id."""

    topic: str | bytes
    indexes: tuple[int, ...]


class Committed(NamedTuple):
    """The offsets committed for the partitions of one PlainTopic."""

    offsets: tuple[int, ...]
    leader_epochs: tuple[int, ...]


class PlainCommit(NamedTuple):
    """`committed` is in the order of `topics`. The other names are those of OffsetCommitRequest."""

    api_version: int
    group_id: str
    generation_id_or_member_epoch: int
    member_id: str
    group_instance_id: str | None
    topics: tuple[PlainTopic, ...]
    committed: list[Committed]

    def request(self) -> OffsetCommitRequest:
        """The same commit as a message object."""
        return OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=self.generation_id_or_member_epoch,
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=name_of(part),
                    topic_id=topic_id_of(part),
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=index, committed_offset=offset, committed_leader_epoch=leader_epoch
                        )
                        for index, offset, leader_epoch in zip(part.indexes, *committed, strict=True)
                    ],
                )
                for part, committed in zip(self.topics, self.committed, strict=True)
            ],
        )


def name_of(part: PlainTopic) -> str:
    return part.topic if isinstance(part.topic, str) else ""


def topic_id_of(part: PlainTopic) -> UUID | None:
    return UUID(bytes=part.topic) if isinstance(part.topic, bytes) else None


def parse_plain_commit(frame: bytes | bytearray, position: int, api_version: int) -> PlainCommit | None:
    """Parse the OffsetCommit whose body is at `position`; None if it is not plain or does not parse."""
    if not _LEADER_EPOCHS_FROM <= api_version <= _TOPIC_IDS_FROM:
        return None
    try:
        if api_version >= _FLEXIBLE_FROM:
            return _flexible(frame, position, api_version)
        return _classic(frame, position, api_version)
    except (IndexError, struct_error, UnicodeDecodeError):
        return None


_committed_of = partial(tuple.__new__, Committed)  # from the fields in order, at half the cost of calling the class
_commit_of = partial(tuple.__new__, PlainCommit)


class _Known(NamedTuple):
    """A plain commit to one topic. `said`: its body up to the rows. `indexes`: partitions of the rows."""

    api_version: int
    said: bytes
    body_bytes: int
    rows: Struct
    indexes: tuple[int, ...]
    commit: PlainCommit


class PlainCommits:
    """Like parse_plain_commit, at half its cost when a group commits the same partitions again: only the rows are read.

    Remembers the last commit of each of KNOWN_MAX groups.
    """

    __slots__ = ("_known", "partition_count")

    def __init__(self) -> None:
        self._known: dict[bytes, _Known] = {}  # by the group's name as encoded in the frame
        self.partition_count = 0

    @property
    def count(self) -> int:
        return len(self._known)

    def parse(self, frame: bytearray, position: int, api_version: int) -> PlainCommit | None:
        """Parse the OffsetCommit whose body is at `position`; None if it is not plain or does not parse."""
        if api_version < _FLEXIBLE_FROM or position >= len(frame):
            return parse_plain_commit(frame, position, api_version)
        name = bytes(frame[position : position + frame[position]])
        known = self._known.get(name)
        if known is not None:
            version, said, body_bytes, rows, indexes, commit = known
            if (
                version == api_version
                and len(frame) == position + body_bytes
                and frame.startswith(said, position)
                and frame.endswith(_NO_TAGS)
            ):
                numbers = rows.unpack_from(frame, position + len(said))
                if numbers[::4] == indexes and _PLAIN_ENDS.issuperset(numbers[3::4]):
                    return _commit_of((*commit[:-1], [_committed_of((numbers[1::4], numbers[2::4]))]))
        plain = parse_plain_commit(frame, position, api_version)
        if plain is not None and len(plain.topics) == 1:
            self._remember(name, plain, frame, position)
        return plain

    def _remember(self, name: bytes, commit: PlainCommit, frame: bytearray, position: int) -> None:
        indexes = commit.topics[0].indexes
        rows = _rows(len(indexes))
        said = bytes(frame[position : position + _bytes_before_rows(commit)])
        if len(frame) != position + len(said) + rows.size + len(_NO_TAGS):
            return  # something follows the rows that would not be read
        before = self._known.pop(name, None)
        if before is not None:
            self.partition_count -= len(before.indexes)
        self.partition_count += len(indexes)
        while len(self._known) >= KNOWN_MAX or (self._known and self.partition_count > KNOWN_PARTITIONS_MAX):
            self.partition_count -= len(self._known.pop(next(iter(self._known))).indexes)
        self._known[name] = _Known(commit.api_version, said, len(frame) - position, rows, indexes, commit)


def _bytes_before_rows(commit: PlainCommit) -> int:
    """Size of a flexible commit to one topic before its rows: strings and arrays have a one-byte length."""
    strings = (commit.group_id, commit.member_id, commit.group_instance_id or "")
    topic = commit.topics[0].topic
    topic_bytes = 1 + len(topic.encode()) if isinstance(topic, str) else _UUID_BYTES
    return sum(1 + len(text.encode()) for text in strings) + _INT32.size + 1 + topic_bytes + 1


def encode_answer(api_version: int, topics: tuple[PlainTopic, ...], code: ErrorCode) -> bytes:
    """The body of an OffsetCommit response with the same code for all partitions."""
    response = OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=name_of(part),
                topic_id=topic_id_of(part),
                partitions=[
                    OffsetCommitResponsePartition(partition_index=index, error_code=code) for index in part.indexes
                ],
            )
            for part in topics
        ]
    )
    return encode("response", ApiKey.OFFSET_COMMIT, api_version, response)


@lru_cache(maxsize=PARTITIONS_MAX)
def _rows(count: int) -> Struct:
    """Each row: partition, offset, leader epoch; metadata length and tag count, a byte each, as one number."""
    return Struct(">" + "iqiH" * count)


@lru_cache(maxsize=PARTITIONS_MAX)
def _classic_rows(count: int) -> Struct:
    """Each row: partition, offset, leader epoch, metadata length."""
    return Struct(">" + "iqih" * count)


def _flexible(frame: bytes | bytearray, at: int, api_version: int) -> PlainCommit | None:
    """Raises IndexError, struct.error, UnicodeDecodeError.

    A slice cut short by the frame's end is detected when the next byte is read.
    """
    stop = at + frame[at]
    if not at < stop <= at + 127:
        return None
    group_id = str(frame[at + 1 : stop], "utf-8")
    (generation,) = _INT32.unpack_from(frame, stop)
    at = stop + 4
    stop = at + frame[at]
    if not at < stop <= at + 127:
        return None
    member_id = str(frame[at + 1 : stop], "utf-8")
    at = stop
    instance_id = None
    if frame[at]:
        stop = at + frame[at]
        if stop > at + 127:
            return None
        instance_id = str(frame[at + 1 : stop], "utf-8")
        at = stop
    else:
        at += 1
    topic_count = frame[at] - 1
    if not 0 < topic_count <= TOPICS_MAX:
        return None
    at += 1
    topics = []
    committed = []
    for _ in range(topic_count):
        topic: str | bytes
        if api_version >= _TOPIC_IDS_FROM:
            stop = at + _UUID_BYTES
            topic = bytes(frame[at:stop])
            if topic == _ZERO_UUID:
                return None
        else:
            stop = at + frame[at]
            if not at < stop <= at + 127:
                return None
            topic = str(frame[at + 1 : stop], "utf-8")
        count = frame[stop] - 1
        if not 0 < count <= PARTITIONS_MAX:
            return None
        rows = _rows(count)
        numbers = rows.unpack_from(frame, stop + 1)
        at = stop + 1 + rows.size
        if frame[at] or not _PLAIN_ENDS.issuperset(numbers[3::4]):
            return None
        at += 1
        topics.append(PlainTopic(topic, numbers[::4]))
        committed.append(Committed(numbers[1::4], numbers[2::4]))
    if frame[at]:
        return None
    return PlainCommit(api_version, group_id, generation, member_id, instance_id, tuple(topics), committed)


def _classic(frame: bytes | bytearray, at: int, api_version: int) -> PlainCommit | None:
    """Like `_flexible`, for versions 6 and 7."""
    group_id, at = _string(frame, at)
    (generation,) = _INT32.unpack_from(frame, at)
    member_id, at = _string(frame, at + 4)
    instance_id = None
    if api_version >= _INSTANCE_IDS_FROM:
        instance_id, at = _string(frame, at)
    (topic_count,) = _INT32.unpack_from(frame, at)
    if group_id is None or member_id is None or not 0 < topic_count <= TOPICS_MAX:
        return None
    at += 4
    topics = []
    committed = []
    for _ in range(topic_count):
        topic, at = _string(frame, at)
        (count,) = _INT32.unpack_from(frame, at)
        if topic is None or not 0 < count <= PARTITIONS_MAX:
            return None
        rows = _classic_rows(count)
        numbers = rows.unpack_from(frame, at + 4)
        at += 4 + rows.size
        if not _EMPTY_OR_NULL_CLASSIC.issuperset(numbers[3::4]):
            return None
        topics.append(PlainTopic(topic, numbers[::4]))
        committed.append(Committed(numbers[1::4], numbers[2::4]))
    return PlainCommit(api_version, group_id, generation, member_id, instance_id, tuple(topics), committed)


def _string(frame: bytes | bytearray, at: int) -> tuple[str | None, int]:
    """Raises struct.error at the end of the frame, for a length below -1 (null), and for a long name."""
    (length,) = _INT16.unpack_from(frame, at)
    start = at + 2
    if length > NAME_BYTES_MAX:
        raise struct_error("a long name")
    if length < 0:
        if length < -1:
            raise struct_error("a string of a negative length")
        return None, start
    return str(frame[start : start + length], "utf-8"), start + length
