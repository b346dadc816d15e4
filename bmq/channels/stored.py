"""A channel in the metadata log: the channel, the version that it came with, and times. Decisions only.

One text per channel, rewritten whole with every change. It is the value of a ConfigRecord of resource type
RESOURCE_TYPE_CHANNEL, so releases without channels can read the log, and keep the channels in their snapshots.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bmq.channels.channel import Channel, sentence_of
from bmq.channels.channel_set import CHANNELS_MAX, ChannelSet
from bmq.protocol.errors import BmqError


class UnreadableChannel(BmqError):
    """The metadata log has a channel that this release does not understand: a later release wrote it."""


class StoredChannel(BaseModel):
    """`version`: of all channels together, when this one was last changed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: int = Field(ge=1)
    created_at_ms: int
    altered_at_ms: int
    channel: Channel

    def to_text(self) -> str:
        return self.model_dump_json()


@lru_cache(2 * CHANNELS_MAX)
def stored_channel(text: str) -> StoredChannel:
    """The inverse of `to_text`. Raises UnreadableChannel."""
    try:
        return StoredChannel.model_validate_json(text)
    except ValidationError as error:
        why = sentence_of(error.errors(include_url=False, include_context=False))
        raise UnreadableChannel(
            f"a later release of bmq wrote this channel, and this one cannot read it: {why}"
        ) from None


def stored_set(texts: Mapping[str, str], version: int) -> ChannelSet:
    """The channels of these texts, by name, as an image has them."""
    channels: dict[str, Channel] = {}
    unreadable: dict[str, str] = {}
    for name, text in texts.items():
        try:
            channels[name] = stored_channel(text).channel
        except UnreadableChannel as error:
            unreadable[name] = str(error)
    return ChannelSet(version, channels, unreadable)
