"""Decides which partitions should move so that every node does its share, and why. Times are the loop's, in seconds.
Pure.

First the numbers: with as few moves as possible, live nodes that accept partitions own equally many, give or take one.
A partition goes back to its preferred node if it can, else to one of its replicas, and those of one topic stay spread.
Then the load: when a node carries much more than the average, hot partitions swap places with quiet ones until it is
only a little above (two limits, so that partitions do not go back and forth). Nothing moves twice within a cooldown,
and the number of moves at a time is limited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heapreplace
from itertools import islice
from typing import Final
from uuid import UUID

from bmq.controller.moves import Move
from bmq.controller.partition_reports import Rates
from bmq.dataclass import dataclass
from bmq.metadata.image import MetadataImage, Node, PartitionImage, TopicImage

Key = tuple[UUID, int]
IsMovable = Callable[[Key], bool]
RatesOf = Callable[[UUID, int], Rates]

REQUEST_WEIGHT_BYTES: Final = 2_000
"""The cost of a request besides its bytes, in bytes: small requests are not free."""


@dataclass(frozen=True, slots=True)
class BalancerLimits:
    """`*_share`: relief begins when a node carries this many times the average, and ends at the lower value."""

    cooldown_s: float = 30.0
    operator_cooldown_s: float = 600.0  # a partition stays where an operator put it for this long
    moves_min: int = 50
    moves_share: float = 0.05  # of all partitions, per round, if that is more than `moves_min`
    relief_from_share: float = 1.3
    relief_to_share: float = 1.1
    relief_bytes_s_min: float = 1_000_000.0  # above the average; less is not worth a move
    relief_moves_max: int = 4
    relief_interval_s: float = 5.0
    relief_pause_s: float = 10.0  # after a relief, until the fading averages show its effect


class Balancer:
    """Remembers its moves and whether it is relieving a node; everything else is computed anew each round."""

    def __init__(self, limits: BalancerLimits) -> None:
        self._limits = limits
        self._cooldown_until_s: dict[Key, float] = {}
        self._is_relieving = False
        self._next_relief_s: float | None = None

    def plan(self, image: MetadataImage, nodes: Mapping[int, Node], rates_of: RatesOf, now_s: float) -> Sequence[Move]:
        """The moves of this round; `nodes` are those that accept partitions. Call `moved` with moves carried out."""
        limits = self._limits
        self._cooldown_until_s = {key: until_s for key, until_s in self._cooldown_until_s.items() if now_s < until_s}
        moves_max = max(limits.moves_min, int(image.partition_count * limits.moves_share))

        def is_movable(key: Key) -> bool:
            return key not in self._cooldown_until_s

        moves = equalize(image, nodes, is_movable, moves_max)
        if moves:
            return moves
        if self._next_relief_s is not None and now_s < self._next_relief_s:
            return ()
        share = limits.relief_to_share if self._is_relieving else limits.relief_from_share
        moves = relieve(image, nodes, rates_of, is_movable, share, limits)
        self._is_relieving = bool(moves)
        self._next_relief_s = now_s + (limits.relief_pause_s if moves else limits.relief_interval_s)
        return moves

    def moved(self, moves: Sequence[Move], now_s: float) -> None:
        """These moves were carried out."""
        for move in moves:
            self._cooldown_until_s[move.topic_id, move.partition] = now_s + self._limits.cooldown_s

    def placed(self, keys: Iterable[Key], now_s: float) -> None:
        """An operator has placed these partitions where they are now."""
        self._cooldown_until_s.update((key, now_s + self._limits.operator_cooldown_s) for key in keys)


# --- numbers


def equalize(image: MetadataImage, nodes: Mapping[int, Node], is_movable: IsMovable, moves_max: int) -> Sequence[Move]:
    """The first `moves_max` of the moves that make the nodes' numbers of partitions differ by one at most."""
    counts = dict.fromkeys(nodes, 0)
    for topic in image.logs():
        for partition in topic.partitions:
            if partition.leader in counts:
                counts[partition.leader] += 1
    if not counts or max(counts.values()) - min(counts.values()) <= 1:
        return ()
    excess = _excess(counts)
    givers = {node: count for node, count in excess.items() if count > 0}
    takers = {node: -count for node, count in excess.items() if count < 0}
    owned = _owned(image, givers)
    spread = _TopicSpread(image, nodes)
    offers: dict[tuple[int, int], Iterator[tuple[TopicImage, PartitionImage]]] = {}
    taken = set[Key]()

    def offered(giver: int, taker: int) -> tuple[TopicImage, PartitionImage] | None:
        if (giver, taker) not in offers:
            offers[giver, taker] = _by_fitness(owned[giver], giver, taker, spread, is_movable, taken)
        return next(offers[giver, taker], None)

    return tuple(islice(_exchanges(givers, takers, counts, offered, spread, taken), moves_max))


def _excess(counts: Mapping[int, int]) -> dict[int, int]:
    """Surplus partitions of each node (negative: too few).

    The fullest nodes keep the remainder: that needs fewest moves.
    """
    share, odd = divmod(sum(counts.values()), len(counts))
    by_count = sorted(counts, key=lambda node: (-counts[node], node))
    return {node: counts[node] - share - (rank < odd) for rank, node in enumerate(by_count)}


def _exchanges(
    givers: dict[int, int],
    takers: dict[int, int],
    counts: Mapping[int, int],
    offered: Callable[[int, int], tuple[TopicImage, PartitionImage] | None],
    spread: _TopicSpread,
    taken: set[Key],
) -> Iterator[Move]:
    """Moves one by one, each from the node with the largest surplus to the one with the largest deficit."""
    exhausted = set[tuple[int, int]]()
    while givers:
        giver = max(givers, key=lambda node: (givers[node], -node))
        left = [node for node in takers if takers[node] > 0 and (giver, node) not in exhausted]
        if givers[giver] <= 0 or not left:
            del givers[giver]
            continue
        taker = max(left, key=lambda node: (takers[node], -node))
        found = offered(giver, taker)
        if found is None:
            exhausted.add((giver, taker))
            continue
        topic, partition = found
        taken.add((topic.topic_id, partition.partition))
        spread.move(topic.topic_id, giver, taker)
        givers[giver] -= 1
        takers[taker] -= 1
        reason = f"node {giver} owns {_partitions(counts[giver])}, node {taker} owns {counts[taker]}"
        yield Move(topic.topic_id, topic.name, partition.partition, giver, taker, reason)


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count} partitions"


class _TopicSpread:
    """How many partitions of each topic each node owns, including the moves planned so far."""

    def __init__(self, image: MetadataImage, nodes: Mapping[int, Node]) -> None:
        self._counts: dict[tuple[UUID, int], int] = {}
        for topic in image.logs():
            for partition in topic.partitions:
                if partition.leader in nodes:
                    key = (topic.topic_id, partition.leader)
                    self._counts[key] = self._counts.get(key, 0) + 1

    def gain(self, topic_id: UUID, giver: int, taker: int) -> int:
        """How much more evenly the topic is spread after a move from one to the other."""
        return self._counts.get((topic_id, giver), 0) - self._counts.get((topic_id, taker), 0)

    def move(self, topic_id: UUID, giver: int, taker: int) -> None:
        self._counts[topic_id, giver] = self._counts.get((topic_id, giver), 0) - 1
        self._counts[topic_id, taker] = self._counts.get((topic_id, taker), 0) + 1


def _owned(image: MetadataImage, givers: Mapping[int, int]) -> dict[int, list[tuple[TopicImage, PartitionImage]]]:
    owned: dict[int, list[tuple[TopicImage, PartitionImage]]] = {node: [] for node in givers}
    for topic in image.logs():
        for partition in topic.partitions:
            if partition.leader in owned:
                owned[partition.leader].append((topic, partition))
    return owned


def _by_fitness(
    owned: Sequence[tuple[TopicImage, PartitionImage]],
    giver: int,
    taker: int,
    spread: _TopicSpread,
    is_movable: IsMovable,
    taken: set[Key],
) -> Iterator[tuple[TopicImage, PartitionImage]]:
    """Partitions of `giver`, best moves first: `taker` is the preferred replica, then any replica, then neither. Among
    equals, topics of which `giver` owns many more partitions than `taker` come first; every move changes that order."""
    groups: dict[tuple[int, UUID], list[tuple[TopicImage, PartitionImage]]] = {}
    for topic, partition in reversed(owned):
        if is_movable((topic.topic_id, partition.partition)):
            replicas = partition.replicas
            rank = 0 if replicas[:1] == (taker,) else 1 if taker in replicas else 2
            groups.setdefault((rank, topic.topic_id), []).append((topic, partition))
    heap = [
        (rank, -spread.gain(topic_id, giver, taker), number, topic_id) for number, (rank, topic_id) in enumerate(groups)
    ]
    heapify(heap)
    while heap:
        rank, cost, number, topic_id = heap[0]
        group = groups[rank, topic_id]
        while group and (topic_id, group[-1][1].partition) in taken:
            group.pop()
        present = -spread.gain(topic_id, giver, taker)
        if not group:
            heappop(heap)
        elif present != cost:
            heapreplace(heap, (rank, present, number, topic_id))
        else:
            yield group.pop()


# --- load


def relieve(
    image: MetadataImage,
    nodes: Mapping[int, Node],
    rates_of: RatesOf,
    is_movable: IsMovable,
    share: float,
    limits: BalancerLimits,
) -> Sequence[Move]:
    """Moves that relieve nodes that carry more than `share` times the average, without making the numbers less even."""
    weights: dict[int, dict[Key, float]] = {node: {} for node in nodes}
    topics: dict[UUID, TopicImage] = {}
    for topic in image.logs():
        for partition in topic.partitions:
            if partition.leader in weights:
                topics[topic.topic_id] = topic
                weight = _weight(rates_of(topic.topic_id, partition.partition))
                weights[partition.leader][topic.topic_id, partition.partition] = weight
    if len(weights) < 2:
        return ()
    loads = {node: sum(of_node.values()) for node, of_node in weights.items()}
    average = sum(loads.values()) / len(loads)
    moves: list[Move] = []
    moved = set[Key]()
    while len(moves) < limits.relief_moves_max:
        hot = max(loads, key=loads.__getitem__)
        cold = min(loads, key=loads.__getitem__)
        if loads[hot] <= average * share or loads[hot] - average < limits.relief_bytes_s_min:
            break
        swap = _best_swap(weights[hot], weights[cold], loads[hot] - loads[cold], is_movable, moved)
        if swap is None:
            break
        for key, source, target in ((swap[0], hot, cold), (swap[1], cold, hot)):
            if key is None:
                continue
            why = f"node {hot} carries {loads[hot] / 1e6:.1f} MB/s, node {cold} {loads[cold] / 1e6:.1f} MB/s"
            reason = why if source == hot else f"{why}; in exchange for a busier one"
            moves.append(Move(key[0], topics[key[0]].name, key[1], source, target, reason))
            moved.add(key)
        for key, source, target in ((swap[0], hot, cold), (swap[1], cold, hot)):
            if key is not None:
                weight = weights[target][key] = weights[source].pop(key)
                loads[source] -= weight
                loads[target] += weight
    return tuple(moves)


def _weight(rates: Rates) -> float:
    return rates.bytes_in + rates.bytes_out + rates.requests * REQUEST_WEIGHT_BYTES


def _best_swap(
    hot: Mapping[Key, float], cold: Mapping[Key, float], gap: float, is_movable: IsMovable, moved: set[Key]
) -> tuple[Key, Key | None] | None:
    """The partition whose move brings the two nodes' loads closest together, and the cold node's quietest partition in
    return if the hot node does not own more. None when no move helps."""

    def movable(of_node: Mapping[Key, float]) -> list[Key]:
        return [key for key in of_node if is_movable(key) and key not in moved]

    needs_return = len(hot) <= len(cold)
    returns = movable(cold) if needs_return else []
    if needs_return and not returns:
        return None
    returned = min(returns, key=cold.__getitem__, default=None)
    returned_weight = 0.0 if returned is None else cold[returned]
    best = min(movable(hot), key=lambda key: abs(gap - 2 * (hot[key] - returned_weight)), default=None)
    if best is None or abs(gap - 2 * (hot[best] - returned_weight)) >= gap * 0.9:
        return None
    return best, returned
