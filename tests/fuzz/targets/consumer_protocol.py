"""Subscriptions and assignments, which members of classic groups send as bytes of their own protocol."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

from bmq.coordinator.classic.subscription import subscribed_topics
from bmq.coordinator.consumer import consumer_protocol
from bmq.coordinator.consumer.consumer_protocol import VERSION_MAX, decode_assignment, decode_subscription
from bmq.protocol.errors import MalformedMessage
from bmq.protocol.formats import codec_of
from tests.fuzz.mutation import changed
from tests.fuzz.random_messages import random_message
from tests.fuzz.target import Target

_FORMATS: Final = (consumer_protocol._SUBSCRIPTION, consumer_protocol._ASSIGNMENT)


def check(data: bytes) -> bool:
    """Both readers of a subscription find the same topics where both can read it."""
    topics = subscribed_topics((data,))
    try:
        found: frozenset[str] | None = frozenset(decode_subscription(data).topics)
    except MalformedMessage:
        found = None
    if topics is not None and found is not None:
        assert topics == found, "the readers find other topics"
    try:
        decode_assignment(data)
    except MalformedMessage:
        return found is not None
    return True


def seeds() -> Iterator[bytes]:
    dice = Random(5)
    for version in range(VERSION_MAX + 1):
        for _ in range(4):
            yield _fresh(version, dice)


def mutate(data: bytes, dice: Random) -> bytes:
    return changed(_fresh(dice.randrange(VERSION_MAX + 1), dice), dice)


def _fresh(version: int, dice: Random) -> bytes:
    out = bytearray(version.to_bytes(2, "big"))
    record_format = dice.choice(_FORMATS)
    codec_of(record_format, version).write(out, random_message(record_format.entity(version), dice))
    return bytes(out)


TARGET: Final = Target("consumer_protocol", seeds, check, ("bmq.coordinator", "bmq.protocol.wire"), mutate)
