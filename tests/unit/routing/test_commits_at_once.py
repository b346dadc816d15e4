"""Commits without a task behind any proxy: when they may be, in their committer's turn, and when the group moves under them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from bmq.protocol import codec
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.hot_commit import Committed, PlainCommit, PlainTopic
from tests.unit.routing.group_cluster import GroupClient, GroupCluster, asking, virtual

pytestmark = pytest.mark.unit


class Peer:
    """A client's connection; `lose` it, and what was begun for it ends."""

    age_s = 0.0

    def __init__(self) -> None:
        self.tasks: list[asyncio.Task[None]] = []
        self.is_lost = False

    def on_lost(self, lost: Callable[[], None]) -> None: ...

    def begin(self, work: Coroutine[Any, Any, None], ended: Callable[[], None] | None = None) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.append(task)
        if ended is not None:
            task.add_done_callback(lambda _: ended())
        if self.is_lost:
            task.cancel()

    def lose(self) -> None:
        self.is_lost = True
        for task in self.tasks:
            task.cancel()


class Committing:
    """One client's commits; `codes`: of those that are answered, in the order of the answers."""

    def __init__(self, client: GroupClient, group_id: str) -> None:
        self.peer = Peer()
        self.codes: list[int] = []
        self.age_s = 0.0
        self._client = client
        self._group_id = group_id

    def at_once(self, offset: int) -> bool:
        asked = PlainCommit(9, self._group_id, -1, "", None, (PlainTopic("t", (0,)),), [Committed((offset,), (-1,))])
        context = replace(asking(9), peer=self.peer)

        def done(_: ErrorCode, body: bytes) -> None:
            answer = codec.decode("response", ApiKey.OFFSET_COMMIT, 9, body)
            self.codes.append(answer.topics[0].partitions[0].error_code)

        received_s = asyncio.get_running_loop().time() - self.age_s
        return self._client.groups.commit_at_once(asked, context, received_s, done)


def told(story: Callable[[GroupCluster, GroupClient, Committing], Coroutine[Any, Any, None]], owner: int = 1) -> None:
    """Run a story on virtual time, with a client of proxy 1 and a group of `owner` that has committed 0."""

    async def main() -> None:
        cluster = GroupCluster()
        client = GroupClient(cluster.nodes[1].groups)
        group_id = cluster.group_at(owner)
        assert await client.commit(group_id, 0) == 0
        await story(cluster, client, Committing(client, group_id))
        assert not client.groups._begun and not client.groups._turns
        await cluster.close()

    virtual(main)


def test_at_the_owner() -> None:
    async def story(cluster: GroupCluster, client: GroupClient, committing: Committing) -> None:
        assert committing.at_once(5)
        await asyncio.sleep(0.1)
        assert committing.codes == [0] and await client.fetch(cluster.group_at(1)) == [(0, 5)]

    told(story)


def test_not_elsewhere() -> None:
    async def story(cluster: GroupCluster, client: GroupClient, committing: Committing) -> None:
        assert not committing.at_once(5)

    told(story, owner=2)


def test_not_when_it_is_old() -> None:
    async def story(cluster: GroupCluster, client: GroupClient, committing: Committing) -> None:
        committing.age_s = 10.1
        assert not committing.at_once(5)
        committing.age_s = 9.9
        assert committing.at_once(6)
        await asyncio.sleep(0.1)

    told(story)


def test_one_after_another() -> None:
    async def story(cluster: GroupCluster, client: GroupClient, committing: Committing) -> None:
        group_id = cluster.group_at(1)
        log = cluster.logs[cluster.shard(group_id)]
        log.is_acknowledging = False
        assert committing.at_once(1)
        assert not committing.at_once(2)
        behind = asyncio.ensure_future(client.commit(group_id, 2))
        await asyncio.sleep(0.1)
        assert log.pending_count == 1 and not committing.at_once(3)
        log.is_acknowledging = True
        log.acknowledge()
        assert await behind == 0
        assert committing.codes == [0] and await client.fetch(group_id) == [(0, 2)]

    told(story)


def test_a_commit_behind_it_waits_no_longer_than_others() -> None:
    async def story(cluster: GroupCluster, client: GroupClient, committing: Committing) -> None:
        group_id = cluster.group_at(1)
        log = cluster.logs[cluster.shard(group_id)]
        log.is_acknowledging = False
        assert committing.at_once(1)
        for _ in range(2):
            assert await client.commit(group_id, 2) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        behind = asyncio.ensure_future(client.commit(group_id, 3))
        await asyncio.sleep(0.1)
        log.is_acknowledging = True
        log.acknowledge()
        assert await behind == 0
        assert await client.fetch(group_id) == [(0, 3)]

    told(story)


def test_a_commit_that_is_repeated_never_undoes_a_later_one() -> None:
    async def story(cluster: GroupCluster, client: GroupClient, committing: Committing) -> None:
        group_id = cluster.group_at(1)
        log = cluster.logs[cluster.shard(group_id)]
        log.is_acknowledging = False
        assert committing.at_once(1)
        behind = asyncio.ensure_future(client.commit(group_id, 2))
        await asyncio.sleep(0.01)
        log.is_acknowledging = True
        log.fail_pending(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        assert committing.codes == [] and not committing.at_once(3)
        await asyncio.sleep(1)
        assert committing.codes == [0] and await behind == 0
        assert await client.fetch(group_id) == [(0, 2)]

    told(story)


def test_nothing_is_repeated_for_a_client_that_has_left() -> None:
    async def story(cluster: GroupCluster, client: GroupClient, committing: Committing) -> None:
        group_id = cluster.group_at(1)
        log = cluster.logs[cluster.shard(group_id)]
        log.is_acknowledging = False
        assert committing.at_once(1)
        await asyncio.sleep(0.01)
        committing.peer.lose()
        log.is_acknowledging = True
        log.fail_pending(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        await asyncio.sleep(10)
        assert committing.codes == [] and await client.fetch(group_id) == [(0, 0)]

    told(story)
