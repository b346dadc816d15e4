"""Nodes that clients were sent to until a moment ago: their Metadata goes on naming these for a while. Pure.

A client whose connection has just ended asks for metadata. librdkafka (since 2.10, its pull request 4557) takes a broker
that is not named any more apart at once, along with partitions that the same answer gives to other brokers, and looks for
those again only after up to a second. While the broker is still named, they go to their new one at once. Apache Kafka's
answers name a dead broker for as long as its session lasts. Nothing is led by a departed node.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from bmq.metadata.image import Node

NAMED_S: Final = 3.0


class Departures:
    """Bounded by the nodes that leave within NAMED_S; times in seconds on the caller's clock."""

    __slots__ = ("_left", "_shown")

    def __init__(self) -> None:
        self._left: dict[int, tuple[Node, float]] = {}  # and until when it is named
        self._shown: tuple[Node, ...] = ()

    def left(self, node: Node, now_s: float) -> None:
        self._left[node.node_id] = (node, now_s + NAMED_S)

    def recent(self, present: Container[int], now_s: float) -> tuple[Node, ...]:
        """Those that left a moment ago and are not among the node ids `present`. The same object while nothing changes."""
        if self._left:
            self._left = {node_id: left for node_id, left in self._left.items() if left[1] > now_s}
        shown = tuple(node for node_id, (node, _) in sorted(self._left.items()) if node_id not in present)
        if shown != self._shown:
            self._shown = shown
        return self._shown
