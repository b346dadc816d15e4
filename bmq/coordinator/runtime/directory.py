"""Maps keys to shards, and holds this process's shards: loaded on first use, dropped when lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, Generic, Protocol, TypeVar

import structlog

from bmq.coordinator.runtime.log_errors import coordinator_error
from bmq.coordinator.runtime.shard import Shard
from bmq.log.partition_log import ReplayableLog
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError

REMEMBERED_KEY_MAX: Final = 256
"""Longest key, in characters, whose shard is cached: for longer ones the memory costs more than the time saved."""

_log = structlog.get_logger("bmq.coordinator")

S = TypeVar("S", bound=Shard)
MakeShard = Callable[[int, ReplayableLog, Callable[[S], None]], S]
"""(number, the partition's log, callback for when the shard is lost)"""


class Shards(Protocol):
    """The partitions of the topic that holds a state machine's log, as the wiring provides them."""

    def partition_count(self) -> int:
        """Never changes once the topic exists."""

    def owned(self) -> Sequence[int]:
        """The partitions that this process owns, as far as it knows."""

    def inherited(self) -> Sequence[int]:
        """Those of them that had an owner before, so their logs may hold something; the likeliest first."""

    async def open(self, shard: int, *, is_awaited: bool) -> ReplayableLog:
        """The partition's log, open for writing. A single process creates the topic on first use, a cluster's node does
        not. `is_awaited`: a request waits for it, so it passes those for which none does.

        Raises KafkaError (NOT_LEADER_OR_FOLLOWER: it has another owner), StoreError.
        """

    def ask(self, shard: int) -> None:
        """A request waits now for a shard that is being opened."""


class LoadLimits(Protocol):
    """`load_wait_max_ms`: how long a request waits for its shard to load. `shards_loading_max`: concurrent loads."""

    @property
    def load_wait_max_ms(self) -> int: ...
    @property
    def shards_loading_max(self) -> int: ...


def shard_of(key: str, count: int) -> int:
    """Kafka's `Utils.abs(key.hashCode()) % count`, so that a group has the same partition as in Kafka."""
    return _known_shard_of(key, count) if len(key) <= REMEMBERED_KEY_MAX else _shard_of(key, count)


def _shard_of(key: str, count: int) -> int:
    units = key.encode("utf-16-be", "surrogatepass")
    value = 0
    for position in range(0, len(units), 2):
        value = (31 * value + (units[position] << 8 | units[position + 1])) & 0xFFFF_FFFF
    if value >= 0x8000_0000:
        # Java's Math.abs cannot negate the smallest int; Kafka uses 0 for it.
        value = 0 if value == 0x8000_0000 else 0x1_0000_0000 - value
    return value % count


_known_shard_of = lru_cache(maxsize=65_536)(_shard_of)


class ShardDirectory(Generic[S]):
    """The shards by number. `kind`: what kind of shard, for log lines.

    Requests get a shard in the order in which they asked: one that comes just after the shard was loaded stays behind
    those that waited. Otherwise a commit could overtake an older one that its client has given up meanwhile.
    `lost`: called with the number of each shard that is lost here, loaded or loading.
    """

    def __init__(
        self,
        kind: str,
        shards: Shards,
        make: MakeShard[S],
        config: LoadLimits,
        lost: Callable[[int], None] = lambda number: None,
    ) -> None:
        self.ready: dict[int, S] = {}
        self.config = config
        self._kind = kind
        self._shards = shards
        self._make = make
        self._when_lost = lost
        self._loads: dict[int, asyncio.Task[S | ErrorCode]] = {}
        self._awaited: set[int] = set()  # those of them that a request waits for
        self._queues: dict[int, dict[object, None]] = {}  # requests that wait for a shard, in order
        self._slots = asyncio.Semaphore(config.shards_loading_max)
        self._is_closed = False
        self._logged_codes: dict[int, ErrorCode] = {}  # last logged reason why a shard could not be loaded
        self._reasons: dict[int, str] = {}  # the same as a sentence, for operators

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def reason_of(self, number: int) -> str | None:
        """Why the shard could not be loaded the last time; None: it could, or was not asked for."""
        return self._reasons.get(number)

    def is_ready(self, number: int) -> bool:
        """Whether the shard is loaded."""
        return number in self.ready

    def number_of(self, key: str) -> int:
        return shard_of(key, self._shards.partition_count())

    def find(self, key: str) -> S | None:
        """The shard of a key if it is loaded and no request waits for it any more: the fast path."""
        return self._at_once(shard_of(key, self._shards.partition_count()))

    async def get(self, key: str) -> S:
        """The shard of a key, loaded if need be. Raises KafkaError with a code for the client."""
        number = self.number_of(key)
        return self._at_once(number) or await self.load(number)

    async def all(self) -> list[S]:
        """Every shard that we own. Raises KafkaError if one cannot be loaded now."""
        shards = await asyncio.gather(*(self.load(number) for number in self._shards.owned()))
        if any(shard.is_lost for shard in shards):
            raise KafkaError(ErrorCode.NOT_COORDINATOR, "another process has a shard now")
        return shards

    async def load(self, number: int, *, is_awaited: bool = True) -> S:
        """Wait for a shard up to `load_wait_max_ms`; loading goes on in the background. Raises KafkaError.

        `is_awaited`: False for one that no request has asked for. Its partition lets those pass that are asked for.
        """
        shard = self._at_once(number)
        if shard is not None:
            return shard
        queue, place = self._queues.setdefault(number, {}), object()
        queue[place] = None
        try:
            loaded = self.ready.get(number) or await self._load(number, is_awaited=is_awaited)
            while next(iter(queue)) is not place:  # noqa: ASYNC110 -- they go on within a few turns of the event loop
                await asyncio.sleep(0)
        finally:
            del queue[place]
            if not queue:
                del self._queues[number]
        if loaded.is_lost:  # lost right after loading: requests to it would never be answered
            raise KafkaError(ErrorCode.NOT_COORDINATOR, "another process has the shard now")
        return loaded

    async def _load(self, number: int, *, is_awaited: bool) -> S:
        if self._is_closed:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator is stopping")
        task = self._loads.get(number)
        if is_awaited and number not in self._awaited:
            self._awaited.add(number)
            if task is not None:
                self._shards.ask(number)
        if task is None:
            task = self._loads[number] = asyncio.get_running_loop().create_task(self._open(number))
            task.add_done_callback(lambda done: self._loaded(number, done))
        done, _ = await asyncio.wait((task,), timeout=self.config.load_wait_max_ms / 1000)
        if not done:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        if task.cancelled():
            if self._is_closed:
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator is stopping")
            raise KafkaError(ErrorCode.NOT_COORDINATOR, "another process has the shard now")
        loaded = task.result()
        if isinstance(loaded, ErrorCode):
            raise KafkaError(loaded)
        return loaded

    def resign(self, number: int) -> None:
        """Give up a shard, loaded or loading: its partition has another owner. Waiting requests get NOT_COORDINATOR."""
        task = self._loads.pop(number, None)  # later requests must not wait for this load
        self._awaited.discard(number)
        if task is not None:
            task.cancel()
        shard = self.ready.get(number)
        if shard is not None:
            shard.release()

    async def close(self, *, snapshot_records_min: int) -> None:
        """Answer all waiting requests and stop; shards with this many records since their last snapshot save one."""
        self._is_closed = True
        for task in list(self._loads.values()):
            task.cancel()
        if self._loads:
            await asyncio.wait(list(self._loads.values()))
        for shard in list(self.ready.values()):
            if shard.state_log.records_since_snapshot >= snapshot_records_min:
                try:
                    await shard.save_snapshot(force=True)
                except BmqError as error:
                    _log.warning(f"{self._kind}_snapshot_failed", shard=shard.number, error=str(error))
            shard.release(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    async def _open(self, number: int) -> S | ErrorCode:
        try:
            async with self._slots:
                log = await self._shards.open(number, is_awaited=number in self._awaited)
                shard = self._make(number, log, self._lost)
                await shard.load()
        except BmqError as error:
            code = coordinator_error(error)
            if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                # Finding another coordinator would not help: the shard cannot be loaded now, or is offline (rule 25).
                code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            # Waiting clients retry all the time, so say it once per code. That another node has the shard is no fault: while
            # partitions move, clients ask a node that does not have it yet, or has it no more.
            write_log = _log.info if code is ErrorCode.NOT_COORDINATOR else _log.warning
            if self._logged_codes.get(number) is code:
                write_log = _log.debug
            self._logged_codes[number] = code
            self._reasons[number] = str(error) or code.name
            write_log(f"{self._kind}_shard_not_loaded", shard=number, error=str(error), answer=code.name)
            return code
        except Exception:  # noqa: BLE001 a bug, or no memory: this code makes waiting clients retry
            _log.exception(f"{self._kind}_shard_not_loaded", shard=number)
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        else:
            self.ready[number] = shard
            self._logged_codes.pop(number, None)
            self._reasons.pop(number, None)
            return shard

    def _at_once(self, number: int) -> S | None:
        return None if number in self._queues else self.ready.get(number)

    def _loaded(self, number: int, task: asyncio.Task[S | ErrorCode]) -> None:
        if self._loads.get(number) is task:
            del self._loads[number]
            self._awaited.discard(number)

    def _lost(self, shard: S) -> None:
        if self.ready.get(shard.number) is shard:
            del self.ready[shard.number]
        self._when_lost(shard.number)
