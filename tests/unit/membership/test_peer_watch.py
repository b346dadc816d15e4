"""Nodes that seem dead are not shown to clients, until they are reached again or the controller has spoken."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest
import structlog

from bmq.internode_client.link import LinkLost
from bmq.membership import peer_watch
from bmq.membership.peer_watch import PeerWatch
from bmq.metadata.image import MetadataImage, Node
from tests.unit.internode_client.waiting import until

pytestmark = pytest.mark.unit


class FakeLink:
    def __init__(self) -> None:
        self.lost: list[Callable[[], None]] = []

    def on_lost(self, lost: Callable[[], None]) -> None:
        self.lost.append(lost)

    def break_it(self) -> None:
        for lost in self.lost:
            lost()


class FakeLinks:
    """`down`: who refuses connections."""

    def __init__(self) -> None:
        self.down: set[int] = set()
        self.links: dict[int, FakeLink] = {}
        self.tries = 0

    async def link(self, node_id: int, purpose: str) -> FakeLink:
        assert purpose == "watch"
        self.tries += 1
        await asyncio.sleep(0)
        if node_id in self.down:
            raise LinkLost("refused")
        self.links[node_id] = FakeLink()
        return self.links[node_id]


class Setting:
    def __init__(self) -> None:
        self.links = FakeLinks()
        nodes = {n: Node(n, "h", n, epoch=5) for n in (1, 2, 3)}
        self.image = MetadataImage(offset=1, nodes=nodes)
        self.told: list[int] = []
        self.watch = PeerWatch(1, self.links, lambda: self.image, self.told.append)  # type: ignore[arg-type]
        self.watch.nodes_changed(nodes)

    async def until(self, condition: Callable[[], object]) -> None:
        await until(condition)

    def see(self, nodes: dict[int, Node]) -> None:
        self.image = replace(self.image, nodes=nodes, offset=self.image.offset + 1)
        self.watch.nodes_changed(nodes)


@pytest.fixture
async def setting() -> AsyncIterator[Setting]:
    made = Setting()
    await made.until(lambda: set(made.links.links) == {2, 3})
    yield made
    await made.watch.close()


async def test_all_are_trusted_at_first_and_the_image_is_itself(setting: Setting) -> None:
    assert setting.watch.visible_image() is setting.image
    assert 1 not in setting.links.links


async def test_a_lost_connection_hides_the_node_until_it_is_reached(setting: Setting) -> None:
    setting.links.down = {2}
    setting.links.links[2].break_it()
    await setting.until(lambda: setting.watch.suspects == {2})
    seen = setting.watch.visible_image()
    assert set(seen.nodes) == {1, 3} and seen.offset == setting.image.offset
    assert [node.node_id for node in seen.nodes.values() if node.is_draining] == [1]
    assert setting.watch.visible_image() is seen
    tries = setting.links.tries
    await setting.until(lambda: setting.links.tries > tries + 2)
    assert set(setting.told) == {2} and setting.watch.unreachable == {2}
    assert setting.watch.visible_image() is seen
    setting.links.down = set()
    await setting.until(lambda: not setting.watch.suspects)
    assert setting.watch.visible_image() is setting.image


async def test_a_connection_that_is_made_again_is_nobodys_business(setting: Setting) -> None:
    old = setting.links.links[2]
    old.break_it()
    await setting.until(lambda: setting.links.links[2] is not old and not setting.watch.suspects)
    assert setting.told == [] and not setting.watch.unreachable


async def test_newer_images_without_new_nodes_share_what_was_made_of_them(setting: Setting) -> None:
    setting.links.down = {2}
    setting.links.links[2].break_it()
    await setting.until(lambda: setting.watch.suspects == {2})
    before = setting.watch.visible_image()
    setting.image = replace(setting.image, offset=9)
    after = setting.watch.visible_image()
    assert after is not before and after.nodes is before.nodes and after.offset == 9


async def test_the_controllers_word_ends_the_suspicion(setting: Setting) -> None:
    setting.links.down = {2}
    setting.links.links[2].break_it()
    await setting.until(lambda: setting.watch.suspects == {2})
    setting.see({n: node for n, node in setting.image.nodes.items() if n != 2})
    assert not setting.watch.suspects and set(setting.watch.visible_image().nodes) == {1, 3}


async def test_a_new_incarnation_is_watched_anew(setting: Setting) -> None:
    setting.links.down = {2}
    setting.links.links[2].break_it()
    await setting.until(lambda: setting.watch.suspects == {2})
    setting.links.down = set()
    setting.see({**setting.image.nodes, 2: Node(2, "h", 2, epoch=9)})
    assert not setting.watch.suspects
    old = setting.links.links[2]
    await setting.until(lambda: setting.links.links[2] is not old)
    assert set(setting.watch.visible_image().nodes) == {1, 2, 3}


async def test_a_suspect_is_named_as_departed_until_it_is_back(setting: Setting) -> None:
    assert setting.watch.departed() == ()
    setting.links.down = {2}
    setting.links.links[2].break_it()
    await setting.until(lambda: setting.watch.suspects == {2})
    departed = setting.watch.departed()
    assert [node.node_id for node in departed] == [2] and setting.watch.departed() is departed
    setting.see({n: node for n, node in setting.image.nodes.items() if n != 2})
    assert setting.watch.departed() is departed
    setting.links.down = set()
    setting.see({**setting.image.nodes, 2: Node(2, "h", 22, epoch=9)})
    assert setting.watch.departed() == ()


async def test_a_node_that_the_controller_takes_out_is_named_as_departed(setting: Setting) -> None:
    setting.see({n: node for n, node in setting.image.nodes.items() if n != 3})
    assert [node.node_id for node in setting.watch.departed()] == [3]


async def test_a_node_that_was_started_again_is_shown_as_returning_for_a_while(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_watch, "RETURNING_S", 0.05)

    def returning() -> list[int]:
        return [node.node_id for node in setting.watch.visible_image().nodes.values() if node.is_returning]

    setting.see({n: node for n, node in setting.image.nodes.items() if n != 2})
    assert returning() == []
    setting.see({**setting.image.nodes, 2: Node(2, "h", 2, epoch=9), 4: Node(4, "h", 4, epoch=9)})
    seen = setting.watch.visible_image()
    assert returning() == [2] and setting.watch.visible_image() is seen  # 4 is new: no client waits for it
    assert not any(node.is_draining for node in seen.nodes.values())
    setting.see({**setting.image.nodes, 3: Node(3, "h", 3, epoch=11)})
    assert sorted(returning()) == [2, 3]
    await setting.until(lambda: setting.watch.visible_image() is setting.image)


async def test_one_that_returns_twice_is_returning_from_the_second_time_on(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_watch, "RETURNING_S", 60.0)
    setting.see({**setting.image.nodes, 2: Node(2, "h", 2, epoch=9)})
    monkeypatch.setattr(peer_watch, "RETURNING_S", 0.01)
    setting.see({**setting.image.nodes, 2: Node(2, "h", 2, epoch=12)})
    await setting.until(lambda: setting.watch.visible_image() is setting.image)


async def test_a_suspect_that_was_reached_again_is_not_returning(setting: Setting) -> None:
    setting.links.down = {2}
    setting.links.links[2].break_it()
    await setting.until(lambda: setting.watch.suspects == {2})
    setting.links.down = set()
    await setting.until(lambda: not setting.watch.suspects)
    assert setting.watch.visible_image() is setting.image


@pytest.mark.parametrize(("is_draining", "level"), [(False, "warning"), (True, "info")])
async def test_a_node_that_is_stopped_in_order_is_suspected_without_a_warning(
    setting: Setting, is_draining: bool, level: str
) -> None:
    nodes = {n: replace(node, is_draining=is_draining and n == 2) for n, node in setting.image.nodes.items()}
    setting.image = replace(setting.image, nodes=nodes)
    setting.watch.nodes_changed(nodes)
    await setting.until(lambda: 2 in setting.links.links)
    setting.links.down = {2}
    with structlog.testing.capture_logs() as lines:
        setting.links.links[2].break_it()
        await setting.until(lambda: setting.watch.suspects == {2})
    assert [(line["log_level"], line["event"]) for line in lines] == [(level, "node_suspected")]
