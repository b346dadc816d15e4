"""ShareFetchRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class AcknowledgementBatch(Message):
    """A part of ShareFetchRequest."""

    first_offset: int
    last_offset: int
    acknowledge_types: Sequence[int]

    def __init__(
        self,
        *,
        first_offset: int = 0,
        last_offset: int = 0,
        acknowledge_types: Sequence[int] = (),
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.acknowledge_types = acknowledge_types


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class FetchPartition(Message):
    """A part of ShareFetchRequest."""

    partition_index: int
    acknowledgement_batches: Sequence[AcknowledgementBatch]

    def __init__(
        self,
        *,
        partition_index: int = 0,
        acknowledgement_batches: Sequence[AcknowledgementBatch] = (),
    ) -> None:
        self.partition_index = partition_index
        self.acknowledgement_batches = acknowledgement_batches


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class FetchTopic(Message):
    """A part of ShareFetchRequest."""

    topic_id: UUID | None
    partitions: Sequence[FetchPartition]

    def __init__(
        self,
        *,
        topic_id: UUID | None = None,
        partitions: Sequence[FetchPartition] = (),
    ) -> None:
        self.topic_id = topic_id
        self.partitions = partitions


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class ForgottenTopic(Message):
    """A part of ShareFetchRequest."""

    topic_id: UUID | None
    partitions: Sequence[int]

    def __init__(
        self,
        *,
        topic_id: UUID | None = None,
        partitions: Sequence[int] = (),
    ) -> None:
        self.topic_id = topic_id
        self.partitions = partitions


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class ShareFetchRequest(Message):
    """The message."""

    group_id: str | None
    member_id: str | None
    share_session_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    share_acquire_mode: int
    is_renew_ack: bool
    topics: Sequence[FetchTopic]
    forgotten_topics_data: Sequence[ForgottenTopic]

    def __init__(
        self,
        *,
        group_id: str | None = None,
        member_id: str | None = None,
        share_session_epoch: int = 0,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
        max_bytes: int = 2147483647,
        max_records: int = 0,
        batch_size: int = 0,
        share_acquire_mode: int = 0,
        is_renew_ack: bool = False,
        topics: Sequence[FetchTopic] = (),
        forgotten_topics_data: Sequence[ForgottenTopic] = (),
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.share_session_epoch = share_session_epoch
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.max_records = max_records
        self.batch_size = batch_size
        self.share_acquire_mode = share_acquire_mode
        self.is_renew_ack = is_renew_ack
        self.topics = topics
        self.forgotten_topics_data = forgotten_topics_data


_ACKNOWLEDGEMENT_BATCH: Final = Format(
    AcknowledgementBatch,
    version_min=1,
    version_max=2,
    flexible_from=0,
    fields=(
        FormatField("first_offset", "int64"),
        FormatField("last_offset", "int64"),
        FormatField("acknowledge_types", "int8", is_array=True),
    ),
)
_FETCH_PARTITION: Final = Format(
    FetchPartition,
    version_min=1,
    version_max=2,
    flexible_from=0,
    fields=(
        FormatField("partition_index", "int32"),
        FormatField("acknowledgement_batches", entity=_ACKNOWLEDGEMENT_BATCH, is_array=True),
    ),
)
_FETCH_TOPIC: Final = Format(
    FetchTopic,
    version_min=1,
    version_max=2,
    flexible_from=0,
    fields=(
        FormatField("topic_id", "uuid"),
        FormatField("partitions", entity=_FETCH_PARTITION, is_array=True),
    ),
)
_FORGOTTEN_TOPIC: Final = Format(
    ForgottenTopic,
    version_min=1,
    version_max=2,
    flexible_from=0,
    fields=(
        FormatField("topic_id", "uuid"),
        FormatField("partitions", "int32", is_array=True),
    ),
)
FORMAT: Final = Format(
    ShareFetchRequest,
    version_min=1,
    version_max=2,
    flexible_from=0,
    fields=(
        FormatField("group_id", "string", nullable_since=0),
        FormatField("member_id", "string", nullable_since=0),
        FormatField("share_session_epoch", "int32"),
        FormatField("max_wait_ms", "int32"),
        FormatField("min_bytes", "int32"),
        FormatField("max_bytes", "int32"),
        FormatField("max_records", "int32"),
        FormatField("batch_size", "int32"),
        FormatField("share_acquire_mode", "int8", since=2),
        FormatField("is_renew_ack", "bool", since=2),
        FormatField("topics", entity=_FETCH_TOPIC, is_array=True),
        FormatField("forgotten_topics_data", entity=_FORGOTTEN_TOPIC, is_array=True),
    ),
)
