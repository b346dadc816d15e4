"""A steady, idempotent librdkafka producer with the library's default settings, and what became of its records."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any, Final, Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from bench.cluster.acknowledgements import UNKNOWN_OFFSET, Acknowledgements
from testing.processes import eventually

NUMBER_BYTES: Final = 12
# Whole milliseconds: of less, librdkafka makes none, and a loop that waits for a moment would take a processor.
POLL_SHORTEST_S: Final = 0.001
POLL_LONGEST_S: Final = 0.01
LOOK_INTERVAL_S: Final = 0.01
CATCH_UP_LOOK_INTERVAL_S: Final = 0.25
FLOW_WAIT_S: Final = 60.0
JOIN_WAIT_S: Final = 30.0
FLUSH_WAIT_S: Final = 60.0
ERRORS_KEPT_MAX: Final = 20


class LoadStuck(Exception):
    """The producer did not get on in the time it was given."""


class SteadyLoad:
    """Sends `rate` records a second, round robin over the partitions of a topic, inside its `with` block or until `finish`.

    Record n begins with n, in NUMBER_BYTES digits. `failed`: what the application is told; `warnings`: what librdkafka
    deals with by itself.
    """

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, rate: float, record_bytes: int = 100, **settings: Any
    ) -> None:
        self.topic = topic
        self.rate = rate
        self.settings = {"enable.idempotence": True, **settings}
        self.seen = Acknowledgements(partitions)
        self.failed: list[str] = []
        self.warnings: list[str] = []
        self.warning_count = 0
        self._padding = bytes(record_bytes - NUMBER_BYTES)
        self._finish = threading.Event()
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "error_cb": self._on_error, "log_level": 0, **self.settings}
        )
        self._thread = threading.Thread(target=self._run, name=f"load-{topic}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._finish.set()
        self._thread.join(JOIN_WAIT_S)
        if kind is not None:
            self._producer.purge()

    def finish(self) -> None:
        """Stop sending and wait for every answer. Raises LoadStuck."""
        self._finish.set()
        self._thread.join(JOIN_WAIT_S)
        left = self._producer.flush(FLUSH_WAIT_S)
        if left:
            raise LoadStuck(f"{left} records to {self.topic} have no answer {FLUSH_WAIT_S:g} s after the last was sent")

    def wait_until_flowing(self, since: float | None = None, timeout_s: float = FLOW_WAIT_S) -> float:
        """Return once every partition has acknowledged a record that was sent after `since` (now); the seconds it took.

        Raises LoadStuck.
        """
        began = time.monotonic()
        since = began if since is None else since
        try:
            eventually(lambda: not self.seen.silent_since(since), timeout_s, "an answer", LOOK_INTERVAL_S)
        except AssertionError:
            silent = self.seen.silent_since(since)
            raise LoadStuck(
                f"partitions {silent[:8]} of {self.topic} acknowledged nothing within {timeout_s:g} s; {self.failed[:3]}"
            ) from None
        return time.monotonic() - began

    def wait_until_caught_up(self, longest_s: float, timeout_s: float = FLOW_WAIT_S) -> float:
        """Return once no record waited longer than `longest_s` in the last second; the seconds it took. Raises LoadStuck."""
        began = time.monotonic()
        try:
            eventually(
                lambda: self.seen.longest_wait_s((now := time.monotonic()) - 1.0, now) <= longest_s,
                timeout_s,
                "an answer to all that waits",
                CATCH_UP_LOOK_INTERVAL_S,
            )
        except AssertionError:
            raise LoadStuck(f"records to {self.topic} still wait longer than {longest_s:g} s") from None
        return time.monotonic() - began

    def facts(self) -> Mapping[str, Any]:
        """For the results: what was sent and what went wrong."""
        return {
            "records_per_s": self.rate,
            "partitions": self.seen.partitions,
            "settings": self.settings,
            "sent": self.seen.sent_count,
            "acknowledged": self.seen.acknowledged_count,
            "failed": len(self.failed),
            "failed_first": self.failed[:ERRORS_KEPT_MAX],
            "librdkafka_warnings": self.warning_count,
            "librdkafka_warnings_first": self.warnings,
        }

    # -- The thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._send()
        except KafkaException as error:  # an idempotent producer's fatal error: nothing more can be sent
            self.failed.append(f"the producer ended: {error}")

    def _send(self) -> None:
        began = time.monotonic()
        while not self._finish.is_set():
            number = self.seen.sent_count
            now = time.monotonic()
            due = began + number / self.rate
            if now < due:
                self._producer.poll(min(max(due - now, POLL_SHORTEST_S), POLL_LONGEST_S))
                continue
            try:
                self._producer.produce(
                    self.topic,
                    b"%0*d" % (NUMBER_BYTES, number) + self._padding,
                    partition=number % self.seen.partitions,
                    on_delivery=self._on_delivery,
                )
            except BufferError:
                self._producer.poll(POLL_LONGEST_S)
                continue
            self.seen.sent(now)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        value, latency_s, offset = message.value(), message.latency(), message.offset()
        assert value is not None
        number = int(value[:NUMBER_BYTES])
        if error is not None:
            self.failed.append(f"record {number}: {error.str()}")
            return
        assert latency_s is not None
        # A batch that came through the first time, and whose answer did not, is acknowledged without its offset.
        self.seen.acknowledged(number, time.monotonic(), latency_s, UNKNOWN_OFFSET if offset is None else offset)

    def _on_error(self, error: KafkaError) -> None:
        self.warning_count += 1
        if len(self.warnings) < ERRORS_KEPT_MAX:
            self.warnings.append(error.str())
