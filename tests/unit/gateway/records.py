"""Records as subscribers get them."""

from __future__ import annotations

from bmq.gateway.held_records import HeldRecord


def held(offset: int, value: bytes = b"value", *, topic: str = "t", partition: int = 0, tag: bytes = b"") -> HeldRecord:
    headers = (("bmq-tag", tag),) if tag else ()
    return HeldRecord(topic, partition, offset, 1_000 + offset, b"key", value, headers, 1)
