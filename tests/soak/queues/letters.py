"""Reads the dead letters of all share groups of a soak, and tells each group's ledger."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import Consumer, Message, TopicPartition

from tests.soak.history import NotOurs, origin_of
from tests.soak.load import PATIENT, Client, group_of
from tests.soak.queues.ledger import QueueLedger
from tests.soak.queues.plan import LETTERS, TOPIC
from tests.soak.queues.record import DeadLetter

NAME: Final = "dead letters"
READ_WAIT_S: Final = 0.2
BATCH_RECORDS_MAX: Final = 1_000
END_WAIT_S: Final = 20.0
_PREFIX: Final = "__dlq.errors."


class DeadLetterReader(Client):
    """From the beginning on, assigned by hand. `read_count`: letters, also those that came again."""

    def __init__(self, bootstrap: str, ledgers: Mapping[str, QueueLedger], settings: Mapping[str, Any]) -> None:
        super().__init__(NAME)
        self.read_count = 0
        self._ledgers = ledgers
        configs = {
            "bootstrap.servers": bootstrap,
            "group.id": group_of(NAME),
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            **PATIENT,
            **settings,
        }
        self._consumer = Consumer(configs)
        # One that is read by its thread all the time answers no other thread.
        self._asked = Consumer(configs)
        self._consumer.assign([TopicPartition(LETTERS, 0, 0)])

    def step(self) -> None:
        for message in self._consumer.consume(BATCH_RECORDS_MAX, timeout=READ_WAIT_S):
            error = message.error()
            if error is not None:
                self.note_error(error)
            else:
                self._take(message)

    def is_at_end(self) -> bool:
        """Whether it has read what is there now. Raises KafkaException."""
        end = self._asked.get_watermark_offsets(TopicPartition(LETTERS, 0), timeout=END_WAIT_S)[1]
        return self.read_count >= end

    def _take(self, message: Message) -> None:
        self.read_count += 1
        try:
            group, letter, partition, value = parsed(message.headers() or (), message.value(), time.monotonic())
            origin_of(partition, value)
            self._ledgers[group].dead(letter)
        except (KeyError, ValueError, NotOurs) as error:
            self.fail(f"dead letter {message.offset()}: {type(error).__name__}: {error}")

    def close(self) -> None:
        self._consumer.close()
        self._asked.close()


def parsed(headers: Any, value: bytes | None, at_s: float) -> tuple[str, DeadLetter, int, bytes]:
    """Its group, the letter, and partition and value of the record. Raises KeyError, ValueError: a header is missing or no number."""
    found = {name: (content or b"").decode() for name, content in headers if name.startswith(_PREFIX)}
    topic = found[f"{_PREFIX}topic"]
    if topic != TOPIC:
        raise ValueError(f"it is of topic {topic}")
    if value is None:
        raise ValueError("it has no value")
    partition = int(found[f"{_PREFIX}partition"])
    letter = DeadLetter(
        (partition, int(found[f"{_PREFIX}offset"])),
        int(found[f"{_PREFIX}delivery.count"]),
        found[f"{_PREFIX}message"],
        at_s,
    )
    return found[f"{_PREFIX}group"], letter, partition, value
