"""What clients saw, and the rules it must obey whatever was killed, cut or slow in between."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from bmq.protocol.error_codes import ErrorCode

SHORTAGES = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)


class Violation(AssertionError):
    """An invariant does not hold."""


@dataclass(slots=True)
class History:
    """Values are unique over a run, so one value at two offsets is a duplicate."""

    acknowledged: dict[tuple[int, int], bytes] = field(default_factory=dict)  # (partition, offset) -> value
    consumed: dict[tuple[int, int], bytes] = field(default_factory=dict)
    committed: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    _ends: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    times_ms: dict[tuple[int, int], int] = field(default_factory=dict)  # of what was acknowledged
    epochs: dict[tuple[int, int], int] = field(default_factory=dict)  # leader epochs of what was read
    high_watermarks: dict[int, int] = field(
        default_factory=lambda: defaultdict(int)
    )  # the highest that anybody was told
    starts: dict[int, int] = field(default_factory=lambda: defaultdict(int))  # records below were deleted for certain
    starts_wanted: dict[int, int] = field(default_factory=lambda: defaultdict(int))  # or may be
    generation: int = 0  # the newest of the group that began
    _holders: dict[tuple[int, int], str] = field(default_factory=dict)  # (generation, partition) -> member
    sent: set[bytes] = field(default_factory=set)
    sends: dict[bytes, int] = field(default_factory=lambda: defaultdict(int))  # of values that nothing numbers
    sent_s: dict[bytes, float] = field(default_factory=dict)  # when each was sent first
    is_resending: bool = False  # proxies send what nothing numbers again themselves (Appender): copies are possible
    in_order: set[str] = field(default_factory=set)  # producers whose records follow each other in the order of sending
    commits_tried: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    _last_acknowledged: dict[tuple[str, int], int] = field(default_factory=dict)  # (producer, partition) -> offset
    _ends_told: dict[tuple[int, int], float] = field(default_factory=dict)  # (partition, end) -> when first
    acknowledged_batches: int = 0
    plain_batches: int = 0  # of producers without numbers
    commits: int = 0
    shortages: int = 0  # produces that heard of too few replicas
    on_acknowledge: Callable[[list[bytes]], None] | None = None

    def send(self, values: list[bytes], now_s: float, *, is_numbered: bool = True) -> None:
        """They are about to be sent, for the first time or again."""
        self.sent.update(values)
        for value in values:
            self.sent_s.setdefault(value, now_s)
            if not is_numbered:
                self.sends[value] += 1

    def acknowledge(
        self, partition: int, base_offset: int, values: list[bytes], time_ms: int = -1, *, is_acks_all: bool = True
    ) -> None:
        if self.on_acknowledge is not None and is_acks_all:
            self.on_acknowledge(values)
        self.acknowledged_batches += 1
        self._ends[partition] = max(self._ends[partition], base_offset + len(values))
        for offset, value in enumerate(values, base_offset):
            self.times_ms[partition, offset] = time_ms
            before = self.acknowledged.setdefault((partition, offset), value)
            if before != value:
                raise Violation(f"offset {offset} of {partition} was acknowledged for {before!r} and for {value!r}")

    def acknowledge_in_order(self, producer: str, partition: int, base_offset: int) -> None:
        """`producer` sends a batch after the one before it was acknowledged, so their offsets follow each other too."""
        before = self._last_acknowledged.get((producer, partition), -1)
        if base_offset <= before:
            raise Violation(f"{producer} was told {base_offset} of {partition} after {before}")
        self._last_acknowledged[producer, partition] = base_offset

    def consume(self, partition: int, offset: int, value: bytes, leader_epoch: int = -1) -> None:
        known = self.epochs.setdefault((partition, offset), leader_epoch)
        if leader_epoch not in (-1, known):
            raise Violation(
                f"offset {offset} of {partition} was read with the leader epochs {known} and {leader_epoch}"
            )
        before = self.consumed.setdefault((partition, offset), value)
        if before != value:
            raise Violation(f"offset {offset} of {partition} was read as {before!r} and as {value!r}")
        promised = self.acknowledged.get((partition, offset), value)
        if promised != value:
            raise Violation(f"offset {offset} of {partition} holds {value!r} but {promised!r} was acknowledged")
        if value not in self.sent:
            raise Violation(f"offset {offset} of {partition} holds {value!r}, which nobody sent")

    def end_offset(self, partition: int) -> int:
        """What follows the last offset of the partition that was acknowledged."""
        return self._ends[partition]

    def hear_high_watermark(self, partition: int, high_watermark: int, now_s: float) -> None:
        """Somebody was told that so much is durable."""
        self.high_watermarks[partition] = max(self.high_watermarks[partition], high_watermark)
        self._ends_told.setdefault((partition, high_watermark), now_s)

    def least_end(self, partition: int) -> int:
        """Nobody who is asked from now on may say that the log ends before this."""
        return max(self._ends[partition], self.high_watermarks[partition])

    def check_time(self, partition: int, time_ms: int, said: int, known: int) -> None:
        """`said`: the first offset at or past the time, -1 for none; `known`: one that was acknowledged at that time."""
        if not 0 <= said <= known:
            raise Violation(f"the first record of {partition} at {time_ms} is {said}, but {known} has that time")
        for offset in range(self.starts_wanted[partition], said):
            if self.times_ms.get((partition, offset), -1) >= time_ms:
                raise Violation(f"the first record of {partition} at {time_ms} is not {said}: {offset} is as late")

    def begin_generation(self, generation: int, member: str, partitions: list[int], known_before: int) -> None:
        """A member was given its share. `known_before`: the newest generation when it asked to join."""
        if generation < known_before:
            raise Violation(f"generation {generation} of the group began after generation {known_before}")
        self.generation = max(self.generation, generation)
        for partition in partitions:
            holder = self._holders.setdefault((generation, partition), member)
            if holder != member:
                raise Violation(f"in generation {generation} both {holder} and {member} were given {partition}")

    def delete(self, partition: int, before_offset: int) -> None:
        """Its records below are to be deleted."""
        self.starts_wanted[partition] = max(self.starts_wanted[partition], before_offset)

    def deleted(self, partition: int, start_offset: int) -> None:
        """They are."""
        self.starts[partition] = max(self.starts[partition], start_offset)

    def try_commit(self, partition: int, offset: int) -> None:
        """It is about to be asked for; whether it is carried out may never be known."""
        self.commits_tried[partition].add(offset)

    def commit(self, partition: int, offset: int) -> None:
        self.commits += 1
        self.committed[partition] = max(self.committed[partition], offset)

    def fetched_commit(self, partition: int, offset: int, known_before: int) -> None:
        """`known_before`: the greatest commit that was acknowledged, or answered, before the question was asked."""
        if offset < known_before:
            raise Violation(f"the committed offset of {partition} went back from {known_before} to {offset}")
        if offset and offset not in self.commits_tried[partition]:
            raise Violation(f"the committed offset of {partition} is {offset}, which nobody committed")
        self.committed[partition] = max(self.committed[partition], offset)

    def check_final(self, logs: dict[int, list[tuple[int, bytes]]]) -> None:
        """`logs`: each partition read from its start to its high watermark when all is calm."""
        for partition, records in logs.items():
            offsets = [offset for offset, _ in records]
            start = offsets[0] if offsets else self.starts_wanted[partition]
            if not self.starts[partition] <= start <= self.starts_wanted[partition]:
                raise Violation(f"{partition} begins at {start}; what lies below {self.starts[partition]} was deleted")
            if offsets != list(range(start, start + len(offsets))):
                raise Violation(f"the offsets of {partition} are not dense: {offsets[:20]}…")
            if start + len(offsets) < self.high_watermarks[partition]:
                raise Violation(
                    f"{partition} ends at {start + len(offsets)}, {self.high_watermarks[partition]} was told"
                )
            self._check_order([value for _, value in records])
            self._check_ends_told(partition, records)
            epochs = [self.epochs[partition, offset] for offset in offsets if (partition, offset) in self.epochs]
            if epochs != sorted(epochs):
                raise Violation(f"the leader epochs of {partition} go back: {epochs}")
        final = {(partition, offset): value for partition, records in logs.items() for offset, value in records}
        for name, seen in (("acknowledged", self.acknowledged), ("consumed", self.consumed)):
            for place, value in seen.items():
                if place[1] >= self.starts_wanted[place[0]] and final.get(place) != value:
                    raise Violation(f"{name} record {value!r} at {place} is now {final.get(place)!r}")
        self._check_once(final)
        strangers = {value for value in final.values() if value not in self.sent}
        if strangers:
            raise Violation(f"records nobody sent: {sorted(strangers)[:5]}")

    def _check_once(self, final: dict[tuple[int, int], bytes]) -> None:
        """What was acknowledged at its first sending is there once; each further sending may have left a copy."""
        places = Counter(final.values())
        for value, count in places.items():
            if count > self.sends.get(value, 1) and not (self.is_resending and value in self.sends):
                raise Violation(f"{value!r} is there {count} times, it was sent {self.sends.get(value, 1)} times")

    def _check_order(self, values: list[bytes]) -> None:
        """A producer's records are in the order it sent them; copies of unnumbered ones follow where they may."""
        newest: dict[str, int] = {}
        for value in dict.fromkeys(values):
            name, _, count = value.partition(b":")[0].decode().rpartition("-")
            if name not in self.in_order:
                continue
            if int(count) <= newest.get(name, 0):
                raise Violation(f"record {int(count)} of {name} follows record {newest[name]}")
            newest[name] = int(count)

    def _check_ends_told(self, partition: int, records: list[tuple[int, bytes]]) -> None:
        """Nobody was told of an end before the record in front of it had been sent."""
        newest_s, sent_by = 0.0, {}
        for offset, value in records:
            newest_s = max(newest_s, self.sent_s.get(value, 0.0))
            sent_by[offset + 1] = newest_s
        for (told, end), told_s in self._ends_told.items():
            if told == partition and told_s < sent_by.get(end, 0.0):
                raise Violation(
                    f"{partition} was said to end at {end} at {told_s:.3f} s; a record below was sent at {sent_by[end]:.3f} s"
                )
