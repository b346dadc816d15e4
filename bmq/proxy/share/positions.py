"""The positions at which share groups read on at this proxy, and the fetches that wait until more can be acquired.

Positions are hints that save a round trip: only a shard decides which records are acquired.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Final

from bmq.log.partition_log import TopicPartition
from bmq.protocol.errors import KafkaError
from bmq.protocol.share_state_messages import ShareWaitRequest, WaitPartition
from bmq.proxy.share.states import ShareStates

PositionKey = tuple[str, TopicPartition]
"""(group id, partition)"""
Wake = Callable[[], None]

POSITIONS_MAX: Final = 200_000
POLL_MS: Final = 10_000
"""How long a shard waits for news before it answers a question."""
AGAIN_S: Final = 0.5
"""Pause before a shard that did not answer is asked again."""
AT_ONCE_S: Final = 0.05
"""Pause before a shard that answered without news is asked again: a shard that stops answers at once."""
FULL: Final = -1
"""The `next_offset` of a partition in which too many records are locked."""


class Position:
    """A position. `next_offset`: where to read on, or FULL. `version`: version of the shard's state that it is from."""

    __slots__ = ("next_offset", "version")

    def __init__(self, next_offset: int, version: int) -> None:
        self.next_offset = next_offset
        self.version = version


class Positions:
    """The newest known positions. The least recently used ones are forgotten first."""

    def __init__(self, positions_max: int = POSITIONS_MAX) -> None:
        self._max = positions_max
        self._known: OrderedDict[PositionKey, Position] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: PositionKey) -> Position | None:
        return self._known.get(key)

    def put(self, key: PositionKey, next_offset: int, version: int, taken_offset: int = -1) -> bool:
        """Note a shard's answer, unless a newer one is known. Returns whether others may find more than at the last position.

        `taken_offset`: the request tried to acquire records below it; others may be acquiring records behind it meanwhile.
        """
        known = self._known.get(key)
        if known is None:
            self._known[key] = Position(next_offset, version)
            if len(self._known) > self._max:
                self._known.popitem(last=False)
            return False
        if version < known.version:
            return False
        before_offset = known.next_offset
        is_as_expected = 0 <= taken_offset <= next_offset
        known.next_offset = max(before_offset, next_offset) if is_as_expected else next_offset
        known.version = version
        self._known.move_to_end(key)
        return next_offset != FULL and (before_offset == FULL or known.next_offset < before_offset)

    def pass_on(self, key: PositionKey, next_offset: int) -> None:
        """Note that records below `next_offset` are being acquired, so that others begin behind them."""
        known = self._known.get(key)
        if known is not None:
            known.next_offset = max(known.next_offset, next_offset)

    def forget(self, key: PositionKey) -> None:
        self._known.pop(key, None)


class _Watched:
    __slots__ = ("is_asked", "version", "wakes")

    def __init__(self, version: int) -> None:
        self.version = version
        self.is_asked = False
        self.wakes: dict[Wake, None] = {}


class ShareWaits:
    """Fetches that wait until more can be acquired. One question to a shard serves all fetches that wait for a partition.

    A question stays open when its fetch ends, and the next fetch waits for its answer. `call_later(s, work)`: the event loop's.
    """

    def __init__(
        self,
        states: ShareStates,
        positions: Positions,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        call_later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        self._states = states
        self._positions = positions
        self._spawn = spawn
        self._call_later = call_later
        self._watched: dict[PositionKey, _Watched] = {}
        self._unasked: dict[PositionKey, None] = {}
        self._is_asking_soon = False

    def __len__(self) -> int:
        return len(self._watched)

    def add(self, key: PositionKey, version: int, wake: Wake) -> None:
        """Call `wake` once when more can be acquired than at `version`, unless it is discarded before."""
        watched = self._watched.get(key)
        if watched is None:
            watched = self._watched[key] = _Watched(version)
        watched.version = max(watched.version, version)
        watched.wakes[wake] = None
        if not watched.is_asked:
            self._ask_soon(key, 0.0)

    def version_of(self, key: PositionKey) -> int:
        """The version of the partition's state that waiting fetches know; -1 if none waits."""
        watched = self._watched.get(key)
        return -1 if watched is None else watched.version

    def discard(self, key: PositionKey, wake: Wake) -> None:
        watched = self._watched.get(key)
        if watched is not None:
            watched.wakes.pop(wake, None)
            if not watched.wakes and not watched.is_asked:
                del self._watched[key]
                self._unasked.pop(key, None)

    def wake(self, key: PositionKey) -> None:
        """Wake the fetches that wait for this partition, because more can be acquired than they know."""
        watched = self._watched.get(key)
        if watched is not None:
            wakes, watched.wakes = watched.wakes, {}
            for one in wakes:
                one()

    def _ask_soon(self, key: PositionKey, after_s: float) -> None:
        self._unasked[key] = None
        if not self._is_asking_soon:
            self._is_asking_soon = True
            self._call_later(after_s, self._ask)

    def _ask(self) -> None:
        self._is_asking_soon = False
        unasked, self._unasked = self._unasked, {}
        by_place: dict[Hashable, list[PositionKey]] = {}
        for key in unasked:
            watched = self._watched.get(key)
            if watched is not None and not watched.is_asked:
                watched.is_asked = True
                by_place.setdefault(self._states.place_of(*key), []).append(key)
        for keys in by_place.values():
            self._spawn(self._poll(keys))

    async def _poll(self, keys: list[PositionKey]) -> None:
        request = ShareWaitRequest(
            max_wait_ms=POLL_MS,
            partitions=[
                WaitPartition(
                    group_id=group_id,
                    topic_id=topic_partition.topic_id,
                    partition=topic_partition.partition,
                    version=self._watched[group_id, topic_partition].version,
                )
                for group_id, topic_partition in keys
            ],
        )
        again_s = AT_ONCE_S
        news: dict[PositionKey, int] = {}
        try:
            response = await self._states.wait(request)
            for one in response.partitions:
                news[one.group_id, TopicPartition(one.topic_id, one.partition)] = one.error_code
            if response.error_code or any(news.values()):
                again_s = AGAIN_S
            elif news:
                again_s = 0.0
        except KafkaError:
            again_s = AGAIN_S
        finally:
            for key in keys:
                self._watched[key].is_asked = False
        for key in keys:
            if key in news and not news[key]:
                self._positions.forget(key)
                self.wake(key)
            if self._watched[key].wakes:
                self._ask_soon(key, again_s)
            else:
                del self._watched[key]
                self._unasked.pop(key, None)
