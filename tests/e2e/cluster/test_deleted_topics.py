"""A topic deleted and made again under its name while clients of every proxy write to it and read it."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from hdfs_native import Client

from testing import wire
from testing.cluster import BmqCluster
from testing.compaction import topic_ids
from testing.processes import eventually
from tests.e2e.cluster.conftest import TopicMaker
from tests.e2e.conftest import unique_name
from tests.e2e.test_deleted_topics import CLOSED, GONE, WAIT_S, Activity, number_of, numbered, produce_next, records_in
from tests.support.led_partition import LedPartition
from tests.support.topic_client import TopicClient

pytestmark = [pytest.mark.faults, pytest.mark.bmq_only, pytest.mark.timeout(240)]

ROUNDS = 6


def test_a_topic_made_again_has_nothing_of_the_old_one(separated: BmqCluster, make_topic: TopicMaker) -> None:
    """Proxies and owners hear of the deletion one after the other; records of the old topic get into no new one."""
    topic, kept = unique_name("again"), make_topic(separated)
    answered: list[int] = []
    acknowledged: list[dict[int, int]] = []
    codes: set[int] = set()
    floors: list[int] = []
    old_ids = []
    with ExitStack() as stack:
        admin = stack.enter_context(TopicClient(separated.proxies[0].kafka_port))
        assert admin.create(topic) == wire.NONE
        for node in separated.proxies * 2:
            who = len(answered)
            answered.append(0)
            acknowledged.append({})
            connection = stack.enter_context(TopicClient(node.kafka_port, WAIT_S))

            def step(who: int = who, connection: TopicClient = connection) -> None:
                number = produce_next(connection, topic, who, answered, acknowledged, codes)
                codes.add(connection.fetch(topic, 0).error_code)
                # Topics that come and go let the balancer move this one's partition.
                LedPartition(connection, kept, 0).produce(numbered(number))

            stack.enter_context(Activity(f"client {who} of {node}", step))
        for _ in range(ROUNDS):
            counts = list(map(len, acknowledged))
            eventually(
                lambda: all(len(new) > old + 10 for new, old in zip(acknowledged, counts, strict=True)),  # noqa: B023
                WAIT_S,
                "every client is served",
            )
            old_ids.append(topic_ids(separated.bootstrap, [topic])[topic])
            assert admin.delete(topic) == wire.NONE
            floors = list(answered)
            assert admin.create(topic) == wire.NONE
        counts = list(map(len, acknowledged))
        eventually(
            lambda: all(len(new) > old + 10 for new, old in zip(acknowledged, counts, strict=True)),
            WAIT_S,
            "every client is served by the last one",
        )
    assert codes <= {wire.NONE, CLOSED, *GONE}, codes
    with TopicClient(separated.proxies[1].kafka_port) as reader:
        last = LedPartition(reader, topic, 0)
        end = last.offset()
        found = records_in(last.records(end))
        for topic_id in old_ids:
            assert reader.fetch_by_id(topic_id, 0).error_code in GONE
    assert [record.offset for record in found] == list(range(end))
    there = {(int(record.key or b""), number_of(record)): record.offset for record in found}
    assert all(number > floors[who] for who, number in there), "a record of a topic that is gone"
    # What was acknowledged last was acknowledged by the last of them.
    for who, numbers in enumerate(acknowledged):
        assert there[who, max(numbers)] == numbers[max(numbers)]
    files = Client(separated.store)

    def left() -> set[str]:
        names = {status.path.rsplit("/", 1)[1] for status in files.list_status(f"{separated.root}/topics")}
        return names & {str(topic_id) for topic_id in old_ids}

    eventually(lambda: not left(), WAIT_S, "no files of the old ones are left")
