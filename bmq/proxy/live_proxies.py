"""The live proxies of a metadata image, and the stand-in for each partition whose owner's node has no proxy. Pure.

The stand-in is chosen by rendezvous hashing: every proxy names the same one, its caches stay warm, and a proxy that comes or goes
changes only its own partitions. Choices are cached in a dict.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from bmq.log.partition_log import TopicPartition
from bmq.metadata.image import NO_LEADER, ROLE_PROXY, MetadataImage, Node

_CHOICES_MAX: Final = 200_000
_PICTURES_MAX: Final = 16
_MASK: Final = 2**64 - 1
_ODD: Final = 0x94D049BB133111EB


class Proxies:
    """The proxies among `nodes`. `by_id`: all of them, sorted by id.

    Clients may connect to a draining proxy, but it is not chosen as a stand-in unless all are draining. The same is true of a
    `returning` proxy: clients that knew it may not reconnect to it for some seconds.
    """

    def __init__(self, nodes: Mapping[int, Node]) -> None:
        self.by_id: dict[int, Node] = {n: node for n, node in sorted(nodes.items()) if ROLE_PROXY in node.roles}
        there = [node for node in self.by_id.values() if not node.is_returning] or list(self.by_id.values())
        self.returning = frozenset(self.by_id.keys() - {node.node_id for node in there})
        staying = [node for node in there if not node.is_draining]
        self._eligible = tuple(staying or there)
        racks = {node.rack for node in self._eligible if node.rack is not None}
        self._by_rack = {rack: tuple(node for node in self._eligible if node.rack == rack) for rack in racks}
        self._salted: dict[str | None, list[tuple[int, int]]] = {rack: _salted(n) for rack, n in self._by_rack.items()}
        self._salted[None] = _salted(self._eligible)
        self._stand_ins: dict[tuple[TopicPartition, str | None], int] = {}

    def in_rack(self, rack: str) -> tuple[Node, ...]:
        """The eligible proxies in this rack."""
        return self._by_rack.get(rack, ())

    def stand_in(self, key: TopicPartition, rack: str | None) -> int:
        """The stand-in for this partition, in this rack if the rack has a proxy; NO_LEADER without any proxy."""
        chosen = self._stand_ins.get((key, rack))
        if chosen is None:
            chosen = _highest(key, self._salted.get(rack) or self._salted[None])
            if len(self._stand_ins) < _CHOICES_MAX:
                self._stand_ins[(key, rack)] = chosen
        return chosen

    def anyone(self) -> int:
        """One eligible proxy, the same for all callers; NO_LEADER without any."""
        return self._eligible[0].node_id if self._eligible else NO_LEADER


class _Pictures:
    """A cache of Proxies by the id() of an image's nodes: one entry per process, more in a simulation of many nodes.

    The nodes are kept as well, so that their id() is not used again.
    """

    def __init__(self) -> None:
        self._found: dict[int, tuple[Mapping[int, Node], Proxies]] = {}

    def of(self, nodes: Mapping[int, Node]) -> Proxies:
        found = self._found.get(id(nodes))
        if found is None:
            if len(self._found) >= _PICTURES_MAX:
                del self._found[next(iter(self._found))]
            found = self._found[id(nodes)] = (nodes, Proxies(nodes))
        return found[1]


_pictures: Final = _Pictures()


def proxies_of(image: MetadataImage) -> Proxies:
    """The image's live proxies; images share them while no node changes."""
    return _pictures.of(image.nodes)


def rendezvous(key: TopicPartition, nodes: Iterable[Node]) -> int:
    """The node with the highest score for this key, the same in every process; NO_LEADER when there is none."""
    return _highest(key, _salted(nodes))


def _salted(nodes: Iterable[Node]) -> list[tuple[int, int]]:
    return [(_mixed(node.node_id), node.node_id) for node in nodes]


def _highest(key: TopicPartition, salted: Sequence[tuple[int, int]]) -> int:
    topic = key.topic_id.int
    seed = _mixed(_mixed(topic ^ (topic >> 64)) + key.partition)
    # One multiplication per node: tens of thousands of partitions may need a proxy at once.
    scored = [(((seed ^ salt) * _ODD) & _MASK, node_id) for salt, node_id in salted]
    return max(scored)[1] if scored else NO_LEADER


def _mixed(value: int) -> int:
    """SplitMix64's step: each bit of the input moves about half of the output's."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * _ODD) & _MASK
    return value ^ (value >> 31)
