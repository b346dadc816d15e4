"""Internal calls about lanes: from proxies to the shard of a base group, and from that shard to those of its lanes' groups.

All of them may be sent again when the outcome of the first try is unknown: a second LaneDecide finds the lane taken, the
others change nothing. Besides the errors of a coordinator a part of LaneDecide has UNKNOWN_TOPIC_ID, and LaneGroup
UNSTABLE_OFFSET_COMMIT while a transaction may still commit offsets of the group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from bmq.dataclass import dataclass
from bmq.protocol.apis import ApiKey
from bmq.protocol.formats import Format, FormatField

NO_UUID: Final = UUID(int=0)
UNKNOWN: Final = -1
_VERSION_MAX: Final = 0


@dataclass(slots=True, kw_only=True)
class LanePartition:
    """Offsets `first` … `last` of a partition, which were read below its high watermark."""

    topic_id: UUID = NO_UUID
    partition: int = UNKNOWN
    first: int = UNKNOWN
    last: int = UNKNOWN


@dataclass(slots=True, kw_only=True)
class LaneDecideRequest:
    """Which intervals concern these offsets? `lane`: of the group that reads, which is to be taken; empty: the base group."""

    group_id: str = ""
    lane: str = ""
    partitions: Sequence[LanePartition] = ()


@dataclass(slots=True, kw_only=True)
class DecidedInterval:
    """As bmq.log.lanes.intervals.Interval."""

    lane: str = ""
    start: int = UNKNOWN
    end: int = UNKNOWN
    kept: int = UNKNOWN


@dataclass(slots=True, kw_only=True)
class DecidedPartition:
    """`intervals`: those that have one of the offsets asked about."""

    topic_id: UUID = NO_UUID
    partition: int = UNKNOWN
    error_code: int = 0
    error_message: str | None = None
    intervals: Sequence[DecidedInterval] = ()


@dataclass(slots=True, kw_only=True)
class LaneDecideResponse:
    """`error_code`: of the whole call; then it has no partitions."""

    error_code: int = 0
    error_message: str | None = None
    partitions: Sequence[DecidedPartition] = ()


@dataclass(slots=True, kw_only=True)
class CommittedPartition:
    """`offset`: committed by the group; UNKNOWN: none."""

    topic_id: UUID = NO_UUID
    partition: int = UNKNOWN
    offset: int = UNKNOWN


@dataclass(slots=True, kw_only=True)
class LaneGroupRequest:
    """Asks for the members of a lane's group, and for the offsets that it has committed in these partitions."""

    group_id: str = ""
    partitions: Sequence[CommittedPartition] = ()


@dataclass(slots=True, kw_only=True)
class LaneGroupResponse:
    """`client_ids`: one for each member. `is_mark_demanded`: the group's coordinator knows that the base group has lanes."""

    error_code: int = 0
    error_message: str | None = None
    is_mark_demanded: bool = False
    client_ids: Sequence[str] = ()
    partitions: Sequence[CommittedPartition] = ()


@dataclass(slots=True, kw_only=True)
class LaneListRequest:
    """All intervals of a base group."""

    group_id: str = ""


@dataclass(slots=True, kw_only=True)
class ListedInterval:
    """`copied`: see bmq.protocol.lane_records. `waits`: why its end or its copies wait, one sentence; empty: they do not."""

    topic_id: UUID = NO_UUID
    partition: int = UNKNOWN
    lane: str = ""
    start: int = UNKNOWN
    end: int = UNKNOWN
    kept: int = UNKNOWN
    opened_ms: int = UNKNOWN
    copied: int = UNKNOWN
    copied_records: int = 0
    waits: str = ""


@dataclass(slots=True, kw_only=True)
class UntakenLane:
    """A lane whose group reads a partition, and is given nothing. `reason`: one sentence."""

    topic_id: UUID = NO_UUID
    partition: int = UNKNOWN
    lane: str = ""
    reason: str = ""


@dataclass(slots=True, kw_only=True)
class LaneListResponse:
    """`untaken`: as the last fetches of lanes' groups found it."""

    error_code: int = 0
    error_message: str | None = None
    intervals: Sequence[ListedInterval] = ()
    untaken: Sequence[UntakenLane] = ()


def _format(message_class: type, *fields: FormatField) -> Format:
    return Format(message_class, _VERSION_MAX, 0, fields)


def _many(name: str, message_class: type, *fields: FormatField) -> FormatField:
    return FormatField(name, entity=_format(message_class, *fields), is_array=True)


def _numbers(*names: str) -> tuple[FormatField, ...]:
    return tuple(FormatField(name, "int64") for name in names)


_ERROR: Final = (FormatField("error_code", "int16"), FormatField("error_message", "string", nullable_since=0))
_PARTITION: Final = (FormatField("topic_id", "uuid"), FormatField("partition", "int32"))
_GROUP: Final = FormatField("group_id", "string")
_LANE: Final = FormatField("lane", "string")
_COMMITTED: Final = _many("partitions", CommittedPartition, *_PARTITION, *_numbers("offset"))

FORMATS: Final[dict[ApiKey, dict[str, Format]]] = {
    ApiKey.LANE_DECIDE: {
        "request": _format(
            LaneDecideRequest,
            _GROUP,
            _LANE,
            _many("partitions", LanePartition, *_PARTITION, *_numbers("first", "last")),
        ),
        "response": _format(
            LaneDecideResponse,
            *_ERROR,
            _many(
                "partitions",
                DecidedPartition,
                *_PARTITION,
                *_ERROR,
                _many("intervals", DecidedInterval, _LANE, *_numbers("start", "end", "kept")),
            ),
        ),
    },
    ApiKey.LANE_GROUP: {
        "request": _format(LaneGroupRequest, _GROUP, _COMMITTED),
        "response": _format(
            LaneGroupResponse,
            *_ERROR,
            FormatField("is_mark_demanded", "bool"),
            FormatField("client_ids", "string", is_array=True),
            _COMMITTED,
        ),
    },
    ApiKey.LANE_LIST: {
        "request": _format(LaneListRequest, _GROUP),
        "response": _format(
            LaneListResponse,
            *_ERROR,
            _many(
                "intervals",
                ListedInterval,
                *_PARTITION,
                _LANE,
                *_numbers("start", "end", "kept", "opened_ms", "copied", "copied_records"),
                FormatField("waits", "string", tag=0, default=""),
            ),
            _many("untaken", UntakenLane, *_PARTITION, _LANE, FormatField("reason", "string")),
        ),
    },
}
