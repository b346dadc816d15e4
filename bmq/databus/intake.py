"""Takes records from the doors: the channel's rules, room in the spool, one write for all records of a turn of the loop.

A record is answered when its write(2) is done, or its fsync(2) where that is set. Answers of one sink come in the order of
its records. All of it runs on the event loop's thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Final, NamedTuple, Protocol

from bmq.channels.channel import SpoolFull
from bmq.channels.channel_set import ChannelSet
from bmq.databus.intake_record import NewRecord
from bmq.databus.rules import ChannelCounts, CompiledChannel, LaneKey, Refusal, compiled
from bmq.databus.socket_frame import Answer, Code, encoded_accepted, encoded_answer
from bmq.databus.spool.errors import SpoolUnusable, SpoolWriteFailed
from bmq.databus.spool.frame import BODY_BYTES_MAX, body_bytes, encoded_frame
from bmq.databus.spool.frame import record_fields as spooled_fields
from bmq.databus.spool.spool import Spool, SpoolBudget
from bmq.dataclass import dataclass

FULL_RETRY_MS: Final = 1_000
STOPPING_RETRY_MS: Final = 2_000
TURN_BYTES_MAX: Final = 4 << 20
"""More than this is written before the turn of the loop ends."""
CHANNELS_COUNTED_MAX: Final = 2_000
_UNKNOWN_SHOWN_MAX: Final = 100


class LaneSpool(Protocol):
    """A lane, as the intake uses it. Records from `busy_from` to `busy_to` may be in a transaction."""

    spool: Spool
    next_number: int

    def busy(self) -> tuple[int, int]: ...

    def notify(self) -> None:
        """There are more records."""
        ...


class Sink(Protocol):
    """Where answers go: a connection, or a request by HTTP."""

    def answer(self, content: bytes) -> None:
        """One encoded answer, in order; `flush_answers` follows."""
        ...

    def flush_answers(self) -> None: ...


@dataclass(slots=True)
class _Pending:
    """Frames of one lane in this turn."""

    frames: list[bytes] = field(default_factory=list)
    length: int = 0
    first: int = -1
    counts: dict[str, int] = field(default_factory=dict)
    bytes_of: dict[str, int] = field(default_factory=dict)
    compiled: dict[str, CompiledChannel] = field(default_factory=dict)
    failure: str = ""


class _Waiting(NamedTuple):
    """An answer in its order: of an accepted record, unless `content` has another one."""

    sink: Sink
    request_id: int
    number: int
    pending: _Pending | None
    content: bytes


class Intake:
    """`lane_of` opens a lane for a key, `now_ms` is wall time, `now_s` never goes back, `dice` gives 0 <= x < 1.

    `refused_topics`: why the cluster takes no records for a topic; lanes fill it.
    """

    def __init__(
        self,
        lane_of: Callable[[LaneKey], LaneSpool],
        budget: SpoolBudget,
        *,
        now_ms: Callable[[], int],
        now_s: Callable[[], float],
        dice: Callable[[], float],
        is_synced: bool = False,
    ) -> None:
        self.counts: dict[str, ChannelCounts] = {}
        self.unknown_channel = 0
        self.refused_topics: Mapping[str, str] = {}
        self.channels = ChannelSet()
        self.is_stopping = False
        self._lane_of, self._budget, self._is_synced = lane_of, budget, is_synced
        self._now_ms, self._now_s, self._dice = now_ms, now_s, dice
        self._compiled: dict[bytes, CompiledChannel] = {}
        self._pending: dict[LaneKey, _Pending] = {}
        self._pending_bytes = 0
        self._turn: list[_Waiting] = []
        self._is_flush_due = False
        self._syncing: asyncio.Task[None] | None = None
        self._unsynced: list[_Waiting] = []
        self._unsynced_spools: set[Spool] = set()

    def use(self, channels: ChannelSet) -> None:
        """From now on; records that were taken before keep the topic and key that they have."""
        self._compiled = compiled(channels, self._compiled, self.counts_of)
        self.channels = channels

    def counts_of(self, channel: str) -> ChannelCounts:
        """Channels past a bound share one, so that their number is bounded."""
        found = self.counts.get(channel)
        if found is None:
            name = channel if len(self.counts) < CHANNELS_COUNTED_MAX else ""
            found = self.counts.setdefault(name, ChannelCounts())
        return found

    # --- records

    def offer(self, sink: Sink, request_id: int, channel: bytes, record: NewRecord) -> None:
        """One record of a connection. The sink is answered at the end of this turn of the loop, or after it."""
        known, refusal = self._admitted(channel, (record,))
        content = fields = b""
        if refusal is None and known is not None:
            if known.sampling_rate < 1.0 and self._dice() >= known.sampling_rate:
                known.counts.sampled_out += 1
                content = encoded_answer(Answer(Code.SAMPLED_OUT, request_id))
            else:
                fields = _fields_of(known, record)
                refusal = self._too_large(known, fields) or self._no_room(known, 1, record.length, len(fields))
        if refusal is None and not content and known is not None:
            number, pending = self._put(known, record, fields)
            self._turn.append(_Waiting(sink, request_id, number, pending, b""))
        else:
            if refusal is not None:
                self._count_refusal(known, refusal)
                content = encoded_answer(Answer(refusal.code, request_id, -1, refusal.retry_after_ms, refusal.sentence))
            self._turn.append(_Waiting(sink, request_id, -1, None, content))
        self._flush_soon()

    def offer_all(self, sink: Sink, channel: bytes, records: Sequence[NewRecord]) -> Refusal | None:
        """All records or none. Without a refusal the sink is answered once for each, as by `offer`, with ids from 0 on."""
        known, refusal = self._admitted(channel, records)
        if refusal is None and known is not None:
            kept = [known.sampling_rate >= 1.0 or self._dice() < known.sampling_rate for _ in records]
            chosen = [record for record, is_kept in zip(records, kept, strict=True) if is_kept]
            fields = [_fields_of(known, record) for record in chosen]
            refusal = next(filter(None, (self._too_large(known, one) for one in fields)), None)
            if chosen and refusal is None:
                length = sum(record.length for record in chosen)
                refusal = self._no_room(known, len(chosen), length, sum(map(len, fields)))
            if refusal is None:
                following = iter(fields)
                known.counts.sampled_out += len(records) - len(chosen)
                for request_id, (record, is_kept) in enumerate(zip(records, kept, strict=True)):
                    if is_kept:
                        number, pending = self._put(known, record, next(following))
                        self._turn.append(_Waiting(sink, request_id, number, pending, b""))
                    else:
                        content = encoded_answer(Answer(Code.SAMPLED_OUT, request_id))
                        self._turn.append(_Waiting(sink, request_id, -1, None, content))
                self._flush_soon()
                return None
        if refusal is not None:
            self._count_refusal(known, refusal, len(records))
        return refusal

    def refuse(self, sink: Sink, answer: Answer) -> None:
        """An answer in its order, for what never became a record."""
        self._turn.append(_Waiting(sink, answer.request_id, -1, None, encoded_answer(answer)))
        self._flush_soon()

    def flush(self) -> None:
        """Write what was taken, and answer it."""
        self._is_flush_due = False
        pending, self._pending, self._pending_bytes = self._pending, {}, 0
        waiting, self._turn = self._turn, []
        for key, one in pending.items():
            self._write(key, one)
        if not self._is_synced:
            _answer(waiting)
            return
        self._unsynced += waiting
        if self._syncing is None and self._unsynced:
            self._syncing = asyncio.get_running_loop().create_task(self._sync())

    async def drained(self) -> None:
        """Write and answer everything that was taken."""
        self.flush()
        while self._syncing is not None:
            await asyncio.shield(self._syncing)

    # --- parts

    def _admitted(self, channel: bytes, records: Sequence[NewRecord]) -> tuple[CompiledChannel | None, Refusal | None]:
        known = self._compiled.get(channel)
        if self.is_stopping:
            return known, Refusal(Code.RETRY, "the agent is stopping", STOPPING_RETRY_MS)
        if known is None:
            return None, self._unknown(channel)
        for place, record in enumerate(records):
            refusal = known.refusal(record.length, record.value)
            if refusal is not None:
                is_one = len(records) == 1
                return known, refusal if is_one else refusal._replace(
                    sentence=f"record {place + 1}: {refusal.sentence}"
                )
        if self.refused_topics and (why := self.refused_topics.get(known.channel.topic)) is not None:
            return known, Refusal(Code.TOPIC_REFUSED, why)
        return known, None

    def _unknown(self, channel: bytes) -> Refusal:
        name = channel[:_UNKNOWN_SHOWN_MAX].decode("utf-8", "replace")
        why = self.channels.unreadable.get(name)
        if why is not None:
            return Refusal(Code.UNKNOWN_CHANNEL, f"this release does not understand the channel {name}: {why}")
        return Refusal(Code.UNKNOWN_CHANNEL, f"there is no channel {name!r} in version {self.channels.version}")

    def _too_large(self, known: CompiledChannel, fields: bytes) -> Refusal | None:
        """A key that the channel's rule gives may be as long as the value."""
        length = body_bytes(known.topic, known.name, fields)
        if length <= BODY_BYTES_MAX:
            return None
        return Refusal(
            Code.RECORD_TOO_LARGE,
            f"with its key the record has {length} bytes in the spool, which takes {BODY_BYTES_MAX}",
        )

    def _no_room(self, known: CompiledChannel, count: int, length: int, field_bytes: int) -> Refusal | None:
        """The spool's room, which may cost the oldest records, then the rate limit. `field_bytes`: as in the spool."""
        try:
            self._lane_of(known.lane)
        except SpoolUnusable as error:
            return Refusal(Code.RETRY, str(error), FULL_RETRY_MS)
        wanted = self._pending_bytes + field_bytes + count * (64 + len(known.topic) + len(known.name))
        if not self._budget.has_room(wanted) and not self._made_room(known, wanted):
            if known.channel.spool_full is SpoolFull.DROP_NEWEST:
                return Refusal(Code.DROPPED, "the spool is full: the record is dropped, as its channel says")
            return Refusal(Code.RETRY, "the spool is full", FULL_RETRY_MS)
        if known.limit is not None and (wait_s := known.limit.wait_s(count, length, self._now_s())):
            return Refusal(
                Code.RETRY, f"the channel {known.channel.name} is at its rate limit", max(1, round(wait_s * 1_000))
            )
        return None

    def _made_room(self, known: CompiledChannel, wanted: int) -> bool:
        if not known.lane.is_droppable:
            return False
        lane = self._lane_of(known.lane)
        if self._budget.used - lane.spool.bytes_used + wanted > self._budget.bytes_max:
            return False  # other lanes fill the spool: without all its records there would be no room either
        while not self._budget.has_room(wanted):
            dropped = lane.spool.drop_oldest(*lane.busy())
            if dropped is None:
                return False
            for channel, count in dropped.items():
                self.counts_of(channel).dropped_oldest += count
        return True

    def _put(self, known: CompiledChannel, record: NewRecord, fields: bytes) -> tuple[int, _Pending]:
        pending = self._pending.get(known.lane)
        lane = self._lane_of(known.lane)
        if pending is None:
            pending = self._pending[known.lane] = _Pending(first=lane.next_number)
        number = lane.next_number
        lane.next_number = number + 1
        timestamp_ms = self._now_ms() if record.timestamp_ms < 0 else record.timestamp_ms
        frame = encoded_frame(number, timestamp_ms, known.topic, known.name, fields)
        pending.frames.append(frame)
        pending.length += len(frame)
        self._pending_bytes += len(frame)
        name = known.channel.name
        pending.counts[name] = pending.counts.get(name, 0) + 1
        pending.compiled[name] = known
        pending.bytes_of[name] = pending.bytes_of.get(name, 0) + record.length
        return number, pending

    def _write(self, key: LaneKey, pending: _Pending) -> None:
        lane = self._lane_of(key)
        last = lane.next_number - 1
        try:
            lane.spool.append(b"".join(pending.frames), pending.first, last, pending.counts)
        except (SpoolWriteFailed, OSError) as error:
            pending.failure = _sentence_of(error)
            lane.next_number = pending.first
            for name, count in pending.counts.items():
                pending.compiled[name].counts.refuse(Code.RETRY, count)
            return
        for name, count in pending.counts.items():
            counts = pending.compiled[name].counts
            counts.accepted_records += count
            counts.accepted_bytes += pending.bytes_of[name]
        self._unsynced_spools.add(lane.spool)
        lane.notify()

    def _flush_soon(self) -> None:
        if self._pending_bytes > TURN_BYTES_MAX:
            self.flush()
        elif not self._is_flush_due:
            self._is_flush_due = True
            asyncio.get_running_loop().call_soon(self.flush)

    async def _sync(self) -> None:
        """One fsync for all that was written while the former one ran."""
        loop = asyncio.get_running_loop()
        try:
            while self._unsynced:
                waiting, self._unsynced = self._unsynced, []
                spools, self._unsynced_spools = self._unsynced_spools, set()
                try:
                    for spool in spools:
                        await loop.run_in_executor(None, spool.sync)
                except (SpoolWriteFailed, OSError) as error:
                    sentence = _sentence_of(error)
                    waiting = [_failed(one, sentence) for one in waiting]
                _answer(waiting)
        finally:
            self._syncing = None

    def _count_refusal(self, known: CompiledChannel | None, refusal: Refusal, count: int = 1) -> None:
        """`count`: of records."""
        if known is None:
            self.unknown_channel += count
        elif refusal.code is Code.DROPPED:
            known.counts.dropped_newest += count
        else:
            known.counts.refuse(refusal.code, count)


def _fields_of(known: CompiledChannel, record: NewRecord) -> bytes:
    """As the spool keeps them, with the key that the channel's rule gives."""
    key = known.key_of(record.key, record.value, record.headers)
    return spooled_fields(key, record.value, record.headers)


def _sentence_of(error: SpoolWriteFailed | OSError) -> str:
    return f"the spool cannot be written: {error.strerror}" if isinstance(error, OSError) else str(error)


def _failed(waiting: _Waiting, why: str) -> _Waiting:
    if waiting.content:
        return waiting
    content = encoded_answer(Answer(Code.RETRY, waiting.request_id, -1, FULL_RETRY_MS, why))
    return waiting._replace(content=content)


def _answer(waiting: Sequence[_Waiting]) -> None:
    touched: dict[int, Sink] = {}
    for sink, request_id, number, pending, content in waiting:
        if content:
            sink.answer(content)
        elif pending is not None and pending.failure:
            sink.answer(encoded_answer(Answer(Code.RETRY, request_id, -1, FULL_RETRY_MS, pending.failure)))
        else:
            sink.answer(encoded_accepted(request_id, number))
        touched[id(sink)] = sink
    for sink in touched.values():
        sink.flush_answers()
