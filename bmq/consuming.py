"""Takes from librdkafka's consumer what it has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message


def messages_there(consumer: Consumer, count_max: int, wait_s: float) -> Iterator[Message]:
    """Messages and errors that are there, at most `count_max`, as soon as there is one; none if none comes within `wait_s`.

    `Consumer.consume` with a wait waits for all that it may return. Raises KafkaException, perhaps behind a message;
    RuntimeError: it is closed.
    """
    first = consumer.poll(wait_s)
    if first is not None:
        yield first
        yield from consumer.consume(count_max - 1, 0)
