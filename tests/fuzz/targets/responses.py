"""Answers that nodes pass on for clients, at every version, and Produce's read by hand."""

from __future__ import annotations

from typing import Any, Final

from bmq.protocol.apis import APIS, ApiKey
from bmq.protocol.codec import encode_response_header
from bmq.protocol.errors import MalformedMessage
from bmq.protocol.hot_produce import parse_produce_response
from tests.fuzz.message_table import Kind, MessageTable
from tests.fuzz.target import Target


def by_hand(kind: Kind, body: bytes, message: Any) -> None:
    """Between nodes the newest version is spoken."""
    if kind.api_key is not ApiKey.PRODUCE or kind.version != APIS[ApiKey.PRODUCE].version_max:
        return
    frame = encode_response_header(kind.api_key, kind.version, 1) + body
    try:
        topics = parse_produce_response(frame)
    except MalformedMessage:
        assert message is None, "an answer to Produce that the codec takes is refused"
        return
    if message is None:
        return  # what stands behind the topics is not read by hand
    for ours, theirs in zip(topics, message.responses, strict=True):
        results = [(result.partition, result.error_code, result.base_offset) for result in ours.partitions]
        assert results == [(p.index, p.error_code, p.base_offset) for p in theirs.partition_responses]


_table: Final = MessageTable([("response", api_key) for api_key in APIS], by_hand)
TARGET: Final = Target(
    "responses", _table.seeds, _table.check, ("bmq.protocol.wire", "bmq.protocol.hot_produce"), _table.mutate
)
