"""What the watches of two threads can do to the list of members: news that overtakes what was read before it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bmq.election.election import Member
from bmq.election.zookeeper_layout import Layout, encoded
from bmq.election.zookeeper_members import ZooKeeperMembers
from bmq.election.zookeeper_session import ZooKeeperSession

pytestmark = pytest.mark.unit

Watch = Callable[[str | None], None]


class ScriptedZooKeeper:
    """Implements what ZooKeeperMembers uses of a session and of kazoo's client. `before_answer`: run once before a `get`."""

    number = 0
    id = 5
    connection_number = 1
    is_connected = True

    def __init__(self) -> None:
        self.nodes: dict[str, tuple[bytes, int]] = {}
        self.reads: list[str] = []
        self.before_answer: Callable[[str, Watch], None] | None = None

    def watch(self, seen: Watch) -> Watch:
        return seen

    async def ask(self, order: Callable[[Any], Any], *, number: int | None = None) -> Any:
        await asyncio.sleep(0)
        return order(self)

    def get_children_async(self, path: str, watch: Watch) -> list[str]:
        return [name.removeprefix(f"{path}/") for name in self.nodes]

    def get_async(self, path: str, watch: Watch) -> tuple[bytes, Any]:
        self.reads.append(path)
        data, owner = self.nodes[path]
        if self.before_answer is not None:
            before, self.before_answer = self.before_answer, None
            before(path, watch)
        return data, SimpleNamespace(ephemeralOwner=owner)


def entry(node_id: int, incarnation: str) -> tuple[bytes, int]:
    return encoded(Member(node_id, incarnation, "h", 1)), 100 + node_id


async def test_news_that_overtakes_an_answer_is_not_forgotten() -> None:
    zookeeper = ScriptedZooKeeper()
    looks: list[None] = []
    members = ZooKeeperMembers(
        cast(ZooKeeperSession, zookeeper), Layout("/bmq"), 6.0, ask_for_look=lambda: looks.append(None)
    )
    zookeeper.nodes = {"/bmq/nodes/1": entry(1, "a"), "/bmq/nodes/2": entry(2, "a")}

    def replace(path: str, watch: Watch) -> None:
        zookeeper.nodes[path] = entry(1, "b")
        watch(path)

    zookeeper.before_answer = replace
    await members.look(0)
    assert len(looks) == 1
    await members.look(0)
    assert {node_id: member.incarnation for node_id, member in members.members.items()} == {1: "b", 2: "a"}


async def test_what_has_a_watch_is_read_once() -> None:
    zookeeper = ScriptedZooKeeper()
    members = ZooKeeperMembers(cast(ZooKeeperSession, zookeeper), Layout(""), 6.0, ask_for_look=lambda: None)
    zookeeper.nodes = {f"/nodes/{node_id}": entry(node_id, "a") for node_id in range(50)}
    for _ in range(3):
        await members.look(0)
    assert len(zookeeper.reads) == 50
    zookeeper.connection_number += 1
    await members.look(0)
    assert len(zookeeper.reads) == 100
