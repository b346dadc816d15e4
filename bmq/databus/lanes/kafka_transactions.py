"""Transactions by librdkafka. The position is the committed offset of a topic that has no records.

The offset and the records are in one transaction (KIP-98, KIP-447), so that a position covers exactly the records that are
committed. `init_transactions` ends the transaction of a former process and shuts it out; after it the committed offset is
stable.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bmq.databus.lanes.transactions import SendFailed, TopicRefusal, TopicsRefused
from bmq.databus.spool.frame import SpooledRecord
from bmq.dataclass import dataclass
from bmq.protocol.errors import BmqError

POSITION_TOPIC: Final = "bmq-databus-positions"
CALL_S: Final = 5.0
"""Of one blocking call; stopping waits for it."""
COMMIT_S: Final = 30.0
TRANSACTION_TIMEOUT_MS: Final = 60_000
_POLL_EVERY: Final = 500
# `close` tries to abort, which needs the cluster; the next start ends the transaction in any case.
warnings.filterwarnings("ignore", "Producer abort_transaction failed during close", RuntimeWarning)
_NO_POSITION: Final = -1001

_OF_THE_TOPIC: Final = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    }
)
_OF_A_RECORD: Final = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.INVALID_MSG_SIZE,
        KafkaError.INVALID_MSG,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.POLICY_VIOLATION,
    }
)
# Delivery errors never say that they are retriable. Such a record must not be set aside: it would be lost.
_OF_THE_CLUSTER: Final = frozenset(
    {
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.CONCURRENT_TRANSACTIONS,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.DUPLICATE_SEQUENCE_NUMBER,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.ILLEGAL_SASL_STATE,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
        KafkaError.INVALID_TXN_STATE,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.NOT_CONTROLLER,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
        KafkaError.PRODUCER_FENCED,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.THROTTLING_QUOTA_EXCEEDED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTION_COORDINATOR_FENCED,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.UNKNOWN_PRODUCER_ID,
        KafkaError.UNSUPPORTED_VERSION,
    }
)


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    """`kafka`: settings of librdkafka, bootstrap.servers among them. `group`: keeps the position."""

    kafka: Mapping[str, Any]
    transactional_id: str
    group: str
    compression: str
    message_bytes_max: int
    position_topic: str = POSITION_TOPIC


@dataclass(slots=True)
class _Errors:
    """`last`: what librdkafka said last about the cluster."""

    last: str = ""
    by_topic: dict[str, TopicRefusal] = field(default_factory=dict)
    other: str = ""


class KafkaSettingsUnusable(BmqError):
    """librdkafka refuses a setting; one sentence without the settings' values."""


def check_kafka_settings(kafka: Mapping[str, Any]) -> None:
    """Raises KafkaSettingsUnusable. Opens no connection that is waited for."""
    try:
        Producer({"log_level": 0, **kafka}).close()
    except (KafkaException, ValueError, TypeError) as error:
        text = error.args[0].str() if isinstance(error, KafkaException) else str(error)
        for value in map(str, kafka.values()):
            text = text.replace(value, "…") if value else text
        raise KafkaSettingsUnusable(f"librdkafka refuses a setting of [kafka]: {text}") from None


class KafkaTransactions:
    """Transactions of one lane (the port of transactions.py)."""

    def __init__(self, config: TransactionConfig) -> None:
        self._config = config
        self._producer: Any = None
        self._group: Any = None
        self._added: list[SpooledRecord] = []
        self._errors = _Errors()

    def start(self, batch_bytes: int) -> int:
        self.close()
        self._errors = _Errors()
        try:
            self._producer = Producer(self._producer_config(batch_bytes))
            self._producer.init_transactions(CALL_S)
            return self._kept_position()
        except KafkaException as error:
            raise self._failed("the transactional id cannot be used", error) from None

    def add(self, records: Sequence[SpooledRecord]) -> None:
        self._added += records

    def commit(self, position: int) -> None:
        records, self._added = self._added, []
        errors = self._errors
        errors.by_topic, errors.other = {}, ""
        producer = self._producer
        try:
            producer.begin_transaction()
            self._produce(records)
            is_left = not errors.by_topic and producer.flush(COMMIT_S if not errors.other else 0)
            if is_left and not errors.by_topic:
                raise SendFailed(f"the cluster did not take the records in {COMMIT_S:.0f} s{self._last()}")
            if errors.by_topic:
                self._abort()
                raise TopicsRefused(errors.by_topic)
            if errors.other:
                raise SendFailed(f"the cluster did not take a record: {errors.other}")
            offset = TopicPartition(self._config.position_topic, 0, position)
            self._insist(lambda: producer.send_offsets_to_transaction([offset], self._group, CALL_S))
            self._insist(lambda: producer.commit_transaction(CALL_S))
        except KafkaException as error:
            if errors.by_topic:
                raise TopicsRefused(errors.by_topic) from None
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                self._make_position_topic()
            raise self._failed("a transaction failed", error) from None

    def close(self) -> None:
        self._added = []
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()
            producer.close()

    def end(self) -> None:
        self.close()

    # --- parts

    def _producer_config(self, batch_bytes: int) -> dict[str, Any]:
        config = self._config
        return {
            # Backlogs and records of many processes: few large requests, not short waits.
            "linger.ms": 50,
            "batch.size": batch_bytes,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1 << 17,
            "partitioner": "murmur2_random",
            "reconnect.backoff.max.ms": 1_000,
            "topic.metadata.propagation.max.ms": 2_000,
            "client.id": config.transactional_id,
            "log_level": 0,
            **config.kafka,
            "transactional.id": config.transactional_id,
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
            "compression.type": config.compression,
            "message.max.bytes": config.message_bytes_max,
            "allow.auto.create.topics": False,
            "delivery.report.only.error": True,
            "error_cb": self._on_error,
        }

    def _kept_position(self) -> int:
        """Waits until offsets of open transactions are decided: the consumer reads committed ones only."""
        consumer = Consumer(
            {
                "client.id": self._config.transactional_id,
                "log_level": 0,
                **self._config.kafka,
                "group.id": self._config.group,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "error_cb": self._on_error,
            }
        )
        try:
            self._group = consumer.consumer_group_metadata()
            (kept,) = consumer.committed([TopicPartition(self._config.position_topic, 0)], timeout=CALL_S)
            if kept.error is None and kept.offset == _NO_POSITION:
                known = consumer.list_topics(self._config.position_topic, CALL_S).topics.get(
                    self._config.position_topic
                )
                if known is None or known.error is not None:
                    self._make_position_topic()
        finally:
            consumer.close()
        if kept.error is not None:
            raise SendFailed(f"the position of the group {self._config.group} cannot be read: {kept.error.str()}")
        return 0 if kept.offset == _NO_POSITION else int(kept.offset)

    def _produce(self, records: Iterable[SpooledRecord]) -> None:
        producer = self._producer
        on_delivery = self._on_delivery
        produce, poll = producer.produce, producer.poll
        for place, record in enumerate(records):
            _, timestamp_ms, topic, _, key, value, headers, _ = record
            try:
                produce(topic, value, key, on_delivery=on_delivery, timestamp=timestamp_ms, headers=headers or None)
            except BufferError:
                # Larger than any batch of a lane: only settings of the user can make it so.
                raise SendFailed(
                    "librdkafka's queue is full: leave queue.buffering.max.messages and .kbytes at their defaults"
                ) from None
            except KafkaException as error:
                self._note(topic, error.args[0])
            if place % _POLL_EVERY == 0:
                poll(0)

    def _insist(self, call: Any) -> None:
        """Again while librdkafka says that it may be tried again. Raises KafkaException."""
        until = time.monotonic() + COMMIT_S
        while True:
            try:
                call()
                return
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > until:
                    raise

    def _abort(self) -> None:
        """Only to release readers early: the next `start` would end the transaction, too."""
        try:
            self._producer.purge()
            self._producer.abort_transaction(CALL_S)
        except KafkaException:
            pass

    def _make_position_topic(self) -> None:
        """Raises SendFailed."""
        admin = AdminClient({"log_level": 0, **self._config.kafka})
        made = admin.create_topics([NewTopic(self._config.position_topic, 1)], request_timeout=CALL_S)
        try:
            made[self._config.position_topic].result(CALL_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise SendFailed(
                    f"the topic {self._config.position_topic}, which keeps positions, cannot be made:"
                    f" {error.args[0].str()}; create it with one partition"
                ) from None
        except TimeoutError:
            raise SendFailed(f"the topic {self._config.position_topic} was not made in {CALL_S:.0f} s") from None

    def _on_error(self, error: Any) -> None:
        self._errors.last = error.str()

    def _on_delivery(self, error: Any, message: Any) -> None:
        if error is not None:
            self._note(message.topic(), error)

    def _note(self, topic: str, error: Any) -> None:
        """A code of the cluster that is not known here holds up its topic alone, and loses nothing."""
        code = error.code()
        is_known = code <= 0 or code in _OF_A_RECORD or code in _OF_THE_CLUSTER or error.fatal()
        if code in _OF_THE_TOPIC or not is_known:
            self._errors.by_topic[topic] = TopicRefusal(
                f"the cluster takes no records for the topic {topic}: {error.str()}"
            )
        elif code in _OF_A_RECORD:
            refusal = TopicRefusal(f"the topic {topic} does not take a record: {error.str()}", is_of_a_record=True)
            self._errors.by_topic.setdefault(topic, refusal)
        else:
            self._errors.other = self._errors.other or error.str()

    def _failed(self, what: str, error: KafkaException) -> SendFailed:
        if self._producer is not None:
            self._producer.poll(0)  # for what librdkafka says about connections
        return SendFailed(f"{what}: {error.args[0].str()}{self._last()}")

    def _last(self) -> str:
        return f" ({self._errors.last})" if self._errors.last else ""
