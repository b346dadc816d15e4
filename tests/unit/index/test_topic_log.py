"""What a scan of the topic counts, on a consumer in memory."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import ClassVar

import pytest

from bmq.index import topic_log
from bmq.index.topic_log import TopicLog
from bmq.index.topic_reader import RECORD_BYTES, LogRecord

pytestmark = pytest.mark.unit


class Message:
    """An empty record with one header of 100 bytes."""

    def __init__(self, offset: int) -> None:
        self._offset = offset

    def offset(self) -> int:
        return self._offset

    def partition(self) -> int:
        return 0

    def error(self) -> None:
        return None

    def key(self) -> None:
        return None

    def value(self) -> bytes:
        return b""

    def timestamp(self) -> tuple[int, int]:
        return 1, 1_000

    def headers(self) -> list[tuple[str, bytes]]:
        return [("h" * 40, b"v" * 60)]


class Consumer:
    """Gives ten records, the first by `poll`. `calls`: of all consumers."""

    calls: ClassVar[list[str]] = []

    def __init__(self, config: object) -> None: ...

    def poll(self, wait_s: float) -> Message:
        return Message(0)

    def consume(self, count: int, wait_s: float) -> list[Message]:
        assert wait_s == 0, "it would wait for all that it may return"
        return [Message(offset) for offset in range(1, 10)]

    def assign(self, places: Sequence[object]) -> None:
        self.calls.append("assign")

    def pause(self, places: Sequence[object]) -> None:
        self.calls.append("pause")

    def resume(self, places: Sequence[object]) -> None:
        self.calls.append("resume")

    def unassign(self) -> None:
        self.calls.append("unassign")

    def close(self) -> None: ...


def test_headers_and_records_without_bytes_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_log, "Consumer", Consumer)
    topic = TopicLog({"bootstrap.servers": "127.0.0.1:1"})
    taken: list[LogRecord] = []
    each = RECORD_BYTES + 100
    tail = topic.scan("t", {0: (0, 10)}, taken.append, bytes_max=2 * each + 1, deadline_s=time.monotonic() + 60)
    assert (tail.records, tail.bytes, tail.reached) == (3, 3 * each, {0: 3})
    assert [record.offset for record in taken] == [0, 1, 2]
    topic.close()


def test_partitions_are_resumed_at_the_end_of_a_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind `assign` it made the library wait for a second before it fetched."""
    monkeypatch.setattr(topic_log, "Consumer", Consumer)
    monkeypatch.setattr(Consumer, "calls", [])
    topic = TopicLog({"bootstrap.servers": "127.0.0.1:1"})
    for _ in range(2):
        topic.scan("t", {0: (0, 10)}, lambda _: None, bytes_max=1 << 20, deadline_s=time.monotonic() + 60)
    assert Consumer.calls == ["assign", "pause", "resume", "unassign"] * 2
    topic.close()
