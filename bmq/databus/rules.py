"""What a channel's configuration does to one record. Decisions only; time and dice are handed in."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, NamedTuple

from bmq.channels.channel import Channel, InvalidChannel, KeyBy, SchemaCheck, SpoolFull
from bmq.channels.channel_set import ChannelSet
from bmq.channels.value_schema import SchemaCheckMissing, ValueCheck
from bmq.databus.rate_limit import RateLimit
from bmq.databus.record_fields import headers_at
from bmq.databus.socket_frame import Code
from bmq.dataclass import dataclass


class Refusal(NamedTuple):
    """Why a record is not taken. `retry_after_ms`: 0 unless the code is RETRY."""

    code: Code
    sentence: str
    retry_after_ms: int = 0


@dataclass(slots=True)
class ChannelCounts:
    """Since the start of the agent, kept while the channel changes. Plain numbers: the record's path counts in them."""

    accepted_records: int = 0
    accepted_bytes: int = 0
    sampled_out: int = 0
    dropped_newest: int = 0
    dropped_oldest: int = 0
    refused: dict[Code, int] = field(default_factory=dict)

    def refuse(self, code: Code, count: int = 1) -> None:
        self.refused[code] = self.refused.get(code, 0) + count


class LaneKey(NamedTuple):
    """Records of a lane are produced by one producer. `is_droppable`: its oldest records make room in a full spool."""

    compression: str
    is_droppable: bool

    @property
    def name(self) -> str:
        """Of its directory, and in its transactional id."""
        return f"{self.compression}-droppable" if self.is_droppable else self.compression


class CompiledChannel:
    """A channel, ready for its records. `counts` and `limit` are those of the channel's former state, if there are any."""

    __slots__ = (
        "_check",
        "_has_key_rule",
        "channel",
        "counts",
        "fault",
        "lane",
        "limit",
        "name",
        "sampling_rate",
        "topic",
    )

    def __init__(self, channel: Channel, counts: ChannelCounts, limit: RateLimit | None = None) -> None:
        self.channel = channel
        self.counts = counts
        self.name = channel.name.encode()
        self.topic = channel.topic.encode()
        self.lane = lane_key_of(channel)
        self.sampling_rate = channel.sampling_rate
        self.limit = limit if limit is not None else limit_of(channel)
        self.fault = "" if channel.enabled else f"the channel {channel.name} is disabled"
        """Why all its records are refused."""
        self._has_key_rule = channel.key.by is not KeyBy.NONE
        self._check: ValueCheck | None = None
        if channel.schema_check is not SchemaCheck.NONE:
            try:
                self._check = ValueCheck(channel)
            except (InvalidChannel, SchemaCheckMissing) as error:
                self.fault = self.fault or f"the channel {channel.name} cannot be used: {error}"

    def refusal(self, length: int, value: bytes | None) -> Refusal | None:
        """`length`: bytes of key, value and headers."""
        if self.fault:
            return Refusal(Code.CHANNEL_DISABLED, self.fault)
        channel = self.channel
        if length > channel.max_record_bytes:
            return Refusal(
                Code.RECORD_TOO_LARGE,
                f"the record has {length} bytes, the channel {channel.name} allows {channel.max_record_bytes}",
            )
        if self._check is not None and (why := self._check.problem_of(value)) is not None:
            return Refusal(Code.BAD_VALUE, why)
        return None

    def key_of(self, key: bytes | None, value: bytes | None, headers: bytes) -> bytes | None:
        """The key that the channel's rule gives; `headers`: encoded."""
        if not self._has_key_rule:
            return key
        rule = self.channel.key
        if rule.by is KeyBy.CONSTANT:
            return (rule.constant or "").encode()
        if rule.by is KeyBy.HEADER:
            return next(
                (content for name, content in headers_at(headers, 0, len(headers)) if name == rule.header), None
            )
        try:
            return None if value is None else _field(json.loads(value), rule.path)
        except (ValueError, RecursionError):
            return None


def lane_key_of(channel: Channel) -> LaneKey:
    return LaneKey(channel.compression.value, channel.spool_full is SpoolFull.DROP_OLDEST)


def limit_of(channel: Channel) -> RateLimit | None:
    """None: the channel has no limit."""
    records, length = channel.rate_limit_records_per_s, channel.rate_limit_bytes_per_s
    return None if records is None and length is None else RateLimit(records, length)


def compiled(
    channels: ChannelSet, former: Mapping[bytes, CompiledChannel], counts: Callable[[str], ChannelCounts]
) -> dict[bytes, CompiledChannel]:
    """By the raw name. A channel that did not change is not made again, and a limit that did not change goes on."""
    found = {}
    for name, channel in channels.channels.items():
        before = former.get(name.encode())
        if before is not None and before.channel == channel:
            found[name.encode()] = before
            continue
        is_same_limit = before is not None and _rates(before.channel) == _rates(channel)
        limit = before.limit if before is not None and is_same_limit else None
        found[name.encode()] = CompiledChannel(channel, counts(name), limit)
    return found


def _rates(channel: Channel) -> tuple[int | None, int | None]:
    return channel.rate_limit_records_per_s, channel.rate_limit_bytes_per_s


def _field(found: Any, path: tuple[str, ...]) -> bytes | None:
    """The text of a field: as it is for a text, else as JSON. None: there is none, or it is null."""
    for step in path:
        if not isinstance(found, dict) or step not in found:
            return None
        found = found[step]
    if found is None:
        return None
    text = found if isinstance(found, str) else json.dumps(found, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")
