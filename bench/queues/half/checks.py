"""Very many undecided half messages: when each check came, and whether one came behind a decision. By records, and by HTTP."""

from __future__ import annotations

import hmac
import json
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from bench.cluster.admin import create_topic, create_topics_request, wait_for_leaders
from bench.cluster.sides import BmqSide
from bench.findings import say
from bench.queues.half.check_book import Asked, CheckBook, Decided, Terms
from bench.workloads import LoadFailed

PARTITIONS: Final = 6
REPLICATION: Final = 1
VALUE_BYTES: Final = 100
INTERVAL_MS: Final = 10_000
CHECKS_MAX: Final = 4
FIRST_MS_MIN: Final = 20_000
SAMPLE: Final = 5_000
"""Held and listed first, which tells how long all of them take on this machine as it is now."""
WARM: Final = 500
MARGIN: Final = 1.5
FLUSH_S: Final = 60.0
DECIDED_OF: Final = 3
"""Of so many messages one is committed, one rolled back, and one stays undecided."""
_DECIDE_BATCH: Final = 200
_LETTERS: Final = {"errors.deadletterqueue.group.enable": "true"}
_OFFSET_BEGINNING: Final = -2
_PAGE: Final = 1_000
_POLLED_RECORDS: Final = 2_000
_REST_WAIT_S: Final = 20.0


def now_ms() -> int:
    return time.time_ns() // 1_000_000


# --- messages


def terms_of(count: int, sample: int, took_ms: float) -> Terms:
    """All of `count` are held, and listed, before the first is checked, as `sample` of them took so long."""
    first_ms = int(MARGIN * took_ms * count / sample)
    return Terms(max(FIRST_MS_MIN, first_ms), INTERVAL_MS, CHECKS_MAX)


def terms_for(side: BmqSide, count: int) -> Terms:
    """Raises LoadFailed, AdminFailed."""
    sample = min(SAMPLE, count)
    make_topic(side, "sample", {}, terms_of(sample, sample, 0))
    holding = Holding(side, "sample")
    holding.hold(min(WARM, sample))  # the first takes what the others do not
    began_s = time.monotonic()
    holding.hold(sample)
    terms = terms_of(count, sample, 1000 * (time.monotonic() - began_s))
    say(f"  the first check is {terms.first_ms / 1000:.1f} s behind a hold")
    return terms


def make_topic(side: BmqSide, topic: str, check: Mapping[str, str], terms: Terms) -> None:
    """`check`: the config of who is asked, by the end of its name. Raises AdminFailed."""
    configs = {
        "bmq.half.enable": "true",
        "bmq.half.check.first.ms": str(terms.first_ms),
        "bmq.half.check.interval.ms": str(terms.interval_ms),
        "bmq.half.check.max": str(terms.checks_max),
        **{f"bmq.half.check.{name}": value for name, value in check.items()},
    }
    create_topic(side.addresses, create_topics_request(topic, PARTITIONS, REPLICATION, configs))
    wait_for_leaders(side.addresses, topic, PARTITIONS)


class Holding:
    """Half messages with the numbers [0, count); where each is, from `offsets` on acknowledged, and when it was held."""

    def __init__(self, side: BmqSide, topic: str) -> None:
        self.offsets: dict[int, tuple[int, int]] = {}
        self._side, self._topic = side, topic
        self._failures: list[str] = []
        self.producer = Producer(
            {
                "bootstrap.servers": side.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 20,
                "queue.buffering.max.messages": 200_000,
            }
        )

    def hold(self, count: int, within_ms: float = math.inf) -> dict[int, int]:
        """When each was held, by the owner's clock. Raises LoadFailed, AdminFailed."""
        began_ms, value = now_ms(), b"x" * VALUE_BYTES
        for number in range(count):

            def on_delivery(error: KafkaError | None, message: Message, number: int = number) -> None:
                if error is not None:
                    self._failures.append(str(error))
                    return
                partition, offset = message.partition(), message.offset()
                assert partition is not None and offset is not None
                self.offsets[number] = partition, offset

            self.send(value, number % PARTITIONS, ("bmq-half", b"%d" % number), on_delivery)
        self.flush()
        held_ms = self._held()
        if held_ms.keys() != set(range(count)):
            raise LoadFailed(f"{len(held_ms)} of {count} half messages are undecided")
        if now_ms() - began_ms > within_ms:
            raise LoadFailed(
                f"{count} messages were not held and listed in the {within_ms / 1000:g} s before the first is checked"
            )
        say(f"  {count} are held after {(max(held_ms.values()) - began_ms) / 1000:.1f} s")
        return held_ms

    def send(self, value: bytes, partition: int, header: tuple[str, bytes], on_delivery: Callable[..., None]) -> None:
        while True:
            try:
                self.producer.produce(
                    self._topic, value, partition=partition, headers=[header], on_delivery=on_delivery
                )
            except BufferError:
                self.producer.poll(0.05)
            else:
                return

    def flush(self) -> None:
        """Raises LoadFailed."""
        if self.producer.flush(FLUSH_S):
            raise LoadFailed(f"records were not acknowledged within {FLUSH_S:g} s")
        if self._failures:
            raise LoadFailed(f"{len(self._failures)} records were refused: {self._failures[0]}")

    def decide(self, numbers: Sequence[int], decided: dict[int, Decided]) -> None:
        """Commit every first one of DECIDED_OF and roll back every second one. Raises LoadFailed."""
        for number in numbers:
            partition, offset = self.offsets[number]
            name = "bmq-half-commit" if number % DECIDED_OF == 0 else "bmq-half-rollback"
            sent_ms = now_ms()

            def on_delivery(error: KafkaError | None, _: Message, number: int = number, sent_ms: int = sent_ms) -> None:
                if error is None:
                    decided[number] = Decided(sent_ms, now_ms())
                else:
                    self._failures.append(str(error))

            self.send(b"", partition, (name, b"%d" % offset), on_delivery)
        self.flush()

    def _held(self) -> dict[int, int]:
        """Raises AdminFailed."""
        held = {}
        for partition in range(PARTITIONS):
            next_from: int | None = 0
            while next_from is not None:
                path = f"/v1/topics/{self._topic}/partitions/{partition}/half?from={next_from}&limit={_PAGE}"
                page = self._side.rest("GET", path)
                for one in page["messages"]:
                    held[int(one["check_id"])] = round(datetime.fromisoformat(one["held_at"]).timestamp() * 1000)
                next_from = page["next_from"]
        return held


def decided_numbers(count: int) -> list[int]:
    """Of [0, count), those that are decided."""
    return [number for number in range(count) if number % DECIDED_OF != DECIDED_OF - 1]


# --- by records


class _Checks(threading.Thread):
    """Reads the topic of checks until it is told to end."""

    def __init__(self, bootstrap: str, topic: str, numbers: dict[tuple[int, int], int], book: CheckBook) -> None:
        super().__init__(daemon=True)
        self.finish = threading.Event()
        self.failures: list[str] = []
        self._numbers, self._book = numbers, book
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "checks",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 100,
            }
        )
        self._consumer.assign([TopicPartition(topic, number, _OFFSET_BEGINNING) for number in range(PARTITIONS)])

    def run(self) -> None:
        try:
            while not self.finish.is_set():
                messages = self._consumer.consume(_POLLED_RECORDS, 0.05)
                came_ms = now_ms()
                for message in messages:
                    if message.error() is None:
                        self._see(message, came_ms)
            self._consumer.close()
        except Exception as error:  # the main thread raises it
            self.failures.append(f"{type(error).__name__}: {error}")

    def _see(self, message: Message, came_ms: int) -> None:
        headers = dict(message.headers() or ())
        place = int(headers["bmq-half-partition"]), int(headers["bmq-half-offset"])
        number, key = self._numbers.get(place, -1), message.key()
        if key is None or int(key) != number:
            number = -1  # it names another message
        self._book.asked(number, int(headers["bmq-half-check"]), Asked(message.timestamp()[1], came_ms))


def by_record(side: BmqSide, count: int, terms: Terms) -> dict[str, Any]:
    """Raises LoadFailed, AdminFailed."""
    create_topic(side.addresses, create_topics_request("checks", PARTITIONS, REPLICATION, _LETTERS))
    wait_for_leaders(side.addresses, "checks", PARTITIONS)
    make_topic(side, "asked-by-record", {"topic": "checks"}, terms)
    holding = Holding(side, "asked-by-record")
    book = CheckBook(terms, holding.hold(count, terms.first_ms))
    checks = _Checks(side.bootstrap, "checks", {place: number for number, place in holding.offsets.items()}, book)
    checks.start()
    try:
        # They are decided while the second checks come, in the same order.
        numbers = decided_numbers(count)
        first_ms, last_ms = min(book.held_ms.values()), max(book.held_ms.values())
        second_ms = first_ms + terms.first_ms + terms.interval_ms
        for start in range(0, len(numbers), _DECIDE_BATCH):
            at_ms = second_ms + (last_ms - first_ms) * start // len(numbers)
            time.sleep(max(0.0, (at_ms - now_ms()) / 1000))
            holding.decide(numbers[start:][:_DECIDE_BATCH], book.decided)
        end_ms = _wait_for_all(last_ms, terms)
    finally:
        checks.finish.set()
        checks.join()
    if checks.failures:
        raise LoadFailed(checks.failures[0])
    return book.found(end_ms)


def _wait_for_all(last_held_ms: int, terms: Terms) -> int:
    """Until each message had the time for one check more than it may have; when that was."""
    end_ms = last_held_ms + terms.first_ms + terms.checks_max * terms.interval_ms + 2_000
    time.sleep(max(0.0, (end_ms - now_ms()) / 1000))
    return now_ms()


# --- by HTTP


class Service:
    """Answers checks. At its second check a message is decided as `Holding.decide` would."""

    def __init__(self, secret: bytes) -> None:
        self.asked: list[tuple[int, int, Asked]] = []
        self.decided: dict[int, Decided] = {}
        self.failures: list[str] = []
        self._secret, self._lock = secret, threading.Lock()

    def answer(self, body: bytes, signature: str, came_ms: int) -> dict[str, list[int]]:
        stamp, _, proof = signature.partition(",")
        asked_ms = stamp.removeprefix("t=")
        wanted = hmac.new(self._secret, asked_ms.encode() + b"." + body, sha256).hexdigest()
        given: dict[str, list[int]] = {"commit": [], "rollback": []}
        checks = json.loads(body)["checks"]
        with self._lock:
            if not hmac.compare_digest(proof, f"v1={wanted}"):
                self.failures.append("a check whose signature is wrong")
            for check in checks:
                number = int(check["id"])
                self.asked.append((number, check["check"], Asked(int(asked_ms), came_ms)))
                if check["check"] > 1 and number % DECIDED_OF < DECIDED_OF - 1:
                    given["commit" if number % DECIDED_OF == 0 else "rollback"].append(check["offset"])
                    # It is durable within the second that a check may be late.
                    self.decided.setdefault(number, Decided(came_ms, came_ms + 1_000))
        return given


@contextmanager
def served(service: Service) -> Iterator[int]:
    """The port of the service."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # headers and body are two writes

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            given = service.answer(body, self.headers["bmq-signature"], now_ms())
            answer = json.dumps(given).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def by_http(side: BmqSide, service: Service, port: int, count: int, terms: Terms) -> dict[str, Any]:
    """Raises LoadFailed, AdminFailed."""
    make_topic(side, "asked-by-http", {"url": f"http://127.0.0.1:{port}/checks"}, terms)
    book = CheckBook(terms, Holding(side, "asked-by-http").hold(count, terms.first_ms))
    end_ms = _wait_for_all(max(book.held_ms.values()), terms)
    if service.failures:
        raise LoadFailed(service.failures[0])
    for number, check, asked in list(service.asked):
        book.asked(number, check, asked)
    book.decided.update(service.decided)
    return book.found(end_ms)
