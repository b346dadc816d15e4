"""What clients saw of transactions, and the rules it must obey whatever was killed, cut or slow in between.

A transaction is all or nothing: over its partitions, and over its records and its offsets. Once an end was acknowledged it
holds; until then one of the two is true, and the same one for everybody. Values are unique over a run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from bmq.protocol.batch_records import Record
from tests.simulation.history import Violation

Place = tuple[str, int]  # topic, partition


class Ending(Enum):
    """What its client knows of a transaction."""

    OPEN = auto()  # nobody has asked for its commit, so nobody may ever see it
    ASKED = auto()  # a commit was sent; it may have been carried out
    COMMITTED = auto()
    ABORTED = auto()


@dataclass(slots=True)
class Transaction:
    """`values`: where each was sent to, in the order of sending. `offsets`: what it commits, by input partition."""

    name: str
    values: dict[bytes, Place] = field(default_factory=dict)
    offsets: dict[int, int] = field(default_factory=dict)
    ending: Ending = Ending.OPEN
    seen: bytes | None = None  # one of its values that somebody read as committed
    hidden: bytes | None = None  # one that a reader of committed records left out

    def ask(self) -> None:
        """A commit is about to be sent."""
        if self.ending is Ending.OPEN:
            self.ending = Ending.ASKED

    @property
    def may_be_seen(self) -> bool:
        return self.ending in (Ending.ASKED, Ending.COMMITTED)


@dataclass(slots=True)
class CommittedRead:
    """One answer to a reader of committed records: what it holds from `start` to `end` (exclusive)."""

    place: Place
    start: int
    end: int
    records: Sequence[tuple[int, bytes]]
    left_out: Sequence[tuple[int, bytes]]  # of aborted transactions


class TransactionHistory:
    """`on_acknowledge` hears of the values of each batch that was acknowledged, `on_end` of each transaction whose end was.

    `passing`: topics that are deleted and made again; what became of their records is not followed.
    """

    has_gaps = False
    """Whether offsets between records may be missing."""

    def __init__(self, passing: Iterable[str] = ()) -> None:
        self._passing = frozenset(passing)
        self.transactions: list[Transaction] = []
        self.acknowledged_batches = 0
        self.on_acknowledge: Callable[[list[bytes]], None] = lambda values: None
        self.on_end: Callable[[Transaction], None] = lambda transaction: None
        self._of_value: dict[bytes, Transaction] = {}
        self._acknowledged: dict[tuple[Place, int], bytes] = {}
        self._read: dict[tuple[Place, int], bytes] = {}  # whether committed or not
        self._place_of: dict[bytes, tuple[Place, int]] = {}
        self._seen: dict[tuple[Place, int], bytes] = {}  # as committed
        self._left_out: dict[tuple[Place, int], bytes] = {}
        self._ends: dict[Place, int] = defaultdict(int)  # the highest last stable offset that anybody was told
        self._markers: dict[tuple[int, int], bool] = {}  # (producer id, epoch) -> whether it commits
        self._plain_epochs: set[tuple[int, int]] = set()  # of producers whose epoch stays from one end to the next
        self.stable_offsets: dict[int, int] = defaultdict(int)  # of the copying group, as last acknowledged or answered
        self.any_offsets: dict[int, int] = defaultdict(int)  # the same, for those who take offsets that are not stable
        self._offsets_tried: dict[int, dict[int, list[Transaction]]] = defaultdict(lambda: defaultdict(list))

    # --- how a value becomes a record

    def next_value(self, producer: str, count: int) -> bytes:
        """What a producer sends as its record of this number."""
        return new_value(producer, count)

    def record_of(self, value: bytes, time_ms: int) -> Record:
        return Record(None, value, timestamp_ms=time_ms)

    def value_of(self, record: Record) -> bytes:
        """Raises Violation if nobody sends such records."""
        return record.value or b""

    # --- what producers do and hear

    def begin(self, name: str) -> Transaction:
        transaction = Transaction(name)
        self.transactions.append(transaction)
        return transaction

    def send(self, transaction: Transaction, place: Place, values: Iterable[bytes]) -> None:
        """For the first time or again."""
        if place[0] in self._passing:
            return
        for value in values:
            transaction.values[value] = place
            self._of_value[value] = transaction

    def acknowledge(self, place: Place, base_offset: int, values: Sequence[bytes]) -> None:
        self.acknowledged_batches += 1
        if place[0] in self._passing:
            return
        self.on_acknowledge(list(values))
        for offset, value in enumerate(values, base_offset):
            before = self._acknowledged.setdefault((place, offset), value)
            if before != value:
                raise Violation(f"offset {offset} of {place} was acknowledged for {before!r} and for {value!r}")
            self._is_at(place, offset, value)

    def send_offset(self, transaction: Transaction, partition: int, offset: int) -> None:
        transaction.offsets[partition] = offset
        self._offsets_tried[partition][offset].append(transaction)

    def committed(self, transaction: Transaction) -> None:
        """The commit was acknowledged."""
        if transaction.hidden is not None:
            raise Violation(f"{transaction.name} is committed, and {transaction.hidden!r} of it was left out before")
        transaction.ending = Ending.COMMITTED
        self.on_end(transaction)
        for partition, offset in transaction.offsets.items():
            self.stable_offsets[partition] = max(self.stable_offsets[partition], offset)

    def aborted(self, transaction: Transaction) -> None:
        """The abort was acknowledged, or nothing of it was ever sent."""
        if transaction.seen is not None:
            raise Violation(
                f"{transaction.name} is aborted, and {transaction.seen!r} of it was read as committed before"
            )
        transaction.ending = Ending.ABORTED
        self.on_end(transaction)

    def keeps_its_epoch(self, producer_id: int, epoch: int) -> None:
        """A producer that ends many transactions with one epoch (EndTxn below 5) has it."""
        self._plain_epochs.add((producer_id, epoch))

    # --- what readers see

    def read(self, place: Place, offset: int, value: bytes) -> None:
        """Somebody read it, whether it was committed or not."""
        before = self._read.setdefault((place, offset), value)
        if before != value:
            raise Violation(f"offset {offset} of {place} was read as {before!r} and as {value!r}")
        promised = self._acknowledged.get((place, offset), value)
        if promised != value:
            raise Violation(f"offset {offset} of {place} holds {value!r} but {promised!r} was acknowledged")
        transaction = self._of_value.get(value)
        if transaction is None or transaction.values[value] != place:
            raise Violation(f"offset {offset} of {place} holds {value!r}, which nobody sent there")
        self._is_at(place, offset, value)

    def _is_at(self, place: Place, offset: int, value: bytes) -> None:
        where = self._place_of.setdefault(value, (place, offset))
        if where != (place, offset):
            raise Violation(f"{value!r} is there twice: at {where} and at {(place, offset)}")

    def may_be_out_of_range(self, place: Place, offset: int) -> bool:
        """Whether the log may begin behind this offset."""
        return False

    def read_everything(self, read: CommittedRead) -> None:
        """By a reader that takes aborted records, too."""
        for offset, value in read.records:
            self.read(read.place, offset, value)

    def read_committed(self, read: CommittedRead) -> None:
        for offset, value in read.records:
            self.read(read.place, offset, value)
            self._see(read.place, offset, value)
        for offset, value in read.left_out:
            self.read(read.place, offset, value)
            self._leave_out(read.place, offset, value)

    def _see(self, place: Place, offset: int, value: bytes) -> None:
        transaction = self._of_value[value]
        if not transaction.may_be_seen:
            ending = transaction.ending.name.lower()
            raise Violation(f"{value!r} of {transaction.name}, which is {ending}, was read as committed")
        if (place, offset) in self._left_out:
            raise Violation(f"{value!r} at {offset} of {place} was read as committed, and left out before")
        if transaction.hidden is not None:
            raise Violation(f"{transaction.name} is torn: {value!r} is committed, {transaction.hidden!r} is not")
        transaction.seen = value
        self._seen[place, offset] = value

    def _leave_out(self, place: Place, offset: int, value: bytes) -> None:
        transaction = self._of_value[value]
        if transaction.ending is Ending.COMMITTED:
            raise Violation(f"{value!r} at {offset} of {place} was left out, and {transaction.name} is committed")
        if (place, offset) in self._seen:
            raise Violation(f"{value!r} at {offset} of {place} was left out, and read as committed before")
        if transaction.seen is not None:
            raise Violation(f"{transaction.name} is torn: {transaction.seen!r} is committed, {value!r} is not")
        transaction.hidden = value
        self._left_out[place, offset] = value

    def read_marker(self, producer_id: int, epoch: int, is_commit: bool) -> None:
        """Of a producer whose epoch goes up at each end, all markers of one epoch say the same."""
        if (producer_id, epoch) in self._plain_epochs:
            return
        before = self._markers.setdefault((producer_id, epoch), is_commit)
        if before != is_commit:
            raise Violation(f"producer {producer_id} has markers of both kinds at epoch {epoch}")

    def stable_end(self, place: Place) -> int:
        """Whoever is asked for the last stable offset from now on may not say less."""
        return self._ends[place]

    def hear_stable_end(self, place: Place, last_stable_offset: int, high_watermark: int) -> None:
        """Somebody was told both in one answer."""
        if not 0 <= last_stable_offset <= high_watermark:
            raise Violation(f"{place} is said to be stable up to {last_stable_offset}, and to end at {high_watermark}")
        self._ends[place] = max(self._ends[place], last_stable_offset)

    def ask_stable_end(self, place: Place, said: int, known_before: int) -> None:
        """`known_before`: `stable_end` when the question was asked."""
        if said < known_before:
            raise Violation(f"{place} was said to be stable up to {said}, and up to {known_before} before")
        self._ends[place] = max(self._ends[place], said)

    def fetched_offset(self, partition: int, offset: int, known_before: int, *, is_stable: bool) -> None:
        """The copying group's committed offset. `known_before`: `stable_offsets` or `any_offsets` when it was asked for."""
        if offset < known_before:
            kind = "stable" if is_stable else "committed"
            raise Violation(f"the {kind} offset of {partition} went back from {known_before} to {offset}")
        self.any_offsets[partition] = max(self.any_offsets[partition], offset)
        if is_stable:
            self.stable_offsets[partition] = max(self.stable_offsets[partition], offset)
        if offset and not any(one.may_be_seen for one in self._offsets_tried[partition][offset]):
            raise Violation(f"the committed offset of {partition} is {offset}, which no transaction committed")

    # --- the end

    def check_final(
        self,
        everything: Mapping[Place, Sequence[tuple[int, bytes]]],
        committed: Mapping[Place, Sequence[tuple[int, bytes]]],
    ) -> None:
        """Each partition read from its start to its end, with and without aborted records, when no transaction is open."""
        final = {(place, offset): value for place, records in everything.items() for offset, value in records}
        seen = {(place, offset): value for place, records in committed.items() for offset, value in records}
        for name, kept in (("acknowledged", self._acknowledged), ("read", self._read)):
            for where, value in kept.items():
                if final.get(where) != value:
                    raise Violation(f"{name} record {value!r} at {where} is now {final.get(where)!r}")
        for where, value in self._seen.items():
            if seen.get(where) != value:
                raise Violation(f"{value!r} at {where} was read as committed once, and is not there now")
        self._check_atomic(set(seen.values()))
        for place, records in committed.items():
            self._check_order(place, [value for _, value in records])

    def _check_atomic(self, seen: set[bytes]) -> None:
        for transaction in self.transactions:
            there = seen & transaction.values.keys()
            missing = transaction.values.keys() - there
            if there and not transaction.may_be_seen:
                raise Violation(f"{transaction.name} is {transaction.ending.name.lower()}, and {min(there)!r} is there")
            if missing and (there or transaction.ending is Ending.COMMITTED):
                raise Violation(
                    f"{transaction.name} is torn: {len(there)} of its records are there, {min(missing)!r} is not"
                )

    def _check_order(self, place: Place, values: Iterable[bytes]) -> None:
        """What one producer sent to a partition is there in the order of sending."""
        newest: dict[str, int] = {}
        for value in values:
            name, count = producer_and_count(value)
            if count <= newest.get(name, 0):
                raise Violation(f"record {count} of {name} follows record {newest[name]} in {place}")
            newest[name] = count

    def check_copies(
        self, source: Mapping[int, Sequence[tuple[int, bytes]]], copies: Iterable[bytes], offsets: Mapping[int, int]
    ) -> int:
        """Exactly once: what lies below the committed offset was copied, once, and nothing else. Returns how many."""
        found: dict[tuple[int, int], bytes] = {}
        for value in copies:
            origin = copied_from(value)
            if origin in found:
                raise Violation(f"{origin} was copied twice, as {found[origin]!r} and as {value!r}")
            found[origin] = value
        wanted = {
            (partition, offset)
            for partition, records in source.items()
            for offset, _ in records
            if offset < offsets[partition]
        }
        if missing := wanted - found.keys():
            raise Violation(f"{min(missing)} was not copied, and {offsets[min(missing)[0]]} is committed")
        if strangers := found.keys() - wanted:
            one = min(strangers)
            raise Violation(f"{found[one]!r} is a copy of {one}, and only {offsets[one[0]]} is committed")
        return len(found)


def new_value(producer: str, count: int, copied: tuple[int, int] | None = None) -> bytes:
    """A record's value: who sent it as which of its records, and which record of the source it is a copy of."""
    origin = "" if copied is None else f"{copied[0]}/{copied[1]}"
    return f"{producer}-{count}:{origin}".encode()


def producer_and_count(value: bytes) -> tuple[str, int]:
    name, _, count = value.partition(b":")[0].decode().rpartition("-")
    return name, int(count)


def copied_from(value: bytes) -> tuple[int, int]:
    """(partition, offset) in the source."""
    partition, _, offset = value.rpartition(b":")[2].partition(b"/")
    return int(partition), int(offset)
