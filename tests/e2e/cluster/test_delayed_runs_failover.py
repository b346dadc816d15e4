"""Delayed records whose owner is killed while it writes them to a run, on HDFS."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import Counter

import pytest

from bench.queues.timers.delayed import DelayedConsumer, DelayedProducer
from bmq.dev.hdfs import HdfsCluster
from bmq.hdfs.store import HdfsStore
from bmq.log.names import parse_epoch_directory
from bmq.log.store import FileMissing, FileStatus
from testing.hdfs import PATIENT, config_of, outside_any_loop
from testing.processes import eventually
from tests.e2e.cluster.conftest import ClusterMaker, TopicMaker
from tests.e2e.test_delayed_records import DELAY

pytestmark = [pytest.mark.campaign("cluster"), pytest.mark.bmq_only, pytest.mark.timeout(400), pytest.mark.safety]

KILLS = 3
RECORD_BYTES = 2_000
DUE_S = (20, 60)
RUN_WAIT_S = 60.0


class Producing(threading.Thread):
    """As fast as they are acknowledged, until it is told to end."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True)
        self.producer = DelayedProducer(bootstrap, topic, 1, RECORD_BYTES)
        self.finish = threading.Event()

    def run(self) -> None:
        dice = random.Random(5)
        while not self.finish.is_set():
            self.producer.produce(int((time.time() + dice.uniform(*DUE_S)) * 1000))


async def opened(hdfs: HdfsCluster, root: str) -> HdfsStore:
    return await HdfsStore.open(config_of(hdfs, root, **PATIENT), random.Random(1))  # type: ignore[arg-type]


async def run_files(store: HdfsStore, partition: str) -> dict[str, FileStatus]:
    found: dict[str, FileStatus] = {}
    try:
        directories = await store.list_directory(partition)
    except FileMissing:  # its first owner has not started
        return found
    for directory in directories:
        if parse_epoch_directory(directory.name) is not None:
            try:
                files = await store.list_directory(f"{partition}/{directory.name}")
            except FileMissing:  # the epoch was sealed just now
                continue
            found.update({f"{directory.name}/{one.name}": one for one in files if one.name.startswith("timers.")})
    return found


async def run_under_way(store: HdfsStore, partition: str) -> str:
    """The next run that is being written."""
    async with asyncio.timeout(RUN_WAIT_S):
        while True:
            for name, file in (await run_files(store, partition)).items():
                if file.is_open and ".open/" in name:
                    return name
            await asyncio.sleep(0.005)


def test_the_owner_is_killed_while_it_writes_a_run(
    hdfs: HdfsCluster, new_cluster: ClusterMaker, make_topic: TopicMaker
) -> None:
    cluster = new_cluster(3)
    cluster.start()
    topic = make_topic(cluster, 1, config=DELAY)
    partition = f"topics/{cluster.topic(topic)['topic_id']}/0"
    producing = Producing(cluster.bootstrap, topic)
    producing.start()

    async def killed_runs() -> list[str]:
        store = await opened(hdfs, cluster.root)
        killed = []
        try:
            for _ in range(KILLS):
                name = await run_under_way(store, partition)
                owner = cluster.owner_of(topic, 0)
                owner.kill()
                file = (await run_files(store, partition)).get(name)
                if file is not None and file.is_open:
                    killed.append(name)
                await asyncio.to_thread(owner.start)
                await asyncio.to_thread(cluster.wait_settled)
        finally:
            await store.close()
        return killed

    killed = outside_any_loop(killed_runs())
    producing.finish.set()
    producing.join()
    acknowledged = producing.producer.finish()
    assert killed, "no run was under way at a kill"
    assert not acknowledged.failed

    consumer = DelayedConsumer(cluster.bootstrap, topic, 1)
    received = consumer.received
    try:
        assert consumer.poll_until(lambda: acknowledged.due_ms.keys() <= received.times.keys(), 180), "some are lost"
        consumer.poll(2)
    finally:
        consumer.close()
    wrong = received.wrong(acknowledged)
    assert wrong["wrong"] == 0, (wrong, Counter(received.times.values()).most_common(2))

    async def left() -> dict[str, FileStatus]:
        store = await opened(hdfs, cluster.root)
        try:
            return await run_files(store, partition)
        finally:
            await store.close()

    numbers = {name.split("/")[0].removesuffix(".open") + "/" + name.split("/")[1] for name in killed}
    eventually(
        lambda: not numbers & {name.replace(".open/", "/") for name in outside_any_loop(left())},
        120,
        "runs that no manifest names are deleted",
    )
