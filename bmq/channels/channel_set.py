"""All channels of a cluster at one version, as an agent gets them and keeps them. Decisions only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

from bmq.channels.channel import Channel, InvalidChannel, channel_to_json, parse_channel
from bmq.dataclass import dataclass

CHANNELS_MAX: Final = 1_000
SET_BYTES_MAX: Final = 4 * 1024 * 1024
"""Limit on the stored JSON of all channels together: every node and every agent keeps them."""
_SHOWN_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class ChannelSet:
    """`version` grows with every change, also with a deletion; 0: there never was a channel. `channels`: by name.

    `unreadable`: names of channels that a later release wrote, and why this one does not understand them. An agent
    refuses their records with that sentence.
    """

    version: int = 0
    channels: Mapping[str, Channel] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)

    def with_channel(self, channel: Channel) -> ChannelSet:
        """The next version, in which this channel stands in place of an earlier one of its name."""
        unreadable = {name: why for name, why in self.unreadable.items() if name != channel.name}
        return ChannelSet(self.version + 1, {**self.channels, channel.name: channel}, unreadable)

    def without(self, name: str) -> ChannelSet:
        """The next version, which has no channel of that name."""
        channels = {known: channel for known, channel in self.channels.items() if known != name}
        unreadable = {known: why for known, why in self.unreadable.items() if known != name}
        return ChannelSet(self.version + 1, channels, unreadable)


def channel_set_to_json(channels: ChannelSet) -> dict[str, Any]:
    """`version`, `channels`: a list ordered by name, and `unreadable`."""
    ordered = sorted(channels.channels.values(), key=lambda channel: channel.name)
    return {
        "version": channels.version,
        "channels": [channel_to_json(channel) for channel in ordered],
        "unreadable": dict(channels.unreadable),
    }


def parse_channel_set(given: Mapping[str, object]) -> ChannelSet:
    """The inverse of `channel_set_to_json`; other keys are ignored, so that a later release may add some.

    One channel that this release does not understand does not hold up the others: it stands in `unreadable`. Raises
    InvalidChannel when the whole is no set of channels.
    """
    version, listed = given.get("version"), given.get("channels")
    if isinstance(version, bool) or not isinstance(version, int) or version < 0:
        raise InvalidChannel("version: a whole number from 0 on is wanted")
    if not isinstance(listed, list):
        raise InvalidChannel("channels: a list is wanted")
    channels: dict[str, Channel] = {}
    unreadable: dict[str, str] = {}
    told = given.get("unreadable", {})
    if not isinstance(told, dict) or not all(isinstance(text, str) for pair in told.items() for text in pair):
        raise InvalidChannel("unreadable: an object with a sentence for each name is wanted")
    if (count := len(listed) + len(told)) > CHANNELS_MAX:
        raise InvalidChannel(f"there are {count} channels, {CHANNELS_MAX} are allowed")
    for number, each in enumerate(listed):
        name = each.get("name") if isinstance(each, dict) else None
        if not isinstance(name, str) or len(name) > _SHOWN_MAX:
            raise InvalidChannel(f"channels.{number}: an object with a name is wanted")
        if name in channels or name in unreadable:
            raise InvalidChannel(f"channels.{number}: {name!r} is there more than once")
        try:
            channels[name] = parse_channel(each)
        except InvalidChannel as error:
            unreadable[name] = str(error)
    missing = {name: why for name, why in told.items() if name not in channels}
    return ChannelSet(version, channels, {**missing, **unreadable})
