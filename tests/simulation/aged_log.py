"""What may be missing from a log that one producer writes, and that is compacted, shortened by its age or size, or deleted.

The producer numbers its batches and sends one after the other, so the offset of each record is known before it is sent. Of
each key the newest record stays; a log begins higher only where somebody asked for it, or where what lies below is old, or
more than the size that is kept.

log = AgedLog(AgedTerms(is_compacted=True), life=1)
log.send([Aged(b"k1", b"name", sent_s, is_tombstone=False)], len(batch))
log.acknowledge(0)
log.read(0, [(0, b"name")], end=1, now_s)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.simulation.history import Violation


@dataclass(frozen=True, slots=True)
class AgedTerms:
    """What the topic promises. `delete_retention_s`: tombstones stay so long; None: nothing goes by its age, or by the size."""

    is_compacted: bool = False
    delete_retention_s: float = 0.0
    retention_s: float | None = None
    retention_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Aged:
    """A record. `sent_s`: by the clock that stamps it."""

    key: bytes
    name: bytes
    sent_s: float
    is_tombstone: bool


@dataclass(slots=True)
class AgedLog:
    """One life of a topic with one partition. `is_over`: its deletion was asked for: what is missing then says nothing.

    `wanted`: up to here somebody wanted records to be deleted; `start`: the log begins here or higher for certain.
    """

    terms: AgedTerms
    life: int
    is_over: bool = False
    wanted: int = 0
    start: int = 0
    acknowledged_end: int = 0
    gone: set[int] = field(default_factory=set)  # offsets that a reader did not find any more
    _records: list[Aged] = field(default_factory=list)
    _sizes: dict[int, int] = field(default_factory=dict)  # of batches, by their first offsets
    _newest: dict[bytes, int] = field(default_factory=dict)  # offsets, by key

    @property
    def sent_end(self) -> int:
        return len(self._records)

    def send(self, records: Sequence[Aged], size_bytes: int) -> None:
        """They are about to be sent, for the first time."""
        self._sizes[len(self._records)] = size_bytes
        for offset, record in enumerate(records, len(self._records)):
            self._newest[record.key] = offset
        self._records.extend(records)

    def acknowledge(self, base_offset: int) -> None:
        """What was sent last is in the log from `base_offset` on."""
        expected = max(self._sizes)
        if base_offset != expected:
            raise Violation(f"life {self.life}: {expected} was the log's end, and the next batch went to {base_offset}")
        self.acknowledged_end = len(self._records)

    # --- what readers see

    def read(self, position: int, found: Sequence[tuple[int, bytes]], end: int, now_s: float) -> None:
        """Everything from `position` to `end`. Whatever is not there has to be gone for a reason."""
        if end > len(self._records):
            raise Violation(f"life {self.life}: {end} was read, and only {len(self._records)} were sent")
        for offset, name in found:
            if not position <= offset < end or self._records[offset].name != name:
                raise Violation(f"life {self.life}: {name!r} is at {offset} between {position} and {end}")
        offsets = [offset for offset, _ in found]
        if offsets != sorted(set(offsets)):
            raise Violation(f"life {self.life}: offsets are not ascending: {offsets}")
        for offset in sorted(set(range(position, end)) - set(offsets)):
            if not self._may_be_cleaned(offset, now_s):
                raise Violation(
                    f"life {self.life}: {self._records[offset].name!r} at {offset} is gone, and it was not to be cleaned"
                )
            self.gone.add(offset)

    def given(self, offset: int, name: bytes | None) -> None:
        """A member of a share group was given the record. None: a tombstone."""
        record = self._records[offset] if offset < len(self._records) else None
        if record is None or (name or b"") != (b"" if record.is_tombstone else record.name):
            raise Violation(f"life {self.life}: {name!r} was given as {offset}, which is {record}")

    def _may_be_cleaned(self, offset: int, now_s: float) -> bool:
        """Whether compaction may have removed it: never the newest record of a key, but for a tombstone after its time."""
        if not self.terms.is_compacted:
            return False
        record = self._records[offset]
        is_past = record.is_tombstone and now_s - record.sent_s >= self.terms.delete_retention_s
        return is_past or self._newest[record.key] > offset

    # --- where it begins

    def begins_at(self, start: int, now_s: float, known_before: int = 0) -> None:
        """Somebody was told so. `known_before`: `start` when an owner was asked who has to prove that it is one."""
        if start < known_before:
            raise Violation(f"life {self.life}: the log is said to begin at {start}; it began at {known_before} before")
        self.begins_beyond(start - 1, now_s)
        self.start = max(self.start, start)

    def begins_beyond(self, offset: int, now_s: float) -> None:
        """Somebody was told that `offset` is not in the log any more."""
        if offset < self.wanted:
            return
        if offset >= len(self._records):
            raise Violation(
                f"life {self.life}: {offset} is said to be deleted, and only {len(self._records)} were sent"
            )
        if not self._is_retired(offset, now_s):
            raise Violation(
                f"life {self.life}: {offset} is said to be deleted, which was wanted below {self.wanted} only, "
                f"and retention would not take it"
            )

    def _is_retired(self, last: int, now_s: float) -> bool:
        """Whether retention may have dropped everything from `wanted` up to `last`."""
        terms = self.terms
        if terms.retention_bytes is not None:
            left_bytes = sum(size for base, size in self._sizes.items() if base > last)
            if left_bytes >= terms.retention_bytes:
                return True
        return terms.retention_s is not None and all(
            now_s - self._records[offset].sent_s >= terms.retention_s or self._may_be_cleaned(offset, now_s)
            for offset in range(self.wanted, last + 1)
        )
