"""Nodes that have just left: Metadata responses keep naming them for a while. Pure.

A client whose connection has just ended asks for metadata. librdkafka (since 2.10, its pull request 4557) tears down a
broker that is no longer named at once, along with partitions that the same answer gives to other brokers, and looks for
those again only after up to a second. While the broker is still named, they go to their new broker at once. Apache
Kafka's answers name a dead broker for as long as its session lasts. A departed node leads no partitions.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from bmq.metadata.image import Node

NAMED_S: Final = 3.0


class Departures:
    """Holds the nodes that left within NAMED_S; times in seconds on the caller's clock."""

    __slots__ = ("_left", "_shown")

    def __init__(self) -> None:
        self._left: dict[int, tuple[Node, float]] = {}  # node, and the time until which it is named
        self._shown: tuple[Node, ...] = ()

    def left(self, node: Node, now_s: float) -> None:
        self._left[node.node_id] = (node, now_s + NAMED_S)

    def recent(self, present: Container[int], now_s: float) -> tuple[Node, ...]:
        """Nodes that left a moment ago and are not in `present`. The same object while nothing changes."""
        if self._left:
            self._left = {node_id: left for node_id, left in self._left.items() if left[1] > now_s}
        shown = tuple(node for node_id, (node, _) in sorted(self._left.items()) if node_id not in present)
        if shown != self._shown:
            self._shown = shown
        return self._shown
