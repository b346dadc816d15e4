"""What an error of librdkafka means: of a record, of a topic, or of the cluster."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from bmq.databus.lanes import kafka_transactions
from bmq.databus.lanes.kafka_transactions import KafkaTransactions, TransactionConfig
from bmq.databus.lanes.transactions import SendFailed, TopicsRefused
from bmq.databus.spool.frame import SpooledRecord

pytestmark = pytest.mark.unit

RECORDS = [SpooledRecord(1, 5, "t", "c", None, b"v", [], b"")]


class RefusingProducer:
    """Every record gets the same error in its report."""

    def __init__(self, code: int) -> None:
        self._error = KafkaError(code)
        self._reports: list[Callable[[], None]] = []

    def produce(self, topic: str, *_: Any, on_delivery: Callable[[Any, Any], None], **__: Any) -> None:
        message = SimpleNamespace(topic=lambda: topic)
        self._reports.append(lambda: on_delivery(self._error, message))

    def flush(self, timeout_s: float) -> int:
        for report in self._reports:
            report()
        return 0

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


class NoPosition:
    """A consumer whose group has no committed offset."""

    def __init__(self, config: Any) -> None: ...

    def committed(self, partitions: Any, timeout: float) -> list[Any]:
        return [SimpleNamespace(error=None, offset=0)]

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


@pytest.fixture
def commit(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    def refused_with(code: int) -> None:
        monkeypatch.setattr(kafka_transactions, "Producer", lambda _: RefusingProducer(code))
        monkeypatch.setattr(kafka_transactions, "Consumer", NoPosition)
        transactions = KafkaTransactions(TransactionConfig({}, "id", "group", "lz4", 1_000_000))
        transactions.start(1_000)
        transactions.add(RECORDS)
        transactions.commit(2)

    return refused_with


@pytest.mark.parametrize("code", [KafkaError.INVALID_TIMESTAMP, KafkaError.MSG_SIZE_TOO_LARGE])
def test_of_a_record(commit: Callable[[int], None], code: int) -> None:
    with pytest.raises(TopicsRefused) as found:
        commit(code)
    assert found.value.topics["t"].is_of_a_record


@pytest.mark.parametrize("code", [KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.UNSUPPORTED_COMPRESSION_TYPE, 30_000])
def test_of_a_topic_also_when_the_code_is_not_known(commit: Callable[[int], None], code: int) -> None:
    with pytest.raises(TopicsRefused) as found:
        commit(code)
    assert not found.value.topics["t"].is_of_a_record


@pytest.mark.parametrize("code", [KafkaError.NOT_ENOUGH_REPLICAS, KafkaError._MSG_TIMED_OUT, KafkaError.UNKNOWN])
def test_of_the_cluster_and_no_reason_to_set_a_record_aside(commit: Callable[[int], None], code: int) -> None:
    assert not KafkaError(code).retriable()  # librdkafka does not tell it in reports
    with pytest.raises(SendFailed):
        commit(code)
