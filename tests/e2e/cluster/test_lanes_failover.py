"""Lanes that come and go on a cluster whose nodes are killed: each record is read once, by the lane or by the base group."""

from __future__ import annotations

from collections import Counter
from contextlib import closing

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from testing.cluster import BmqCluster
from testing.processes import eventually
from tests.e2e.conftest import unique_name
from tests.support.lane_clients import Reader, enable_lanes, send

pytestmark = [
    pytest.mark.bmq_only,
    pytest.mark.timeout(300),
    pytest.mark.campaign("cluster"),
    pytest.mark.safety,
]

STAYS = 4
"""Of the lane. In every second one the partition's owner is killed."""


def test_lane_that_comes_and_goes_while_owners_die(cluster: BmqCluster) -> None:
    topic, group_id = unique_name("lanes"), unique_name("group")
    copies = f"{topic}.retry.{group_id}"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for created in admin.create_topics([NewTopic(name, 1, 3) for name in (topic, copies)]).values():
        created.result(20)
    enable_lanes(cluster.bootstrap, group_id, bmq_lane_grace_ms="500")
    seen_by_lane: Counter[str] = Counter()
    sent: list[str] = []

    def produce(count: int) -> None:
        values = [(f"{lane or 'plain'} {len(sent) + number}", lane) for number, lane in enumerate(["blue", ""] * count)]
        send(cluster.bootstrap, topic, values)
        sent.extend(value for value, _ in values)

    base = Reader(cluster.bootstrap, group_id, f"lanes:{group_id}", topic, copies)
    with closing(base.consumer):
        produce(5)
        for stay in range(STAYS):
            blue = Reader(cluster.bootstrap, f"{group_id}@blue", f"lanes:{group_id}@blue", topic)

            def is_taken(reader: Reader = blue) -> bool:
                produce(1)
                reader.read()
                base.read()
                return bool(reader.values)

            eventually(is_taken, 90, "the lane is taken")
            victim = cluster.owner_of(topic, 0) if stay % 2 else None
            if victim is not None:
                victim.kill()
            produce(10)
            behind = set(sent[-20:])

            def is_read(reader: Reader = blue, behind: set[str] = behind) -> bool:
                reader.read()
                base.read()
                return behind <= (reader.values + base.values).keys()

            eventually(is_read, 90, "what was produced meanwhile is read")
            if victim is not None:
                victim.start()
                cluster.wait_settled()
            blue.consumer.close()
            seen_by_lane += blue.values
            produce(5)

        def has_everything() -> bool:
            base.read()
            return (base.values + seen_by_lane).keys() == set(sent)

        eventually(has_everything, 90, "every record was read")
        base.read()
        assert max((base.values + seen_by_lane).values()) == 1
        assert seen_by_lane and not any(value.startswith("plain") for value in seen_by_lane)
