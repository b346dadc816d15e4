"""Delayed records over the death of their partition's owner, on nodes whose clocks differ by seconds, on HDFS."""

from __future__ import annotations

import time

import pytest

from tests.e2e.cluster.conftest import ClusterMaker, TopicMaker
from tests.e2e.test_delayed_records import DELAY, consume, produce
from tests.support.wrong_clock import clock_off_by

pytestmark = [pytest.mark.campaign("cluster"), pytest.mark.bmq_only, pytest.mark.timeout(180), pytest.mark.safety]

SKEWS_S = (0, 5, -5)
COUNT = 60


def test_the_next_owner_delivers_once_and_in_order(new_cluster: ClusterMaker, make_topic: TopicMaker) -> None:
    cluster = new_cluster()
    for seconds in SKEWS_S:
        cluster.add(environment=clock_off_by(seconds) if seconds else None)
    cluster.start()
    topic = make_topic(cluster, 1, config=DELAY)
    names: dict[int, int] = {}
    for _ in range(2):
        # Some are due before the owner is killed, by its clock, and most of them behind.
        now_ms = int(time.time() * 1000)
        due_ms = [now_ms + 5500 + 200 * (number * 37 % COUNT) for number in range(COUNT)]
        for message, due in zip(
            produce(cluster.bootstrap, topic, *((b"x", due) for due in due_ms)), due_ms, strict=True
        ):
            offset = message.offset()
            assert offset is not None
            names[offset] = due
        owner = cluster.owner_of(topic, 0)
        owner.kill()
        owner.start()

    found = [(message, dict(message.headers() or ())) for message in consume(cluster.bootstrap, topic, len(names))]
    names_found = [int(headers.get("bmq-timer-offset", message.offset())) for message, headers in found]
    assert sorted(names_found) == sorted(names), "each once"
    delivered = [
        (int(one["bmq-timer-due"]), int(one["bmq-timer-offset"])) for _, one in found if "bmq-timer-due" in one
    ]
    assert len(delivered) > COUNT
    assert delivered == sorted(delivered), "in order of due time"
    assert all(due >= names[offset] for due, offset in delivered)
