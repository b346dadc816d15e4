"""Suspects nodes that seem dead from here, shortly before the controller declares them dead.

A connection is kept to every other node of the metadata image. When it ends, the node is suspect until it can be
reached again, or has left the image. Meanwhile clients are sent elsewhere: a stand-in proxy queues their produces until
the partition has a new owner. A wrong guess costs only a network hop.

A node that was started again is shown as returning for a while: clients that tried to reach it while it was away wait
before they try again, librdkafka for up to 10 s (reconnect.backoff.max.ms), however soon it is back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import structlog

from bmq.internode_client.link import Link, LinkLost
from bmq.internode_client.links import Links
from bmq.membership.departures import Departures
from bmq.metadata.image import MetadataImage, Node

LINK_PURPOSE: Final = "watch"
RETURNING_S: Final = 10.0
"""librdkafka's reconnect.backoff.max.ms; Java clients wait for a second at most."""

_log = structlog.get_logger("bmq.membership")


class PeerWatch:
    """`image`: the newest one. `node_id` is ours and never suspect. `on_unreachable(node_id)`: called after each
    failed attempt to connect to a node."""

    def __init__(
        self,
        node_id: int,
        links: Links,
        image: Callable[[], MetadataImage],
        on_unreachable: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._node_id = node_id
        self._links = links
        self._image = image
        self._on_unreachable = on_unreachable
        self._unreachable: set[int] = set()
        self._loop = asyncio.get_running_loop()
        self._watches: dict[int, tuple[int, asyncio.Task[None]]] = {}  # node epoch, task
        self._suspects: frozenset[int] = frozenset()
        self._doubts = 0  # counts changes of the suspects and of the returning nodes
        self._seen: tuple[MetadataImage, int, MetadataImage] | None = None
        self._nodes: tuple[Mapping[int, Node], int, Mapping[int, Node]] | None = None
        self._newest: Mapping[int, Node] = {}
        self._epochs: dict[int, int] = {}  # the newest epoch of every node ever seen
        self._returning: dict[int, asyncio.TimerHandle] = {}
        self._departures = Departures()

    @property
    def suspects(self) -> frozenset[int]:
        return self._suspects

    @property
    def unreachable(self) -> frozenset[int]:
        """Suspects that could not be reached again."""
        return frozenset(self._unreachable)

    def visible_image(self) -> MetadataImage:
        """The image for clients, without suspects among its live nodes. The same object while nothing changes."""
        image = self._image()
        if not self._suspects and not self._returning:
            return image
        seen = self._seen
        if seen is None or seen[0] is not image or seen[1] != self._doubts:
            seen = self._seen = (image, self._doubts, replace(image, nodes=self._trusted(image.nodes)))
        return seen[2]

    def departed(self) -> tuple[Node, ...]:
        """Nodes that were visible until a moment ago. The same object while nothing changes."""
        return self._departures.recent(self.visible_image().nodes, self._loop.time())

    def nodes_changed(self, nodes: Mapping[int, Node]) -> None:
        """Called with the nodes of each new image."""
        for node_id, node in self._newest.items():
            if node_id not in nodes and node_id not in self._suspects:
                self._departures.left(node, self._loop.time())
        self._newest = nodes
        for node_id, (epoch, task) in list(self._watches.items()):
            if node_id not in nodes or nodes[node_id].epoch != epoch:
                task.cancel()
                del self._watches[node_id]
                self._trust(node_id)
        for node_id, node in nodes.items():
            if self._epochs.setdefault(node_id, node.epoch) != node.epoch:
                self._epochs[node_id] = node.epoch
                if node_id != self._node_id:
                    self._returned(node_id)
            if node_id != self._node_id and node_id not in self._watches:
                self._watches[node_id] = (node.epoch, self._loop.create_task(self._watch(node_id)))

    async def close(self) -> None:
        tasks = [task for _, task in self._watches.values()]
        self._watches = {}
        for timer in self._returning.values():
            timer.cancel()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _trusted(self, nodes: Mapping[int, Node]) -> Mapping[int, Node]:
        """The nodes without suspects.

        The same object while nothing changes: results computed from it are cached by identity.
        """
        known = self._nodes
        if known is None or known[0] is not nodes or known[1] != self._doubts:
            kept = {
                node_id: replace(node, is_returning=True) if node_id in self._returning else node
                for node_id, node in nodes.items()
                if node_id not in self._suspects
            }
            own = kept.get(self._node_id)
            if own is not None and self._suspects:
                # We may be the one that is cut off, so another proxy is the better stand-in for a suspect.
                kept[self._node_id] = replace(own, is_draining=True)
            known = self._nodes = (nodes, self._doubts, kept)
        return known[2]

    def _returned(self, node_id: int) -> None:
        """The node is back as another incarnation: show it as returning for RETURNING_S."""
        earlier = self._returning.pop(node_id, None)
        if earlier is not None:
            earlier.cancel()
        self._returning[node_id] = self._loop.call_later(RETURNING_S, self._settled, node_id)
        self._doubts += 1

    def _settled(self, node_id: int) -> None:
        del self._returning[node_id]
        self._doubts += 1

    async def _watch(self, node_id: int) -> None:
        while True:
            try:
                link = await self._links.link(node_id, LINK_PURPOSE)
            except LinkLost as error:
                self._suspect(node_id, str(error))
                self._unreachable.add(node_id)
                self._on_unreachable(node_id)
                # Links pause between attempts themselves; this yields to the loop if they refuse without an attempt.
                await asyncio.sleep(0)
                continue
            self._trust(node_id)
            await self._until_lost(link)
            self._suspect(node_id, "its connection was closed")

    async def _until_lost(self, link: Link) -> None:
        lost: asyncio.Future[None] = self._loop.create_future()
        link.on_lost(lambda: None if lost.done() else lost.set_result(None))
        await lost

    def _trust(self, node_id: int) -> None:
        self._unreachable.discard(node_id)
        if node_id in self._suspects:
            self._suspects -= {node_id}
            self._doubts += 1

    def _suspect(self, node_id: int, reason: str) -> None:
        if node_id not in self._suspects:
            self._suspects |= {node_id}
            self._doubts += 1
            node = self._newest.get(node_id)
            if node is not None:
                self._departures.left(node, self._loop.time())
            # A draining node closes its connections at the end of an ordered stop.
            tell = _log.info if node is not None and node.is_draining else _log.warning
            tell("node_suspected", suspected_node=node_id, reason=reason)
