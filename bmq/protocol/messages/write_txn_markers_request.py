"""WriteTxnMarkersRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class WritableTxnMarkerTopic(Message):
    """A part of WriteTxnMarkersRequest."""

    name: str
    partition_indexes: Sequence[int]

    def __init__(
        self,
        *,
        name: str = "",
        partition_indexes: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.partition_indexes = partition_indexes


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class WritableTxnMarker(Message):
    """A part of WriteTxnMarkersRequest."""

    producer_id: int
    producer_epoch: int
    transaction_result: bool
    topics: Sequence[WritableTxnMarkerTopic]
    coordinator_epoch: int
    transaction_version: int

    def __init__(
        self,
        *,
        producer_id: int = 0,
        producer_epoch: int = 0,
        transaction_result: bool = False,
        topics: Sequence[WritableTxnMarkerTopic] = (),
        coordinator_epoch: int = 0,
        transaction_version: int = 0,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.transaction_result = transaction_result
        self.topics = topics
        self.coordinator_epoch = coordinator_epoch
        self.transaction_version = transaction_version


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class WriteTxnMarkersRequest(Message):
    """The message."""

    markers: Sequence[WritableTxnMarker]

    def __init__(
        self,
        *,
        markers: Sequence[WritableTxnMarker] = (),
    ) -> None:
        self.markers = markers


_WRITABLE_TXN_MARKER_TOPIC: Final = Format(
    WritableTxnMarkerTopic,
    version_min=1,
    version_max=2,
    flexible_from=1,
    fields=(
        FormatField("name", "string"),
        FormatField("partition_indexes", "int32", is_array=True),
    ),
)
_WRITABLE_TXN_MARKER: Final = Format(
    WritableTxnMarker,
    version_min=1,
    version_max=2,
    flexible_from=1,
    fields=(
        FormatField("producer_id", "int64"),
        FormatField("producer_epoch", "int16"),
        FormatField("transaction_result", "bool"),
        FormatField("topics", entity=_WRITABLE_TXN_MARKER_TOPIC, is_array=True),
        FormatField("coordinator_epoch", "int32"),
        FormatField("transaction_version", "int8", since=2),
    ),
)
FORMAT: Final = Format(
    WriteTxnMarkersRequest,
    version_min=1,
    version_max=2,
    flexible_from=1,
    fields=(FormatField("markers", entity=_WRITABLE_TXN_MARKER, is_array=True),),
)
