"""Every request of clients at every version, and the readers by hand of the frequent ones beside the codec."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from bmq.protocol.apis import APIS, ApiKey
from bmq.protocol.errors import MalformedMessage
from bmq.protocol.hot_commit import PlainCommits
from bmq.protocol.hot_produce import parse_produce
from bmq.protocol.messages.offset_commit_request import OffsetCommitRequest
from tests.fuzz.message_table import Kind, MessageTable
from tests.fuzz.target import Target
from tests.support.hot_messages import as_message

_commits = PlainCommits()


def by_hand(kind: Kind, body: bytes, message: Any) -> None:
    if kind.api_key is ApiKey.PRODUCE:
        try:
            produced = as_message(parse_produce(body, 0, kind.version))
        except MalformedMessage:
            produced = None
        assert produced == message, "Produce read by hand differs"
    elif kind.api_key is ApiKey.OFFSET_COMMIT:
        for _ in range(2):  # the second time the beginning is known
            plain = _commits.parse(bytearray(body), 0, kind.version)
            if plain is not None:
                assert message is not None, "OffsetCommit read by hand is none"
                assert plain.request() == _without_metadata(message), "OffsetCommit read by hand differs"


def _without_metadata(request: OffsetCommitRequest) -> OffsetCommitRequest:
    topics = [
        replace(topic, partitions=[replace(part, committed_metadata=None) for part in topic.partitions])
        for topic in request.topics
    ]
    return replace(request, topics=topics)


_table: Final = MessageTable([("request", api_key) for api_key in APIS], by_hand)
TARGET: Final = Target(
    "requests",
    _table.seeds,
    _table.check,
    ("bmq.protocol.wire", "bmq.protocol.hot_produce", "bmq.protocol.hot_commit"),
    _table.mutate,
)
