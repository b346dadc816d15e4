"""Dead letters of share groups when the owner of the group's state dies before they are written."""

from __future__ import annotations

from uuid import UUID

import pytest
from confluent_kafka import Consumer, Message, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from bmq.coordinator.runtime.directory import shard_of
from bmq.protocol.share_state_messages import state_key
from testing.cluster import BmqCluster
from testing.java import CONFIGS
from testing.processes import eventually
from tests.e2e.cluster.conftest import TopicMaker
from tests.e2e.conftest import unique_name
from tests.e2e.test_share_groups import CONSOLE_SHARE_CONSUMER
from tests.support.tool_runner import run_tool

pytestmark = [pytest.mark.bmq_only, pytest.mark.timeout(240), pytest.mark.campaign("kills")]

COUNT = 30
STATE_TOPIC = "__share_group_state"
SWITCH = "errors.deadletterqueue.group.enable"


def read(bootstrap: str, topic: str, count: int) -> list[Message]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": unique_name("r"), "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[Message] = []
    try:
        while len(found) < count:
            message = consumer.poll(60)
            assert message is not None and message.error() is None, (message, len(found))
            found.append(message)
    finally:
        consumer.close()
    return found


def test_the_next_owner_writes_them_and_a_redrive_delivers_them(cluster: BmqCluster, make_topic: TopicMaker) -> None:
    topic, retry = make_topic(cluster), make_topic(cluster)
    letters, group = "dlq." + unique_name("letters"), unique_name("share")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    (created,) = admin.create_topics([NewTopic(letters, 1, 3)]).values()
    created.result(20)
    run_tool(
        CONFIGS,
        *("--bootstrap-server", cluster.bootstrap, "--alter", "--entity-type", "groups", "--entity-name", group),
        *("--add-config", f"share.auto.offset.reset=earliest,errors.deadletterqueue.topic.name={letters}"),
    )
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "compression.type": "zstd"})
    for number in range(COUNT):
        producer.produce(topic, b"v%d" % number, b"k%d" % number)
    assert producer.flush(30) == 0
    done = run_tool(
        CONSOLE_SHARE_CONSUMER,
        *("--bootstrap-server", cluster.bootstrap, "--topic", topic, "--group", group, "--reject"),
        *("--max-messages", str(COUNT), "--timeout-ms", "60000"),
    )
    assert len(done.out.split()) == COUNT
    # The topic takes no dead letters yet, so the records wait. Their owner dies.
    place = shard_of(state_key(group, UUID(cluster.topic(topic)["topic_id"]), 0), len(cluster.owners_of(STATE_TOPIC)))
    victim = cluster.owner_of(STATE_TOPIC, place)
    victim.kill()
    eventually(lambda: cluster.owners_of(STATE_TOPIC)[place] not in (victim.node_id, -1), 60, "another owner")
    entry = ConfigEntry(SWITCH, "true", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, letters, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for changed in admin.incremental_alter_configs([resource]).values():
        changed.result(30)
    found = read(cluster.bootstrap, letters, COUNT)
    assert [(one.key(), one.value()) for one in found] == [(b"k%d" % n, b"v%d" % n) for n in range(COUNT)]
    assert [dict(one.headers() or ())["__dlq.errors.offset"] for one in found] == [b"%d" % n for n in range(COUNT)]
    victim.start()
    cluster.wait_settled()
    status, task = cluster.controller().call("POST", "/v1/redrives", {"group": group, "to": retry})
    assert status == 202, task
    again = read(cluster.bootstrap, retry, COUNT)
    assert [one.value() for one in again] == [b"v%d" % n for n in range(COUNT)]
    assert dict(again[0].headers() or ()) == {"bmq-redriven-from": f"{letters}-0-0".encode()}
