"""Channels of Databus: creating, altering, deleting. Decisions only.

Here a channel is only configuration: agents follow it, and deleting a channel leaves its topic and records.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bmq.channels.channel import Channel, InvalidChannel, channel_to_json
from bmq.channels.channel_set import CHANNELS_MAX, SET_BYTES_MAX
from bmq.channels.stored import StoredChannel, UnreadableChannel, stored_channel
from bmq.controller.decision import Decision
from bmq.dataclass import dataclass
from bmq.metadata.image import INTERNAL_TOPICS, MetadataImage
from bmq.metadata.state import ALL_CHANNELS, CHANNEL_CONFIG, CHANNELS_VERSION_CONFIG
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.protocol.metadata_records import RESOURCE_TYPE_CHANNEL, ConfigRecord

STORED_BYTES_MAX: Final = 256 * 1024
"""Limit on one channel's text in the metadata log."""
NO_CHANNEL: Final = 0
"""The version of a channel that does not exist."""
_SHOWN_MAX: Final = 60


class UnknownChannel(BmqError):
    """There is no channel of this name."""


class ChannelRefused(BmqError):
    """Existing channels or topics do not allow the change."""

    code = ErrorCode.INVALID_REQUEST


@dataclass(frozen=True, slots=True)
class ChannelChange:
    """The outcome: one sentence overall, and one for each key that differs. `version`: of all channels, afterwards.

    `stored`: the channel afterwards; None if it was deleted. `is_new`: it did not exist before.
    """

    summary: str
    version: int
    stored: StoredChannel | None = None
    changes: tuple[str, ...] = ()
    is_new: bool = False


def find_channel(image: MetadataImage, name: str) -> StoredChannel:
    """Raises UnknownChannel, UnreadableChannel."""
    text = image.channels.get(name)
    if text is None:
        raise UnknownChannel(f"there is no channel {name}")
    return stored_channel(text)


def topic_problem(image: MetadataImage, topic: str) -> str | None:
    """Why no record can be produced to a topic, in one sentence; None if it can."""
    found = image.topics.get(topic)
    if topic in INTERNAL_TOPICS:
        return f"topic {topic} is bmq's own, and applications do not write to it"
    if found is None:
        return f"there is no topic {topic}; create it first, or ask for it with create_topic"
    if found.view is not None:
        return f"{topic} is a view of topic {found.view.base_name}, and nothing is written to a view"
    return None


def decide_put_channel(
    image: MetadataImage,
    channel: Channel,
    now_ms: int,
    *,
    if_version: int | None = None,
    is_topic_coming: bool = False,
) -> Decision[ChannelChange]:
    """Create a channel, or replace it as a whole. An equal existing one counts as success: an answer may have been lost.

    `if_version`: only if the channel still has this version (NO_CHANNEL: only if there is none). `is_topic_coming`: a
    missing topic will be created first. Raises ChannelRefused, InvalidChannel.
    """
    name = channel.name
    text = image.channels.get(name)
    before = None if text is None else _readable(text)
    if before is not None and before.channel == channel:
        return Decision(ChannelChange(f"Channel {name} is so already.", image.channels_version, before))
    _require_version(name, text, before, if_version)
    if text is None and len(image.channels) >= CHANNELS_MAX:
        raise ChannelRefused(f"there are {len(image.channels)} channels, and no more may be; delete one first")
    if before is None or before.channel.topic != channel.topic:
        why = topic_problem(image, channel.topic)
        if why is not None and not (is_topic_coming and channel.topic not in image.topics):
            raise ChannelRefused(why)
    version = image.channels_version + 1
    created_at_ms = now_ms if before is None else before.created_at_ms
    stored = StoredChannel(version=version, created_at_ms=created_at_ms, altered_at_ms=now_ms, channel=channel)
    changes = () if before is None else differences(before.channel, channel)
    if before is None:
        replaced = ", and replaces one that this release cannot read" if text is not None else ""
        summary = f"Channel {name} leads to topic {channel.topic}{replaced}."
    else:
        summary = f"Channel {name} changes; agents follow at once."
    change = ChannelChange(summary, version, stored, changes, is_new=text is None)
    return Decision(change, _records(image, name, stored, version))


def decide_delete_channel(image: MetadataImage, name: str, *, if_version: int | None = None) -> Decision[ChannelChange]:
    """Delete a channel, even one that this release cannot read. Raises UnknownChannel, ChannelRefused."""
    text = image.channels.get(name)
    if text is None:
        raise UnknownChannel(f"there is no channel {name}")
    _require_version(name, text, _readable(text), if_version)
    version = image.channels_version + 1
    summary = f"Channel {name} is deleted; agents refuse its records, and its topic stays."
    return Decision(ChannelChange(summary, version), _records(image, name, None, version))


def differences(before: Channel, after: Channel) -> tuple[str, ...]:
    """One sentence for each key that differs."""
    old, new = channel_to_json(before), channel_to_json(after)
    return tuple(
        f"{key} is {_shown(new[key])}; it was {_shown(old[key])}"
        for key in new
        if key != "name" and new[key] != old[key]
    )


def _shown(value: Any) -> str:
    if value is None:
        return "not set"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_shown(each)}" for key, each in value.items() if each not in (None, []))
    text = ".".join(value) if isinstance(value, list) else str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}… ({len(text)} characters)"


def _readable(text: str) -> StoredChannel | None:
    try:
        return stored_channel(text)
    except UnreadableChannel:
        return None


def _require_version(name: str, text: str | None, before: StoredChannel | None, if_version: int | None) -> None:
    """Raises ChannelRefused when somebody else has changed the channel since."""
    if if_version is None:
        return
    if text is None:
        if if_version != NO_CHANNEL:
            raise ChannelRefused(f"there is no channel {name} any more; it was deleted")
    elif if_version == NO_CHANNEL:
        raise ChannelRefused(f"there is a channel {name} already, and it is another one; alter it, or delete it first")
    elif before is None or before.version != if_version:
        has = "a version that this release cannot read" if before is None else f"version {before.version}"
        raise ChannelRefused(f"channel {name} has {has}, not {if_version}: it was changed; look at it, and try again")


def _records(
    image: MetadataImage, name: str, stored: StoredChannel | None, version: int
) -> tuple[ConfigRecord, ConfigRecord]:
    """The channel first: who sees the new version sees the channel as well. Raises InvalidChannel, ChannelRefused."""
    text = None if stored is None else stored.to_text()
    if text is not None:
        if len(text.encode()) > STORED_BYTES_MAX:
            raise InvalidChannel(f"the channel has {len(text.encode())} bytes as JSON, {STORED_BYTES_MAX} are allowed")
        others = sum(len(each.encode()) for other, each in image.channels.items() if other != name)
        if others + len(text.encode()) > SET_BYTES_MAX:
            raise ChannelRefused(
                f"all channels together would have more than {SET_BYTES_MAX} bytes; delete one, or shorten a schema"
            )
    return (
        ConfigRecord(resource_type=RESOURCE_TYPE_CHANNEL, resource_name=name, name=CHANNEL_CONFIG, value=text),
        ConfigRecord(
            resource_type=RESOURCE_TYPE_CHANNEL,
            resource_name=ALL_CHANNELS,
            name=CHANNELS_VERSION_CONFIG,
            value=str(version),
        ),
    )
