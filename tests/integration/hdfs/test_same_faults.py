"""The fake store is HDFS when DataNodes die, hang and return and when clients die: the same seeded histories end the same."""

from __future__ import annotations

import os
from collections.abc import Iterator
from random import Random

import pytest

from bmq.dev.hdfs import HdfsCluster
from bmq.hdfs.config import HdfsConfig
from bmq.hdfs.store import HdfsStore
from bmq.log.store import SegmentStore
from testing.hdfs import (
    PATIENT_WITH_PAUSED,
    config_of,
    fresh_root,
    is_heard,
    new_cluster,
    outside_any_loop,
    running,
    until,
)
from tests.unit.log_store.hurt_histories import NODES, play_hurt
from tests.unit.log_store.rivals import CLIENTS

pytestmark = [pytest.mark.campaign("hdfs-faults"), pytest.mark.timeout(600), pytest.mark.safety]

SEEDS = 60 if os.environ.get("HYPOTHESIS_PROFILE") == "deep" else 4
LENGTH = 25
NODE_BACK_WITHIN_S = 60.0
REPLICATED_WITHIN_S = 60.0
# Each call to a node that hangs costs as much, and a node that does not is to answer in that time on a busy machine, too.
ACK_TIMEOUT_S = 4.0


class HdfsSite:
    """A site of hurt_histories.py. All nodes run when it is made; `end` sees to it that they do so again."""

    def __init__(self, cluster: HdfsCluster, config: HdfsConfig) -> None:
        self.clients: list[SegmentStore] = []
        self._cluster = cluster
        self._config = config
        self._stores: list[HdfsStore] = []

    async def start(self) -> None:
        for number in range(CLIENTS):
            self._stores.append(await HdfsStore.open(self._config, Random(number)))
        self.clients[:] = self._stores

    async def end(self) -> None:
        for store in self._stores:
            await store.close()
        for node in range(NODES):
            if self._cluster.datanode(node).state != "running":
                await self.bring_back(node)

    async def lose(self, node: int) -> None:
        await self._cluster.datanode(node).kill()

    async def hang(self, node: int) -> None:
        await self._cluster.datanode(node).pause()

    async def bring_back(self, node: int) -> None:
        daemon = self._cluster.datanode(node)
        if daemon.is_paused:
            await daemon.resume()
        else:
            await daemon.start()
        await until(lambda: self._is_heard(node), NODE_BACK_WITHIN_S, f"{daemon.name} serves again")

    async def die(self, client: int) -> None:
        """What a process leaves that was killed: connections that end, and nothing else."""
        await self._stores[client].close()
        self._stores[client] = await HdfsStore.open(self._config, Random())
        self.clients[client] = self._stores[client]

    async def _is_heard(self, node: int) -> bool:
        """The NameNode places blocks there, and no client leaves it out any more."""
        is_fresh = await is_heard(self._cluster, self._cluster.datanodes[node])
        return is_fresh and not any(store.bad_nodes.current() for store in self._stores)


@pytest.fixture(scope="module")
def hurt_hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsCluster]:
    with running(new_cluster(tmp_path_factory.mktemp("hurt"), datanodes=NODES)) as cluster:
        yield cluster


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_hurt_history_ends_the_same_on_the_fake_and_on_hdfs(seed: int, hurt_hdfs: HdfsCluster) -> None:
    patience = {**PATIENT_WITH_PAUSED, "ack_timeout_s": ACK_TIMEOUT_S}
    config = config_of(hurt_hdfs, fresh_root(f"hurt-{seed}"), **patience, bad_node_expiry_s=0.5)  # type: ignore[arg-type]

    async def play() -> dict[str, int]:
        site = HdfsSite(hurt_hdfs, config)
        try:
            await site.start()
            return await play_hurt(seed, site, length=LENGTH, patience_s=REPLICATED_WITHIN_S)
        finally:
            await site.end()

    # Daemons die with the thread that started them, so they are started again from this one.
    assert outside_any_loop(play()).keys() & {"lose", "hang"}
