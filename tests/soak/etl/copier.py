"""Copy a topic as a member of a group, exactly once, by librdkafka, until SIGTERM.

    python -m tests.soak.etl.copier BOOTSTRAP SOURCE TARGET GROUP TRANSACTIONAL_ID INSTANCE PROTOCOL TIMEOUT_MS

INSTANCE `-`: no static member. Prints lines: the time (wall ms), a word, more. Words: `ready`; `assigned`, `revoked`;
`committed RECORDS MS`; `aborted RECORDS MS why`, on purpose; `refused RECORDS MS why`, aborted for an error; `slow why`, a
call that is made again; `evicted why`, `unreleased why` and `fatal why`, the last ones.

A static member of the classic protocol is evicted when it came back in a rebalance whose coordinator died before the
leader's SyncGroup. Only that puts its new member id into the log: the next coordinator has read the former one, refuses the
new one with FENCED_INSTANCE_ID, and the client ends. Apache Kafka 4.3.0 does the same: of three brokers the coordinator was
killed when the member had its answer to JoinGroup, and the next one answered its SyncGroup, Heartbeat and JoinGroup with
FENCED_INSTANCE_ID, while a Heartbeat by its former id was accepted. Under KIP-848 its instance is unreleased until the
session of the one that was killed is over: it has to come again.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from random import Random
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

BATCH_RECORDS_MAX: Final = 100
POLL_S: Final = 0.2
CALL_WAIT_S: Final = 30.0
ABORTED_EACH: Final = 12
SESSION_TIMEOUT_MS: Final = 6_000
HEARTBEAT_INTERVAL_MS: Final = 1_000


def say(what: str, *more: object) -> None:
    print(int(time.time() * 1000), what, *more, flush=True)


def patiently(call: Callable[[], object]) -> None:
    """What is only slow is waited for. Raises KafkaException."""
    while True:
        try:
            call()
        except KafkaException as error:
            # librdkafka calls only transactions' errors retriable. When one request of a connection times out, as a heartbeat
            # after session.timeout.ms, all others on it end with _TIMED_OUT too, however long they might have waited.
            if not error.args[0].retriable() and error.args[0].code() != KafkaError._TIMED_OUT:
                raise
            say("slow", error)
        else:
            return


class Copier:
    """The partitions of the target are those of the source."""

    def __init__(
        self,
        bootstrap: str,
        source: str,
        target: str,
        group: str,
        transactional_id: str,
        instance: str,
        protocol: str,
        timeout_ms: str,
    ) -> None:
        self._source = source
        self._target = target
        self._random = Random()
        self._is_over = False
        self._is_classic = protocol == "classic"
        self._batch: list[Message] = []
        self._group_metadata: Any = None
        common = {"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": 500, "log_level": 0}
        reading: dict[str, object] = {
            **common,
            "group.id": group,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "group.protocol": protocol,
        }
        if instance != "-":
            reading["group.instance.id"] = instance
        if self._is_classic:
            reading |= {
                "session.timeout.ms": SESSION_TIMEOUT_MS,
                "heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS,
                "partition.assignment.strategy": "range",
            }
        self._producer = Producer(
            {
                **common,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": int(timeout_ms),
                "linger.ms": 0,
            }
        )
        self._consumer = Consumer(reading)

    def end(self, *_: object) -> None:
        """After the present transaction."""
        self._is_over = True

    def run(self) -> None:
        """Raises KafkaException for what is fatal."""
        patiently(lambda: self._producer.init_transactions(CALL_WAIT_S))
        say("ready")
        self._consumer.subscribe(
            [self._source], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )
        while not self._is_over:
            self._collect()
            if self._batch:
                # The epoch moves on without a change of partitions, but not over a loss or a revocation that was not heard of.
                if not self._is_classic:
                    self._group_metadata = self._consumer.consumer_group_metadata()
                self._copy(self._batch, is_to_abort=self._random.randrange(ABORTED_EACH) == 0)
                self._batch = []
        self._consumer.close()

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        # Of the generation in which the records come: when the member was thrown out meanwhile, the offsets are refused.
        if self._is_classic:
            self._group_metadata = consumer.consumer_group_metadata()
        say("assigned", ",".join(str(each.partition) for each in partitions))

    def _revoked(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        """What was read of them and is not written yet is another's to write."""
        lost = {each.partition for each in partitions}
        self._batch = [message for message in self._batch if message.partition() not in lost]
        say("revoked", ",".join(map(str, sorted(lost))))

    def _collect(self) -> None:
        wait_s = POLL_S
        while len(self._batch) < BATCH_RECORDS_MAX:
            message = self._consumer.poll(wait_s)
            if message is None:
                return
            error = message.error()
            if error is None:
                self._batch.append(message)
                wait_s = 0.0
            elif error.fatal():
                raise KafkaException(error)

    def _copy(self, batch: list[Message], *, is_to_abort: bool) -> None:
        began_s = time.monotonic()

        def so_much() -> str:
            return f"{len(batch)} {int((time.monotonic() - began_s) * 1000)}"

        positions: dict[int, int] = {}
        for message in batch:
            positions[_number(message.partition())] = _number(message.offset()) + 1
        offsets = [TopicPartition(self._source, partition, offset) for partition, offset in positions.items()]
        try:
            self._producer.begin_transaction()
            for message in batch:
                self._producer.produce(self._target, message.value(), partition=_number(message.partition()))
                self._producer.poll(0)
            patiently(lambda: self._producer.send_offsets_to_transaction(offsets, self._group_metadata, CALL_WAIT_S))
            if not is_to_abort:
                patiently(lambda: self._producer.commit_transaction(CALL_WAIT_S))
                say("committed", so_much())
                return
            self._producer.flush(CALL_WAIT_S)
            patiently(lambda: self._producer.abort_transaction(CALL_WAIT_S))
            say("aborted", so_much(), "on purpose")
        except KafkaException as error:
            if error.args[0].fatal() or not error.args[0].txn_requires_abort():
                raise
            say("refused", so_much(), error)
            patiently(lambda: self._producer.abort_transaction(CALL_WAIT_S))
        self._rewind()

    def _rewind(self) -> None:
        """To what the group has committed: the records come again, to whoever has their partitions then."""
        assigned = self._consumer.assignment()
        if not assigned:
            return
        committed: list[TopicPartition] = []

        def ask() -> None:
            committed[:] = self._consumer.committed(assigned, CALL_WAIT_S)

        patiently(ask)
        for each in committed:
            if each.offset < 0:
                each.offset = OFFSET_BEGINNING
            self._consumer.seek(each)


def _number(value: int | None) -> int:
    assert value is not None
    return value


def last_word(error: KafkaError) -> str:
    """`evicted`, `unreleased` or `fatal`. As a fatal error of the consumer it has another code, and the same words."""
    for word, code in (("evicted", KafkaError.FENCED_INSTANCE_ID), ("unreleased", KafkaError.UNRELEASED_INSTANCE_ID)):
        if error.code() == code or KafkaError(code).str() in error.str():
            return word
    return "fatal"


def main() -> int:
    copier = Copier(*sys.argv[1:])
    signal.signal(signal.SIGTERM, copier.end)
    try:
        copier.run()
    except KafkaException as error:
        say(last_word(error.args[0]), error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
