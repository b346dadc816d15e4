"""A reader that starts at offset 0 again and again, asks whichever node, and looks at batches, high watermarks and ends.

It speaks the protocol by hand: a stock client keeps to the node it was sent to, and hides what it was answered.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from random import Random
from typing import Final, Protocol

from testing.wire import LATEST_TIMESTAMP, NONE, OFFSET_OUT_OF_RANGE, FetchAnswer, WireClient
from tests.soak.cluster.batches import Damaged, batches_of
from tests.soak.cluster.ledger import Ledger
from tests.soak.history import NotOurs, Sightings, origin_of
from tests.soak.load import Client

ANSWER_WAIT_S: Final = 3.0
STAYS_S: Final = (0.5, 3.0)
PASS_ENDS_S: Final = 4.0  # at the end of all partitions, before it begins anew; longer after a long way there
PASS_ENDS_SHARE: Final = 2.0
REST_S: Final = 0.05
LOST_PAUSE_S: Final = 0.2
ENDS_INTERVAL_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Place:
    """A node as a reader finds it. `incarnation()`: another value for every process it has."""

    host: str
    port: int
    incarnation: Callable[[], float]

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Asked(Protocol):
    """What is asked of a node: see WireClient."""

    def fetch(self, topic: str, offset: int, partition: int = 0) -> FetchAnswer: ...

    def list_offsets(self, topic: str, partitions: Sequence[int], timestamp_ms: int) -> dict[int, tuple[int, int]]: ...


def _connect(node: Place) -> WireClient:
    return WireClient(node.port, ANSWER_WAIT_S, host=node.host)


class RoamingReader(Client):
    """`acknowledged_end(partition)`: behind the last record that a producer was told is kept."""

    def __init__(
        self,
        nodes: Sequence[Place],
        topic: str,
        ledgers: Sequence[Ledger],
        sightings: Sequence[Sightings],
        acknowledged_end: Callable[[int], int],
        random: Random,
        connect: Callable[[Place], AbstractContextManager[Asked]] = _connect,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__("roaming reader")
        self._now_s = now_s
        self.pass_count = 0
        self.visit_count = 0
        self.refusals: dict[int, int] = {}
        self._nodes = nodes
        self._topic = topic
        self._ledgers = ledgers
        self._sightings = sightings
        self._acknowledged_end = acknowledged_end
        self._random = random
        self._connect = connect
        # By process: each may be behind the others for a moment, but does not go back.
        self._high_watermarks: dict[tuple[Place, float], dict[int, int]] = {}
        self._ends_seen = [0] * len(ledgers)
        self._ends_asked_s = 0.0
        self._begin_pass(self._ends_seen)

    def step(self) -> None:
        """One visit to one node."""
        node = self._random.choice(self._nodes)
        until_s = self._now_s() + self._random.uniform(*STAYS_S)
        self._visit(node, lambda: self._now_s() < until_s)

    def resume(self) -> None:
        """After `finish`, so that `read_to` can be called."""
        self._is_over.clear()

    def read_to(self, node: Place, ends: Sequence[int], timeout_s: float) -> None:
        """Read everything anew through one node, in this thread, which is nobody else's then."""
        self._begin_pass(ends)
        deadline_s, failures = self._now_s() + timeout_s, len(self.failures)

        def is_unfinished() -> bool:
            return any(position < end for position, end in zip(self._positions, ends, strict=True))

        while is_unfinished() and len(self.failures) == failures:
            if self._now_s() >= deadline_s:
                self.fail(f"read up to {self._positions} of {list(ends)} through {node} within {timeout_s:g} s")
                return
            self._visit(node, lambda: is_unfinished() and self._now_s() < deadline_s)

    def _visit(self, node: Place, may_stay: Callable[[], bool]) -> None:
        incarnation = node.incarnation()
        try:
            with self._connect(node) as client:
                # Connected to that process, unless there is another one by now.
                is_known = node.incarnation() == incarnation
                high_watermarks = self._high_watermarks.setdefault((node, incarnation), {}) if is_known else {}
                self.visit_count += 1
                while may_stay() and not self._is_over.is_set():
                    self._round(node, client, high_watermarks)
        except OSError:
            self._is_over.wait(LOST_PAUSE_S)

    def _round(self, node: Place, client: Asked, high_watermarks: dict[int, int]) -> None:
        if self._now_s() - self._ends_asked_s > ENDS_INTERVAL_S:
            self._ends_asked_s = self._now_s()
            self._ask_ends(node, client)
        found = [self._fetch(node, client, partition, high_watermarks) for partition in range(len(self._ledgers))]
        self._note_end()
        if not any(found):
            self._is_over.wait(REST_S)

    def _fetch(self, node: Place, client: Asked, partition: int, high_watermarks: dict[int, int]) -> bool:
        """Whether there was anything."""
        position = self._positions[partition]
        answer = client.fetch(self._topic, position, partition)
        if answer.error_code != NONE:
            self.refusals[answer.error_code] = self.refusals.get(answer.error_code, 0) + 1
            if answer.error_code == OFFSET_OUT_OF_RANGE:
                self.fail(f"{node} says that offset {position} of partition {partition} is out of range")
            self._is_over.wait(REST_S)
            return False
        before = high_watermarks.get(partition, 0)
        if answer.high_watermark < before:
            self.fail(f"{node} shows high watermark {answer.high_watermark} of {partition} after {before}")
        high_watermarks[partition] = max(before, answer.high_watermark)
        self._ends_seen[partition] = max(self._ends_seen[partition], answer.high_watermark)
        self._take(node, partition, answer.records, answer.high_watermark)
        return self._positions[partition] > position

    def _take(self, node: Place, partition: int, records: bytes, high_watermark: int) -> None:
        try:
            for batch in batches_of(records):
                is_new, problem = self._ledgers[partition].add(batch)
                if problem is None and batch.end_offset > high_watermark:
                    problem = f"offset {batch.end_offset - 1} of {partition} shown, at high watermark {high_watermark}"
                if problem is not None:
                    self.fail(f"through {node}: {problem}")
                for offset, value in batch.records() if is_new else ():
                    problem = self._sightings[partition].add(offset, origin_of(partition, value))
                    if problem is not None:
                        self.fail(f"through {node}: {problem}")
                self._positions[partition] = max(self._positions[partition], batch.end_offset)
        except (Damaged, NotOurs) as error:
            self.fail(f"through {node}: {error}")

    def _ask_ends(self, node: Place, client: Asked) -> None:
        """An end that is answered is not below what was acknowledged before it was asked for."""
        partitions = range(len(self._ledgers))
        floors = [max(self._acknowledged_end(partition), self._positions[partition]) for partition in partitions]
        for partition, (error_code, offset) in client.list_offsets(self._topic, partitions, LATEST_TIMESTAMP).items():
            if error_code == NONE and offset < floors[partition]:
                self.fail(f"{node} says that partition {partition} ends at {offset}, and {floors[partition]} was told")

    def _begin_pass(self, ends: Sequence[int]) -> None:
        """To these ends at the least, those known by now: producers may be faster than a reader with little of a processor."""
        self._pass_to = list(ends)
        self._positions = [0] * len(self._ledgers)
        self._pass_began_s = self._now_s()
        self._pass_ends_s: float | None = None

    def _note_end(self) -> None:
        if any(position < end for position, end in zip(self._positions, self._pass_to, strict=True)):
            return
        now_s = self._now_s()
        if self._pass_ends_s is None:
            self._pass_ends_s = now_s + max(PASS_ENDS_S, PASS_ENDS_SHARE * (now_s - self._pass_began_s))
        elif now_s > self._pass_ends_s:
            self._begin_pass(self._ends_seen)
            self.pass_count += 1
