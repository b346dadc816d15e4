"""What a subscriber asks for in its first message, checked. Pure."""

from __future__ import annotations

from typing import Final

from bmq.dataclass import dataclass
from bmq.gateway.failure import invalid
from bmq.gateway.held_records import HeldRecord
from bmq.gateway.v1 import gateway_pb2
from bmq.views.filter_error import InvalidFilter
from bmq.views.view_filter import ViewFilter, compiled

NAME_BYTES_MAX: Final = 249
"""The longest name of a topic (Kafka's Topic.MAX_NAME_LENGTH)."""
GROUP_BYTES_MAX: Final = 1024


@dataclass(frozen=True, slots=True)
class Subscription:
    """`group`: empty for none. `timestamp_ms`: None unless it begins at a time."""

    topics: tuple[str, ...]
    group: str
    is_share_group: bool
    is_earliest: bool
    timestamp_ms: int | None
    condition: ViewFilter | None

    def takes(self, record: HeldRecord) -> bool:
        """Whether the record passes the filter."""
        return self.condition is None or self.condition.predicate(record.fields()) is True

    @property
    def filter_text(self) -> str:
        return "" if self.condition is None else self.condition.text


def subscription_of(start: gateway_pb2.Start, *, topics_max: int) -> Subscription:
    """Raises GatewayFailed, INVALID_ARGUMENT, with one sentence."""
    topics = tuple(sorted(set(start.topics)))
    if not topics:
        raise invalid("the subscription has no topic; name at least one in start.topics")
    if len(topics) > topics_max:
        raise invalid(f"the subscription has {len(topics)} topics, {topics_max} are allowed")
    for topic in topics:
        require_topic(topic)
    if len(start.group.encode()) > GROUP_BYTES_MAX:
        raise invalid(f"the group's name has more than {GROUP_BYTES_MAX} bytes")
    _require_consistent(start)
    return Subscription(
        topics,
        start.group,
        bool(start.group) and start.group_kind != gateway_pb2.GROUP_KIND_CONSUMER,
        start.position == gateway_pb2.POSITION_EARLIEST,
        start.timestamp_ms if start.HasField("timestamp_ms") else None,
        _condition(start),
    )


def require_topic(topic: str) -> None:
    """Raises GatewayFailed unless this may be a topic's name; the cluster looks closer."""
    if not topic:
        raise invalid("the topic's name is empty")
    if len(topic.encode()) > NAME_BYTES_MAX:
        raise invalid(f"the topic's name has more than {NAME_BYTES_MAX} bytes")
    if "\0" in topic:
        raise invalid("the topic's name has a zero byte")


def _require_consistent(start: gateway_pb2.Start) -> None:
    if start.group_kind not in gateway_pb2.GroupKind.values():
        raise invalid(f"group_kind {start.group_kind} is unknown to this gateway")
    if start.position not in gateway_pb2.Position.values():
        raise invalid(f"position {start.position} is unknown to this gateway")
    if not start.group and start.group_kind != gateway_pb2.GROUP_KIND_UNSPECIFIED:
        raise invalid("a group_kind needs a group; set start.group")
    if start.HasField("timestamp_ms"):
        if start.group:
            raise invalid("a group begins where it is; timestamp_ms is for subscriptions without a group")
        if start.timestamp_ms < 0:
            raise invalid("timestamp_ms is below zero")
        if start.position != gateway_pb2.POSITION_UNSPECIFIED:
            raise invalid("position and timestamp_ms exclude each other; set one")
    is_share = bool(start.group) and start.group_kind != gateway_pb2.GROUP_KIND_CONSUMER
    if is_share and start.position != gateway_pb2.POSITION_UNSPECIFIED:
        raise invalid("a share group begins where its config share.auto.offset.reset says; leave position out")


def _condition(start: gateway_pb2.Start) -> ViewFilter | None:
    if start.filter and start.tags:
        raise invalid("filter and tags exclude each other; set one")
    text = start.filter
    if start.tags:
        quoted = ", ".join("'" + tag.replace("'", "''") + "'" for tag in start.tags)
        text = f"tag IN ({quoted})"
    if not text:
        return None
    try:
        return compiled(text)
    except InvalidFilter as error:
        raise invalid(str(error)) from error
