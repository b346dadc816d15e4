"""Producers that write one transaction after the other, by librdkafka and by Kafka's own client, and a check of what is there.

Transaction n has the records n-0, n-1, … spread over the partitions; each fourth is aborted.
"""

from __future__ import annotations

import re
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Protocol

from confluent_kafka import KafkaException, Producer

from testing.java import compile_program, program_command
from testing.processes import dying_with_us, eventually
from testing.topic_contents import LEVELS, end_offsets, values_of
from tests.support.paced_load import PATIENCE

PROGRAMS: Final = Path(__file__).parent / "java_programs"
RECORDS: Final = 12
ABORTED_EACH: Final = 4
PAUSE_S: Final = 0.02
CALL_WAIT_S: Final = 60.0
STOP_WAIT_S: Final = 90.0


class TransactionalWriter(Protocol):
    """`committed`, `aborted`: transactions whose end is known. `failed`: why transactions ended otherwise.

    `fatal`: why it could not go on. `longest_s`: of all transactions.
    """

    name: str
    transactional_id: str
    committed: list[int]
    aborted: list[int]
    failed: list[str]
    fatal: list[str]
    longest_s: float

    def finish(self) -> None:
        """End the present transaction and stop. Raises AssertionError when that takes too long."""
        ...


class LibrdkafkaWriter:
    """In a thread of this process."""

    name = "librdkafka"

    def __init__(self, bootstrap: str, topic: str, partitions: int, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.committed: list[int] = []
        self.aborted: list[int] = []
        self.failed: list[str] = []
        self.fatal: list[str] = []
        self.longest_s = 0.0
        self._topic = topic
        self._partitions = partitions
        self._finish = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "linger.ms": 0,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
                **PATIENCE,
                "transaction.timeout.ms": PATIENCE["request.timeout.ms"],  # librdkafka wants no less
            }
        )
        self._thread = threading.Thread(target=self._run, name="transactional-writer")
        self._thread.start()

    def _run(self) -> None:
        try:
            self._patiently(self._producer.init_transactions)
            number = 0
            while not self._finish.wait(PAUSE_S):
                began_s = time.monotonic()
                self._transaction(number)
                self.longest_s = max(self.longest_s, time.monotonic() - began_s)
                number += 1
        except KafkaException as error:
            self.fatal.append(str(error))

    def _transaction(self, number: int) -> None:
        """Raises KafkaException for what is fatal."""
        try:
            self._producer.begin_transaction()
            for record in range(RECORDS):
                self._producer.produce(self._topic, b"%d-%d" % (number, record), partition=record % self._partitions)
            if number % ABORTED_EACH != ABORTED_EACH - 1:
                self._patiently(self._producer.commit_transaction)
                self.committed.append(number)
                return
            self._producer.flush(CALL_WAIT_S)
            self._patiently(self._producer.abort_transaction)
            self.aborted.append(number)
        except KafkaException as error:
            if error.args[0].fatal() or not error.args[0].txn_requires_abort():
                raise
            self.failed.append(f"{number}: {error}")
            self._patiently(self._producer.abort_transaction)
            self.aborted.append(number)

    def _patiently(self, call: object) -> None:
        """What is only slow is waited for. Raises KafkaException."""
        assert callable(call)
        while True:
            try:
                call(CALL_WAIT_S)
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
            else:
                return

    def finish(self) -> None:
        self._finish.set()
        self._thread.join(STOP_WAIT_S)
        assert not self._thread.is_alive(), "the present transaction does not end"


class JavaWriter:
    """Kafka's own client, in a process of its own."""

    name = "Java"

    def __init__(self, classes: Path, bootstrap: str, topic: str, partitions: int, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.committed: list[int] = []
        self.aborted: list[int] = []
        self.failed: list[str] = []
        self.fatal: list[str] = []
        self.longest_s = 0.0
        self.printed: list[str] = []
        arguments = (bootstrap, topic, str(partitions), transactional_id, str(RECORDS))
        self._process = subprocess.Popen(
            dying_with_us(program_command("TransactionalWriter", "kafka", classes, arguments)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._thread = threading.Thread(target=self._read, name="java-writer")
        self._thread.start()

    @staticmethod
    def compile(classes: Path) -> None:
        compile_program(PROGRAMS / "TransactionalWriter.java", "kafka", classes)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.printed.append(line.rstrip())
            found = re.match(r"(committed|aborted|failed) (\d+) (\d+)(.*)", line)
            if found:
                how, number, took_ms, why = found[1], int(found[2]), int(found[3]), found[4]
                self.longest_s = max(self.longest_s, took_ms / 1000)
                if how == "committed":
                    self.committed.append(number)
                else:
                    self.aborted.append(number)
                if how == "failed":
                    self.failed.append(f"{number}:{why}")
            elif line.startswith("fatal "):
                self.fatal.append(line.removeprefix("fatal ").rstrip())

    def finish(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        try:
            code = self._process.wait(STOP_WAIT_S)
        finally:
            self._process.kill()
            self._thread.join()
            self._process.stdin.close()
            if self._process.stdout is not None:
                self._process.stdout.close()
        assert code == 0 or self.fatal, (code, self.printed[-10:])


def committed_values(bootstrap: str, topic: str, partitions: int) -> dict[int, list[str]]:
    """What readers of committed records see, by partition, once no transaction is open any more. Raises AssertionError."""

    def all_ended() -> bool:
        committed, written = (end_offsets(bootstrap, topic, partitions, isolation) for isolation in LEVELS)  # type: ignore[arg-type]
        return committed == written

    eventually(all_ended, 40, "no transaction is open")
    found = values_of(bootstrap, topic, partitions)
    return {number: [value.decode() for value in values] for number, values in found.items()}


def assert_whole(found: dict[int, list[str]], committed: Iterable[int], aborted: Iterable[int]) -> None:
    """All records of the committed transactions are there once, in order, and none of the aborted ones."""
    partitions = len(found)
    wanted = sorted(committed)
    for partition, values in found.items():
        records = range(partition, RECORDS, partitions)
        expected = [f"{number}-{record}" for number in wanted for record in records]
        if values != expected:
            missing = Counter(expected) - Counter(values)
            more = Counter(values) - Counter(expected)
            gone = {value for value in more if int(value.partition("-")[0]) in set(aborted)}
            raise AssertionError(
                f"partition {partition}: missing {list(missing)[:10]}, more {list(more)[:10]}, of them aborted "
                f"{list(gone)[:10]}; or out of order"
            )
