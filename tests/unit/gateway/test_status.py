"""Errors of Kafka and of librdkafka become status codes of gRPC, and the page lists every one of them."""

from __future__ import annotations

import re
from pathlib import Path

import grpc
import pytest
from confluent_kafka import KafkaError

from bmq.gateway.status import KAFKA_ERRORS, LIBRARY_ERRORS, STATUS_NUMBERS, kafka_failure, library_failure, status_of
from bmq.protocol.error_codes import ErrorCode

pytestmark = pytest.mark.unit

PAGE = Path(__file__).parents[3] / "docs" / "GATEWAY.md"


def test_numbers_are_those_of_grpc() -> None:
    assert {code.name: code.value[0] for code in grpc.StatusCode} == dict(STATUS_NUMBERS)


def test_every_name_is_an_error_and_stands_once() -> None:
    kafka = [name for names in KAFKA_ERRORS.values() for name in names]
    library = [name for names in LIBRARY_ERRORS.values() for name in names]
    assert [name for name in kafka if name not in ErrorCode.__members__] == []
    assert [name for name in library if not hasattr(KafkaError, name)] == []
    assert len({*kafka, *library}) == len(kafka) + len(library)
    assert {*KAFKA_ERRORS, *LIBRARY_ERRORS} <= STATUS_NUMBERS.keys()


def test_the_page_has_the_same_table() -> None:
    rows = re.findall(r"^\| `([A-Z_]+)` \| (.*) \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    listed: dict[str, set[str]] = {}
    for status, errors, _ in rows:
        listed.setdefault(status, set()).update(re.findall(r"`(_?[A-Z_]+)`", errors))
    wanted = {
        status: {*KAFKA_ERRORS.get(status, ()), *LIBRARY_ERRORS.get(status, ())}
        for status in {**KAFKA_ERRORS, **LIBRARY_ERRORS}
    }
    assert listed == wanted


def test_a_failure_has_kafkas_name_and_one_sentence() -> None:
    failure = kafka_failure("topic 'a' cannot be read", ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert (failure.status, failure.kafka_error) == ("PERMISSION_DENIED", "TOPIC_AUTHORIZATION_FAILED")
    assert str(failure) == "topic 'a' cannot be read: TOPIC_AUTHORIZATION_FAILED"


@pytest.mark.parametrize(
    ("code", "status", "name"),
    [
        (KafkaError.UNKNOWN_TOPIC_OR_PART, "NOT_FOUND", "UNKNOWN_TOPIC_OR_PARTITION"),
        (KafkaError._MSG_TIMED_OUT, "DEADLINE_EXCEEDED", "_MSG_TIMED_OUT"),
        (KafkaError._ALL_BROKERS_DOWN, "UNAVAILABLE", "_ALL_BROKERS_DOWN"),
        (KafkaError.MSG_SIZE_TOO_LARGE, "INVALID_ARGUMENT", "MESSAGE_TOO_LARGE"),
    ],
)
def test_errors_of_the_library(code: int, status: str, name: str) -> None:
    error = KafkaError(code)
    failure = library_failure("it failed", error.code(), error.name(), error.str())
    assert (failure.status, failure.kafka_error) == (status, name)


def test_what_is_not_listed_is_unknown() -> None:
    assert status_of("PRODUCER_FENCED") == "UNKNOWN"
