"""Produces numbered records at a steady rate in a separate process, and notes when each was sent.

python -m bench.spark.campaign_producer DIRECTORY BOOTSTRAP TOPIC PARTITIONS RECORDS_S RECORD_BYTES

Record n goes into partition n modulo PARTITIONS; its value is JSON with `id` n. DIRECTORY gets `ticks`, lines of
`MILLISECONDS ID`: records from ID on were sent at that time or later. After SIGTERM it waits until every record is
answered; then `report.json` says how many were sent and acknowledged.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaError, Message, Producer

from testing.processes import ManagedProcess, eventually

TICKS: Final = "ticks"
REPORT: Final = "report.json"
TICK_S: Final = 0.05
FLUSH_WAIT_S: Final = 120.0
STOP_WAIT_S: Final = 150.0
FIRST_WAIT_S: Final = 60.0
CUSTOMERS: Final = 1_000
ARREARS_S: Final = 1.0
"""Records that could not be sent while brokers were away are sent later, up to this backlog."""


@dataclass(frozen=True, slots=True)
class Report:
    """`failed`: ids of records that were given up, outcome unknown. `unanswered`: number of such at the end."""

    sent: int
    acknowledged: int
    failed: list[int] = field(default_factory=list)
    unanswered: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether each sent record must be there exactly once."""
        return self.acknowledged == self.sent and not self.failed and not self.unanswered


@dataclass(frozen=True, slots=True)
class Tick:
    at_ms: int
    first_id: int


def read_ticks(directory: Path) -> list[Tick]:
    """All ticks, except a last line that is still being written."""
    text = (directory / TICKS).read_text()
    whole = text[: text.rfind("\n") + 1]
    return [Tick(int(at_ms), int(first_id)) for at_ms, first_id in map(str.split, whole.splitlines())]


def sent_at_ms(ticks: Sequence[Tick], record_id: int) -> int:
    """The earliest time at which the record may have been sent, at most TICK_S too early. Pure."""
    return ticks[max(0, bisect_right(ticks, record_id, key=lambda tick: tick.first_id) - 1)].at_ms


def record_value(record_id: int, at_ms: int, record_bytes: int) -> bytes:
    """JSON of about `record_bytes` bytes."""
    head = f'{{"id":{record_id},"at":{at_ms},"customer":{{"name":"c{record_id % CUSTOMERS}"}},"text":"'
    return (head + "x" * (record_bytes - len(head) - 2) + '"}').encode()


class RunningProducer:
    """The producer process. `start` it in the main thread, with which it dies."""

    def __init__(
        self, directory: Path, bootstrap: str, topic: str, partitions: int, records_s: float, record_bytes: int
    ) -> None:
        self.directory = directory
        self._process = ManagedProcess(
            f"producer of {topic}",
            [
                *(sys.executable, "-m", "bench.spark.campaign_producer", str(directory), bootstrap, topic),
                *(str(partitions), f"{records_s:g}", str(record_bytes)),
            ],
            directory / "producer.log",
        )

    def start(self) -> None:
        """Returns once records are being sent. Raises AssertionError, ProcessFailed."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._process.start()
        ticks = self.directory / TICKS
        eventually(
            lambda: not self._process.is_running or (ticks.exists() and len(read_ticks(self.directory)) > 1),
            FIRST_WAIT_S,
            "records are sent",
        )
        assert self._process.is_running, f"the producer has ended{self._process}"

    def finish(self) -> Report:
        """Raises ProcessFailed, AssertionError."""
        code = self._process.stop(STOP_WAIT_S)
        assert code == 0, f"the producer ended with {code}{self._process}"
        return Report(**json.loads((self.directory / REPORT).read_text()))

    def close(self) -> None:
        if self._process.is_running:
            self._process.kill()


def main(arguments: Sequence[str]) -> None:
    directory, bootstrap, topic = Path(arguments[0]), arguments[1], arguments[2]
    partitions, records_s, record_bytes = int(arguments[3]), float(arguments[4]), int(arguments[5])
    finish = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: finish.set())
    acknowledged = 0
    failed: list[int] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        nonlocal acknowledged
        if error is None:
            acknowledged += 1
        else:
            failed.append(int(json.loads(message.value() or b"{}")["id"]))

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 5,
            "compression.type": "lz4",
            "reconnect.backoff.max.ms": 500,
            # Absent brokers must not cost a record.
            "message.timeout.ms": 0,
            "queue.buffering.max.messages": 200_000,
            "log_level": 0,
        }
    )
    sent, began = 0, time.monotonic()
    last_tick = began - TICK_S
    with (directory / TICKS).open("w", buffering=1) as ticks:
        while not finish.is_set():
            now = time.monotonic()
            due = min(int((now - began) * records_s) - sent, int(records_s * ARREARS_S))
            if now - last_tick >= TICK_S:
                ticks.write(f"{time.time_ns() // 1_000_000} {sent}\n")
                last_tick = now
            at_ms = time.time_ns() // 1_000_000
            for _ in range(max(0, due)):
                try:
                    producer.produce(
                        topic,
                        record_value(sent, at_ms, record_bytes),
                        b"%d" % (sent % CUSTOMERS),
                        sent % partitions,
                        on_delivery=on_delivery,
                    )
                except BufferError:
                    break
                sent += 1
            producer.poll(0.005)
    unanswered = producer.flush(FLUSH_WAIT_S)
    report = Report(sent, acknowledged, failed, unanswered)
    (directory / REPORT).write_text(json.dumps(asdict(report)))


if __name__ == "__main__":
    main(sys.argv[1:])
