"""Messages of the library as records."""

from __future__ import annotations

from typing import Any

import pytest

from bmq.cli.kafka.reading import record_of
from bmq.cli.kafka.record_lines import ReadRecord

pytestmark = pytest.mark.unit


class Message:
    """What librdkafka's messages answer. `headers`: an exception is raised."""

    def __init__(self, headers: Any, timestamp: tuple[int, int] = (1, 5)) -> None:
        self._headers = headers
        self._timestamp = timestamp

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 1

    def offset(self) -> int:
        return 7

    def timestamp(self) -> tuple[int, int]:
        return self._timestamp

    def key(self) -> bytes | None:
        return None

    def value(self) -> bytes | None:
        return b"v"

    def headers(self) -> Any:
        if isinstance(self._headers, Exception):
            raise self._headers
        return self._headers


def test_a_message_is_a_record() -> None:
    message: Any = Message([("h", b"1")])
    assert record_of(message) == ReadRecord("t", 1, 7, 5, None, b"v", (("h", b"1"),))
    for timestamp in ((0, 5), (1, -1)):
        message = Message(None, timestamp=timestamp)
        assert record_of(message) == ReadRecord("t", 1, 7, None, None, b"v")


def test_headers_that_the_library_cannot_give_are_left_out_and_told_of() -> None:
    message: Any = Message(SystemError("returned a result with an exception set"))
    record = record_of(message)
    assert (record.value, record.headers) == (b"v", ())
    assert record.fault == "its headers are left out, since a name in them is not UTF-8"
