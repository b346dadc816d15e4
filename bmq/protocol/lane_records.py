"""Records of `__consumer_offsets` about lanes that are or were taken: bmq's own; Kafka's tools skip keys of this type.

A key is an int16 type and classic fields, a value an int16 version (0) and a flexible body; no value (a tombstone) deletes
the interval. Decisions only.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from bmq.dataclass import dataclass
from bmq.protocol.formats import Format, FormatField
from bmq.protocol.record_types import RecordTypes, value_format

INTERVAL_KEY_TYPE: Final = 20_000
"""Far above Kafka's own types, which count up from 0."""
NO_PRODUCER_ID: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneIntervalKey:
    """An interval of a partition in which a lane is taken. `group`: the base group."""

    group: str
    topic_id: UUID
    partition: int
    lane: str
    start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneIntervalValue:
    """`end`, `kept`: see bmq.log.lanes.intervals. `opened_ms`: wall time.

    How far what was left over is copied: `copied` is the offset to go on from, `copied_records` how many copies there are,
    `producer_id` wrote them, into `copy_partition`.
    """

    end: int
    kept: int
    opened_ms: int = -1
    copied: int = -1
    copied_records: int = 0
    producer_id: int = NO_PRODUCER_ID
    copy_partition: int = -1


_KEY: Final = Format(
    LaneIntervalKey,
    0,
    1,
    (
        FormatField("group", "string"),
        FormatField("topic_id", "uuid"),
        FormatField("partition", "int32"),
        FormatField("lane", "string"),
        FormatField("start", "int64"),
    ),
)
_VALUE: Final = value_format(
    LaneIntervalValue,
    FormatField("end", "int64"),
    FormatField("kept", "int64"),
    FormatField("opened_ms", "int64"),
    FormatField("copied", "int64", tag=0, default=-1),
    FormatField("copied_records", "int64", tag=1, default=0),
    FormatField("producer_id", "int64", tag=2, default=NO_PRODUCER_ID),
    FormatField("copy_partition", "int32", tag=3, default=-1),
)
RECORD_TYPES: Final[RecordTypes[LaneIntervalKey, LaneIntervalValue]] = RecordTypes(
    "lanes", {INTERVAL_KEY_TYPE: (_KEY, _VALUE)}
)

encode_key = RECORD_TYPES.encode_key
encode_value = RECORD_TYPES.encode_value
decode_key = RECORD_TYPES.decode_key
decode_value = RECORD_TYPES.decode_value
is_lane_key = RECORD_TYPES.has
