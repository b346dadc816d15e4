"""The messages of the listener between nodes, and TailFetch's answer read by hand."""

from __future__ import annotations

from typing import Any, Final

from bmq.protocol.apis import APIS, INTERNAL_APIS, ApiKey
from bmq.protocol.codec import encode_response_header
from bmq.protocol.errors import MalformedMessage
from bmq.protocol.hot_tail import parse_tail_response
from tests.fuzz.message_table import Kind, MessageTable, both_kinds
from tests.fuzz.target import Target


def by_hand(kind: Kind, body: bytes, message: Any) -> None:
    if (kind.api_key, kind.kind) != (ApiKey.TAIL_FETCH, "response"):
        return
    try:
        found = parse_tail_response(encode_response_header(kind.api_key, kind.version, 1) + body)
    except MalformedMessage:
        found = None
    # The one by hand refuses tagged fields of a later version, which no node sends to us.
    if found is not None and message is not None:
        for part in found.partitions:
            part.topic_id = part.topic_id if part.topic_id and part.topic_id.int else None  # type: ignore[assignment]
        assert found == message, "TailFetch read by hand differs"


_table: Final = MessageTable(both_kinds(key for key in INTERNAL_APIS if key not in APIS), by_hand)
TARGET: Final = Target(
    "internal_messages", _table.seeds, _table.check, ("bmq.protocol.wire", "bmq.protocol.hot_tail"), _table.mutate
)
