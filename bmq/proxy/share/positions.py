"""Where members of share groups read on at this proxy, and those that wait for more: news of the state's shards.

Positions are hints that save a round trip: a shard alone decides what is acquired.
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
"""How long a shard is asked to wait for news."""
AGAIN_S: Final = 0.5
"""Until a shard that did not answer is asked again."""
AT_ONCE_S: Final = 0.05
"""The same of one that answered without news: one that stops does so at once."""
FULL: Final = -1
"""Of `next_offset`: too many records are locked."""


class Position:
    """`next_offset`: read from here; FULL. `version`: of the state that said so."""

    __slots__ = ("next_offset", "version")

    def __init__(self, next_offset: int, version: int) -> None:
        self.next_offset = next_offset
        self.version = version


class Positions:
    """The newest known positions. The least recently used are forgotten first."""

    def __init__(self, positions_max: int = POSITIONS_MAX) -> None:
        self._max = positions_max
        self._known: OrderedDict[PositionKey, Position] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: PositionKey) -> Position | None:
        return self._known.get(key)

    def put(self, key: PositionKey, next_offset: int, version: int, taken_offset: int = -1) -> bool:
        """A shard's answer, unless a newer one is known. True if others may find more than they were told.

        `taken_offset`: what lies below was to be acquired; others may be acquiring further on meanwhile.
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
        """What lies below is being acquired: others begin behind it."""
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
    """Fetches that wait until more can be acquired. A shard is asked once for all that wait for one partition.

    A question goes on when its fetch ends: the next one waits for the same answer. `call_later(s, work)`: the loop's.
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
        """What is known of the partition by those that wait; -1: none do."""
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
        """More than others were told can be acquired from here."""
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
