"""Half messages by unmodified producers and consumers: hidden, committed by a record, checked by records, given up."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, Message, Producer

from testing.servers import Server
from tests.e2e.conftest import TopicMaker
from tests.e2e.test_delayed_records import consume

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120), pytest.mark.bmq_only]

LETTERS = {"errors.deadletterqueue.group.enable": "true"}


class Sender:
    """An idempotent producer; what is refused is kept."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 50})
        self._topic = topic
        self.errors: list[KafkaError] = []

    def send(self, *records: tuple[bytes, tuple[str, bytes] | None]) -> list[int]:
        """The offsets that were told, of those that were acknowledged."""
        offsets: list[int] = []

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is None:
                offsets.append(message.offset())
            else:
                self.errors.append(error)

        for value, header in records:
            headers = [] if header is None else [header]
            self._producer.produce(self._topic, value, partition=0, headers=headers, on_delivery=on_delivery)
        assert self._producer.flush(30) == 0
        return offsets


def test_committed_checked_and_given_up(server: Server, make_topic: TopicMaker) -> None:
    checks, lost = make_topic(config=LETTERS), make_topic(config=LETTERS)
    topic = make_topic(
        config={
            "bmq.half.enable": "true",
            "bmq.half.check.topic": checks,
            "bmq.half.check.first.ms": "100",
            "bmq.half.check.interval.ms": "1000",
            "bmq.half.check.max": "1",
            "bmq.half.given.up.topic": lost,
        }
    )
    sender = Sender(server.bootstrap, topic)
    kept, dropped, forgotten, _ = sender.send(
        (b"kept", ("bmq-half", b"id-kept")),
        (b"dropped", ("bmq-half", b"id-dropped")),
        (b"forgotten", ("bmq-half", b"id-forgotten")),
        (b"plain", None),
    )
    sender.send((b"", ("bmq-half-commit", b"%d" % kept)), (b"", ("bmq-half-rollback", b"%d" % dropped)))
    assert sender.errors == []

    plain, message = consume(server.bootstrap, topic, 2)
    assert (plain.value(), message.value()) == (b"plain", b"kept")
    assert dict(message.headers() or ())["bmq-half-offset"] == b"%d" % kept

    copy = consume(server.bootstrap, lost, 1)[0]
    assert copy.value() == b"forgotten"
    assert dict(copy.headers() or ())["bmq-half-offset"] == b"%d" % forgotten
    asked = consume(server.bootstrap, checks, 1)
    assert b"id-forgotten" in [check.key() for check in asked]
    assert [dict(check.headers() or ())["bmq-half-topic"] for check in asked] == [topic.encode()] * len(asked)

    sender.send((b"", ("bmq-half-commit", b"%d" % forgotten)))
    assert [error.code() for error in sender.errors] == [KafkaError.INVALID_RECORD]
