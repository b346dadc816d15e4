"""What a consumer has is taken at once, and what came before a failure is kept."""

from __future__ import annotations

from typing import Any

import pytest

from bmq.consuming import messages_there

pytestmark = pytest.mark.unit


class Waiting:
    """A consumer that has these messages. `asked`: counts and waits."""

    def __init__(self, *messages: Any) -> None:
        self.messages = list(messages)
        self.asked: list[tuple[str, float, float]] = []

    def poll(self, wait_s: float) -> Any:
        self.asked.append(("poll", 1, wait_s))
        return self.messages.pop(0) if self.messages else None

    def consume(self, count: int, wait_s: float) -> list[Any]:
        self.asked.append(("consume", count, wait_s))
        if self.messages and isinstance(self.messages[0], Exception):
            raise self.messages[0]
        taken, self.messages = self.messages[:count], self.messages[count:]
        return taken


def taken(consumer: Any) -> list[Any]:
    return list(messages_there(consumer, 3, 0.2))


def test_the_wait_is_for_the_first_alone() -> None:
    consumer = Waiting("a", "b", "c", "d")
    assert taken(consumer) == ["a", "b", "c"]
    assert consumer.asked == [("poll", 1, 0.2), ("consume", 2, 0)]
    assert taken(consumer) == ["d"]
    assert taken(consumer) == []


def test_a_message_before_a_failure_is_kept() -> None:
    found = []
    with pytest.raises(RuntimeError):
        for message in messages_there(Waiting("a", RuntimeError()), 3, 0.2):
            found.append(message)  # noqa: PERF402
    assert found == ["a"]
