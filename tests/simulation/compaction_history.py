"""What clients saw of logs that are compacted: of each key the newest committed record stays, and others may go.

A record's name says who sent it, its key and whether it is a tombstone; it travels in a header, which tombstones have, too.
Source of the rules: Kafka's documentation of log compaction ("Log Compaction Basics", "What guarantees does log compaction
provide?").
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from zlib import crc32

from bmq.protocol.batch_records import Record
from tests.simulation.history import Violation
from tests.simulation.transaction_history import CommittedRead, Ending, Place, Transaction, TransactionHistory

NAME_HEADER = "name"
_TOMBSTONE = b"!"
_PADDING_BYTES_MAX = 120


@dataclass(frozen=True, slots=True)
class Written:
    """A record that somebody sent. `sent_s`: when it was sent first, by the clock that stamps it."""

    name: bytes
    place: Place
    transaction: Transaction
    sent_s: float


@dataclass(frozen=True, slots=True)
class CompactionTerms:
    """What the topics promise, in seconds.

    `delete_retention_s`: tombstones stay so long. `reader_s`: whoever read an older record less than that ago sees them.
    `retention_s`: None: nothing goes by its age. `is_deleting`: DeleteRecords happen.
    """

    delete_retention_s: float
    reader_s: float
    retention_s: float | None
    is_deleting: bool


class CompactionHistory(TransactionHistory):
    """Values are names here. `now_s`: the clock; `dice` chooses keys."""

    has_gaps = True

    def __init__(
        self,
        terms: CompactionTerms,
        keys: Sequence[str],
        tombstone_rate: float,
        now_s: Callable[[], float],
        dice: random.Random,
    ) -> None:
        super().__init__()
        self.terms = terms
        self.gone_count = 0  # records that were known once and are not there any more
        self.tombstones_gone_count = 0
        self._keys = keys
        self._tombstone_rate = tombstone_rate
        self._now_s = now_s
        self._dice = dice
        self._written: dict[bytes, Written] = {}
        self._of_key: dict[tuple[Place, bytes], list[Written]] = defaultdict(list)
        self._known: dict[Place, list[int]] = defaultdict(list)  # offsets at which a record was once, ascending
        self._at: dict[tuple[Place, int], bytes] = {}
        self._gone: set[tuple[Place, int]] = set()
        self.starts: dict[Place, int] = defaultdict(int)  # the log begins at or behind these offsets for certain
        self._starts_wanted: dict[Place, int] = defaultdict(int)  # up to here somebody wanted records to be deleted

    # --- how a name becomes a record

    def next_value(self, producer: str, count: int) -> bytes:
        is_tombstone = self._dice.random() < self._tombstone_rate
        return name_of(producer, count, self._dice.choice(self._keys), is_tombstone=is_tombstone)

    def record_of(self, value: bytes, time_ms: int) -> Record:
        return Record(key_of(value), content_of(value), ((NAME_HEADER, value),), time_ms)

    def value_of(self, record: Record) -> bytes:
        if len(record.headers) != 1 or record.headers[0][0] != NAME_HEADER or not record.headers[0][1]:
            raise Violation(f"a record at {record.offset} has the headers {record.headers}")
        name = record.headers[0][1]
        if (record.key, record.value) != (key_of(name), content_of(name)):
            raise Violation(f"{name!r} at {record.offset} has the key {record.key!r} and the value {record.value!r}")
        return name

    # --- what producers do and hear

    def send(self, transaction: Transaction, place: Place, values: Iterable[bytes]) -> None:
        names = tuple(values)
        super().send(transaction, place, names)
        for name in names:
            if name not in self._written:
                written = self._written[name] = Written(name, place, transaction, self._now_s())
                self._of_key[place, key_of(name)].append(written)

    def _is_at(self, place: Place, offset: int, value: bytes) -> None:
        super()._is_at(place, offset, value)
        before = self._at.setdefault((place, offset), value)
        if before != value:
            raise Violation(f"offset {offset} of {place} has {before!r} and {value!r}")
        known = self._known[place]
        at = bisect_left(known, offset)
        if at == len(known) or known[at] != offset:
            known.insert(at, offset)

    # --- what readers see

    def read_everything(self, read: CommittedRead) -> None:
        super().read_everything(read)
        self._check_range(read)

    def read_committed(self, read: CommittedRead) -> None:
        super().read_committed(read)
        self._check_range(read)

    def _check_range(self, read: CommittedRead) -> None:
        """Whatever was in the range once and is not there any more has to be gone for a reason."""
        offsets = sorted(offset for offset, _ in (*read.records, *read.left_out))
        if any(one == other for one, other in pairwise(offsets)):
            raise Violation(f"{read.place} has an offset twice: {offsets}")
        found = set(offsets)
        for offset in self.known_between(read.place, read.start, read.end):
            if offset not in found:
                self._expect_gone(read.place, offset)

    def known_between(self, place: Place, start: int, end: int) -> Sequence[int]:
        known = self._known[place]
        return known[bisect_left(known, start) : bisect_left(known, end)]

    def _expect_gone(self, place: Place, offset: int) -> None:
        written = self._written[self._at[place, offset]]
        if not self._is_superseded(written, offset) and not self._is_past(written):
            transaction = written.transaction
            if transaction.ending is Ending.COMMITTED or transaction.seen is not None:
                raise Violation(
                    f"{written.name!r} at {offset} of {place} is gone, and nothing newer of its key is there"
                )
            transaction.hidden = transaction.hidden or written.name  # then it was aborted
        if (place, offset) not in self._gone:
            self._gone.add((place, offset))
            self.gone_count += 1
            self.tombstones_gone_count += is_tombstone(written.name)

    def _is_superseded(self, written: Written, offset: int) -> bool:
        """Whether a newer record of its key may be there, or may have been."""
        return any(
            other is not written
            and other.transaction.may_be_seen
            and other.transaction.hidden is None
            and not self._is_before(other, offset)
            for other in self._of_key[written.place, key_of(written.name)]
        )

    def _is_before(self, written: Written, offset: int) -> bool:
        known = self._place_of.get(written.name)
        return known is not None and known[1] < offset

    def _is_past(self, written: Written) -> bool:
        """A tombstone whose time may be over."""
        age_s = self._now_s() - written.sent_s
        return is_tombstone(written.name) and age_s >= self.terms.delete_retention_s

    def tombstones_missed(self, read: CommittedRead) -> list[tuple[int, bytes]]:
        """(offset, name) of those that were committed for certain, are not in the read, and are the newest of their keys.

        Whoever read an older record of such a key less than `reader_s` ago has to see it.
        """
        found = {offset for offset, _ in (*read.records, *read.left_out)}
        missed = []
        for offset in self.known_between(read.place, read.start, read.end):
            written = self._written[self._at[read.place, offset]]
            if (
                offset not in found
                and is_tombstone(written.name)
                and written.transaction.ending is Ending.COMMITTED
                and not self._is_superseded(written, offset)
            ):
                missed.append((offset, written.name))
        return missed

    # --- where logs begin

    def want_deleted(self, place: Place, before_offset: int) -> None:
        """Somebody is about to ask for that."""
        self._starts_wanted[place] = max(self._starts_wanted[place], before_offset)

    def may_be_out_of_range(self, place: Place, offset: int) -> bool:
        return offset < self._starts_wanted[place] or self.terms.retention_s is not None

    def begins_at(self, place: Place, start: int, known_before: int) -> None:
        """Somebody was told so. `known_before`: `starts` when the question was asked."""
        if start < known_before:
            raise Violation(f"{place} is said to begin at {start}, and it began at {known_before} before")
        if start > self._starts_wanted[place]:
            if self.terms.retention_s is None:
                raise Violation(f"{place} is said to begin at {start}, and nobody deleted anything from it there")
            for offset in self.known_between(place, self._starts_wanted[place], start):
                written = self._written[self._at[place, offset]]
                is_young = self._now_s() - written.sent_s < self.terms.retention_s
                is_kept = written.transaction.ending is Ending.COMMITTED and not self._is_superseded(written, offset)
                if is_young and is_kept and not self._is_past(written):
                    raise Violation(f"{written.name!r} at {offset} of {place} was dropped before its time")
        self.starts[place] = max(self.starts[place], start)

    # --- the end

    def check_compacted(
        self,
        everything: Mapping[Place, Sequence[tuple[int, bytes]]],
        committed: Mapping[Place, Sequence[tuple[int, bytes]]],
        logs: Mapping[Place, tuple[int, int]],
    ) -> None:
        """Each partition read from its start to its end when nothing is open and compaction is at rest.

        `logs`: of each the offset up to which compaction has come, and the first one.
        """
        for place, records in committed.items():
            for _, name in records:
                transaction = self._written[name].transaction
                if not transaction.may_be_seen:
                    raise Violation(f"{transaction.name} is {transaction.ending.name.lower()}, and {name!r} is there")
            self._check_order(place, [name for _, name in records])
            self._check_newest(place, records)
            self._check_one_of_each(place, everything[place], records, logs[place][0])

    def _check_newest(self, place: Place, records: Sequence[tuple[int, bytes]]) -> None:
        """Of each key the newest committed record is there, unless it was a tombstone that is past."""
        last: dict[bytes, int] = {}
        for offset, name in records:
            last[key_of(name)] = offset
        newest: dict[bytes, tuple[int, Written]] = {}
        for offset in self.known_between(place, self.starts[place], 2**63 - 1):
            written = self._written[self._at[place, offset]]
            if written.transaction.ending is Ending.COMMITTED or written.transaction.seen is not None:
                newest[key_of(written.name)] = offset, written
        for key, (offset, written) in newest.items():
            found = last.get(key, -1)
            if found >= offset:
                continue
            past = [
                other for other in self._of_key[place, key] if other.transaction.may_be_seen and self._is_past(other)
            ]
            if not any(not self._is_before(other, offset) for other in past):
                raise Violation(f"{written.name!r} at {offset} of {place}, the newest of its key, is not there")
            if found >= 0:
                raise Violation(
                    f"{place} has an older record of {key!r} at {found}, and not {written.name!r} at {offset}"
                )

    def _check_one_of_each(
        self,
        place: Place,
        everything: Sequence[tuple[int, bytes]],
        committed: Sequence[tuple[int, bytes]],
        compacted_to: int,
    ) -> None:
        """What was compacted has one record of each key, and none of an aborted transaction."""
        below = [(offset, name) for offset, name in everything if offset < compacted_to]
        if below != [(offset, name) for offset, name in committed if offset < compacted_to]:
            raise Violation(f"records of aborted transactions are left in {place} below {compacted_to}")
        seen: dict[bytes, int] = {}
        for offset, name in below:
            if (before := seen.setdefault(key_of(name), offset)) != offset:
                raise Violation(
                    f"{place} is compacted up to {compacted_to}, and {key_of(name)!r} is at {before} and {offset}"
                )


def name_of(producer: str, count: int, key: str, *, is_tombstone: bool = False) -> bytes:
    return f"{producer}-{count}:{key}".encode() + _TOMBSTONE * is_tombstone


def key_of(name: bytes) -> bytes:
    return name.rpartition(b":")[2].removesuffix(_TOMBSTONE)


def is_tombstone(name: bytes) -> bool:
    return name.endswith(_TOMBSTONE)


def content_of(name: bytes) -> bytes | None:
    """The value of the record with this name: sizes differ."""
    return None if is_tombstone(name) else name + b"." * (crc32(name) % _PADDING_BYTES_MAX)
