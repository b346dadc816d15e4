"""What a member tells comes into its group's ledger whole, and dead letters are read by their headers."""

from __future__ import annotations

import json
from math import inf
from random import Random
from typing import Any

import pytest

from tests.soak.history import Origin, Sightings
from tests.soak.queues.crew import Story
from tests.soak.queues.groups import left_to_do, undone
from tests.soak.queues.ledger import QueueLedger
from tests.soak.queues.letters import parsed
from tests.soak.queues.plan import GIVING_UP, SHARED, TOPIC, Choice
from tests.soak.queues.progress import DRAIN_S_MAX, STILL_S_MAX, Progress

pytestmark = pytest.mark.campaign("unit")

HEADERS = [
    ("__dlq.errors.topic", TOPIC.encode()),
    ("__dlq.errors.partition", b"2"),
    ("__dlq.errors.offset", b"17"),
    ("__dlq.errors.group", b"soak-letters"),
    ("__dlq.errors.delivery.count", b"3"),
    ("__dlq.errors.message", b"words"),
    ("own", None),
]


def line(event: str, s: float, **details: Any) -> bytes:
    return json.dumps({"event": event, "s": s, **details}).encode() + b"\n"


def told(ledger: QueueLedger, *lines: bytes) -> Story:
    story = Story("a", ledger, (Sightings(0),))
    for one in lines:
        story.take(one)
    return story


def given(s: float, offset: int, number: int, sequence: int) -> bytes:
    return line("given", s, at_s=s, since_s=s - 0.1, records=[[0, offset, number, 0, sequence]])


def test_a_life_of_a_member() -> None:
    ledger = QueueLedger("g", 3, 6.0)
    told(
        ledger,
        line("joining", 1),
        given(2, 0, 1, 0) + given(2.1, 1, 1, 1),
        line("deciding", 3, choices={"accept": [[0, 0]], "release": [[0, 1]]}),
        line("answered", 4, places=[[0, 0], [0, 1]], error_code=None),
        given(5, 1, 2, 1),
        line("deciding", 6, choices={"accept": [[0, 1]]}),
        line("answered", 7, places=[[0, 1]], error_code=-185),
        line("stalls", 8),
        line("trouble", 8, text="no connection"),
        line("leaving", 9),
        line("left", 9),
    )
    assert ledger.judge({0: 2}) == []
    assert dict(ledger.counts) | {"letters": 0} == {
        "deliveries": 3,
        "delivered_again": 1,
        "accept_known": 1,
        "release_known": 1,
        "answers_lost": 1,
        "stalls": 1,
        "accepted": 1,
        "accepts_unknown": 1,
        "ends_certain": 0,
        "letters": 0,
    }


def test_lines_come_in_pieces_and_the_last_one_of_a_killed_member_is_dropped() -> None:
    ledger = QueueLedger("g", 3, 6.0)
    data = given(2, 0, 1, 0) + given(3, 1, 1, 1)[:-9]
    told(ledger, data[:7], data[7:])
    assert ledger.counts["deliveries"] == 1


def test_bytes_that_differ_and_another_record_at_the_same_place_are_violations() -> None:
    ledger = QueueLedger("g", 3, 6.0)
    told(ledger, line("damaged", 1, text="offset 0: bytes"), given(2, 0, 1, 5), given(3, 0, 2, 6))
    assert [one for one in ledger.judge({}) if "behind the end" not in one] == [
        "group g: a: offset 0: bytes",
        "group g: partition 0 showed Origin(producer=0, sequence=5) at offset 0, and then Origin(producer=0, sequence=6)",
    ]


def test_no_line_of_a_members_is_refused() -> None:
    with pytest.raises(ValueError, match="Expecting value"):
        told(QueueLedger("g", 3, 6.0), b"Traceback\n")


def test_choices_follow_from_the_seed_and_have_their_shares() -> None:
    random = Random(1)
    drawn = [SHARED.choice(random, Origin(0, sequence)) for sequence in range(2_000)]
    again = Random(1)
    assert drawn == [SHARED.choice(again, Origin(0, sequence)) for sequence in range(2_000)]
    assert 0 < drawn.count(Choice.REJECT) < drawn.count(Choice.RELEASE) < drawn.count(Choice.ACCEPT)


def test_poisoned_records_are_always_released() -> None:
    poisoned = Origin(0, GIVING_UP.poisoned - 1)
    assert {GIVING_UP.choice(Random(seed), poisoned) for seed in range(200)} == {Choice.RELEASE}


def test_a_dead_letter_is_read_by_its_headers() -> None:
    group, letter, partition, value = parsed(HEADERS, b"value", 5.0)
    assert (group, partition, value) == ("soak-letters", 2, b"value")
    assert letter == ((2, 17), 3, "words", 5.0)


@pytest.mark.parametrize("missing", [name for name, _ in HEADERS[:-1]])
def test_a_dead_letter_without_one_of_them_is_refused(missing: str) -> None:
    with pytest.raises(KeyError, match=missing):
        parsed([header for header in HEADERS if header[0] != missing], b"value", 5.0)


def test_a_dead_letter_of_another_topic_or_without_a_value_is_refused() -> None:
    with pytest.raises(ValueError, match="of topic other"):
        parsed([("__dlq.errors.topic", b"other"), *HEADERS[1:]], b"value", 5.0)
    with pytest.raises(ValueError, match="no value"):
        parsed(HEADERS, None, 5.0)


PARTITION = {"topic": TOPIC, "partition": 0, "high_watermark": 9, "lag": 0, "locked": 0, "delayed": 0, "archiving": 0}


@pytest.mark.parametrize(
    ("partitions", "is_done"),
    [
        ([PARTITION], True),
        ([], False),
        ([{**PARTITION, "topic": "other"}], False),
        ([{**PARTITION, "high_watermark": 8}], False),
        ([{**PARTITION, "lag": None}], False),
        *(([{**PARTITION, left: 1}], False) for left in ("lag", "locked", "delayed", "archiving")),
    ],
)
def test_a_group_is_done_when_the_server_has_nothing_left_for_it(partitions: list[Any], is_done: bool) -> None:
    said = undone({"partitions": partitions}, {0: 9})
    assert (not said.what) is is_done
    assert is_done or said.what.startswith("partition 0, which ends at 9: ")


def test_what_a_group_has_left_is_counted_over_its_partitions() -> None:
    partitions = [{**PARTITION, "lag": 3}, {**PARTITION, "partition": 1, "lag": 4}]
    assert undone({"partitions": partitions}, {0: 9, 1: 9}).records == 7
    assert undone({"partitions": partitions}, {0: 9, 1: 9, 2: 1}).records == inf
    assert left_to_do(lambda path: (503, "not now"), "g", {0: 9}) == (
        inf,
        "the server does not explain it: 503 not now",
    )


def test_a_group_has_time_while_it_comes_further() -> None:
    progress = Progress(0)
    for step in range(6):
        assert progress.problem(100 - step, step * STILL_S_MAX) is None
    assert progress.problem(95, 6 * STILL_S_MAX) is None
    assert progress.problem(95, 6 * STILL_S_MAX + 1) == f"did not come further within {STILL_S_MAX:g} s"
    assert progress.problem(1, DRAIN_S_MAX + 1) == f"did not come to the end within {DRAIN_S_MAX:g} s"


def test_a_group_that_nobody_explains_does_not_come_further() -> None:
    progress = Progress(0)
    assert progress.problem(inf, STILL_S_MAX) is None
    assert progress.problem(inf, STILL_S_MAX + 1) is not None
