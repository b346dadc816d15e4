"""The roaming reader reads all there is, and says what a node should not have answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from random import Random

import pytest

from testing.wire import FetchAnswer
from tests.soak.cluster.ledger import Ledger
from tests.soak.cluster.roaming import Place, RoamingReader
from tests.soak.history import Origin, Sightings, payload
from tests.unit.soak.test_batches import written

pytestmark = pytest.mark.campaign("unit")

RECORDS = 6
FETCH_S = 0.1


def log_of(count: int) -> list[bytes]:
    """Batches of one record each."""
    return [written([payload(0, Origin(0, offset))], offset) for offset in range(count)]


class FakeNode:
    """One partition, two batches an answer, which takes a tenth of a second of the reader's time. A test spoils what it answers."""

    def __init__(self, count: int = RECORDS) -> None:
        self.passed_s = 0.0
        self.batches = log_of(count)
        self.visible = count
        self.error_code = 0
        self.end_offset = count
        self.when_fetched: Callable[[int], None] = lambda offset: None

    def fetch(self, topic: str, offset: int, partition: int = 0) -> FetchAnswer:
        self.passed_s += FETCH_S
        self.when_fetched(offset)
        return FetchAnswer(self.error_code, self.visible, b"".join(self.batches[offset : offset + 2]))

    def list_offsets(self, topic: str, partitions: Sequence[int], timestamp_ms: int) -> dict[int, tuple[int, int]]:
        return dict.fromkeys(partitions, (0, self.end_offset))


def reader_of(*nodes: FakeNode, acknowledged_end: int = 0) -> tuple[RoamingReader, list[Place]]:
    places = [Place("node", number, lambda: 1.0) for number in range(len(nodes))]

    def connect(place: Place) -> AbstractContextManager[FakeNode]:
        return nullcontext(nodes[place.port])

    def now_s() -> float:
        return 100 + sum(node.passed_s for node in nodes)

    reader = RoamingReader(
        places, "topic", (Ledger(0),), (Sightings(0),), lambda _: acknowledged_end, Random(0), connect, now_s
    )
    return reader, places


def test_everything_is_read_through_every_node() -> None:
    reader, places = reader_of(FakeNode(), FakeNode())
    for place in places:
        reader.read_to(place, [RECORDS], timeout_s=10)
    assert (reader.failures, reader.visit_count) == ([], 2)


def test_what_nobody_hands_out_is_missed() -> None:
    node = FakeNode()
    node.batches.pop()
    reader, (place,) = reader_of(node)
    reader.read_to(place, [RECORDS], timeout_s=1)
    assert "read up to [5] of [6]" in reader.failures[0]


@pytest.mark.parametrize(
    ("spoil", "word"),
    [
        (lambda node: setattr(node, "error_code", 1), "out of range"),
        (lambda node: setattr(node, "visible", 1), "shown, at high watermark 1"),
        (lambda node: setattr(node, "end_offset", 3), "ends at 3, and 4 was told"),
        (lambda node: node.batches.__setitem__(1, written([payload(0, Origin(0, 1))[:-1]], 1)), "differs"),
        (lambda node: node.batches.__setitem__(1, node.batches[1][:-1] + b"!"), "checksum"),
    ],
)
def test_a_spoiled_answer_is_found(spoil: Callable[[FakeNode], None], word: str) -> None:
    node = FakeNode()
    spoil(node)
    reader, (place,) = reader_of(node, acknowledged_end=4)
    reader.read_to(place, [RECORDS], timeout_s=0.5)
    assert any(word in failure for failure in reader.failures), reader.failures


def test_a_high_watermark_that_goes_back_is_found_over_connections() -> None:
    node = FakeNode()
    reader, (place,) = reader_of(node)
    reader.read_to(place, [RECORDS], timeout_s=10)
    assert reader.failures == []
    node.visible = RECORDS - 1
    node.batches.pop()
    reader.read_to(place, [RECORDS - 1], timeout_s=10)
    assert f"high watermark {RECORDS - 1} of 0 after {RECORDS}" in reader.failures[0]


def test_another_nodes_log_may_be_shorter_but_not_another() -> None:
    whole, behind, other = FakeNode(), FakeNode(3), FakeNode()
    other.batches[2] = written([payload(0, Origin(1, 2))], 2)
    reader, places = reader_of(whole, behind, other)
    reader.read_to(places[0], [RECORDS], timeout_s=10)
    reader.read_to(places[1], [3], timeout_s=10)
    assert reader.failures == []
    reader.read_to(places[2], [RECORDS], timeout_s=10)
    assert "showed" in reader.failures[0]


def test_a_lost_connection_is_no_failure() -> None:
    node = FakeNode()
    losses = iter([True, False, True])

    def lose(offset: int) -> None:
        if next(losses, False):
            raise ConnectionResetError

    node.when_fetched = lose
    reader, (place,) = reader_of(node)
    reader.read_to(place, [RECORDS], timeout_s=10)
    assert (reader.failures, reader.visit_count) == ([], 3)
