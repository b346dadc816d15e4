"""The runs of one partition that still have records to deliver, and which of these records are in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import aclosing
from typing import Final, NamedTuple

from bmq.broker.owned_partition import OwnedPartition
from bmq.broker.timers.hold_reader import AHEAD_MS
from bmq.dataclass import dataclass
from bmq.log.damage import file_damage, reason_of, require_accepted
from bmq.log.names import run_name
from bmq.log.partition_files import PartitionFiles
from bmq.log.store import CorruptFile, FileMissing
from bmq.log.timers.announcements import Position
from bmq.log.timers.due_bodies import DueBodies, without_cancellations
from bmq.log.timers.due_order import DueOrder
from bmq.log.timers.run_file import BLOCK_BYTES
from bmq.log.timers.run_merging import merged
from bmq.log.timers.run_reader import RunReader
from bmq.log.timers.run_reference import RunReference
from bmq.records.held_row_layout import ROW_FIELDS

LOAD_BYTES_MAX: Final = 256 * 1024
"""Most bytes of one read of a run, except for a single block that is longer."""


class RunKey(NamedTuple):
    leader_epoch: int
    number: int

    @classmethod
    def of(cls, run: RunReference) -> RunKey:
        return cls(run.leader_epoch, run.number)


@dataclass(slots=True)
class _Cursor:
    """How far one run was loaded.

    `next_block`: number of the first block that was not loaded; None before the first load. `left_count`: records and
    cancellations in the blocks from there on.
    """

    reader: RunReader
    next_block: int | None = None
    left_count: int = 0


class PendingRuns:
    """Loads records of runs into `order` when they come due, and says what of them is not loaded (`order.unloaded`).

    `bodies`: the bodies of loaded records.
    """

    def __init__(self, partition: OwnedPartition, order: DueOrder, runs: Iterable[RunReference] = ()) -> None:
        self._partition = partition
        self._order = order
        self._cursors: dict[RunKey, _Cursor] = {}
        self.bodies = DueBodies()
        order.may_be_in_run = self._may_have
        self.add(runs)

    @property
    def references(self) -> tuple[RunReference, ...]:
        """The runs that a manifest has to name."""
        return tuple(cursor.reader.run for cursor in self._cursors.values())

    @property
    def readers(self) -> tuple[RunReader, ...]:
        return tuple(cursor.reader for cursor in self._cursors.values())

    @property
    def count(self) -> int:
        """Upper bound of the pending records: those loaded, and all records and cancellations of blocks that are not loaded.

        A run that nothing was loaded from counts as a whole, also what was delivered of it before.
        """
        return self._order.loaded_count + sum(cursor.left_count for cursor in self._cursors.values())

    def _may_have(self, place: Position) -> bool:
        runs = (cursor.reader.run for cursor in self._cursors.values())
        return any(run.first <= place <= run.last and place.offset < run.end_offset for run in runs)

    # --- the runs

    def add(self, runs: Iterable[RunReference]) -> None:
        """Add runs whose records `order` does not have."""
        paths, store = self._partition.paths, self._partition.context.store
        for run in runs:
            reader = RunReader(store, paths.run(run.leader_epoch, run.number), run)
            self._cursors[RunKey.of(run)] = _Cursor(reader, left_count=run.count)
            self._order.unloaded[RunKey.of(run)] = run.first

    def replace(self, replaced: Sequence[RunReference], runs: Iterable[RunReference]) -> None:
        """Put the merged `runs` in the place of those `replaced`; both have the same records. Only while `order` is settled."""
        for run in replaced:
            self._cursors.pop(RunKey.of(run), None)
        self.add(runs)
        self.bodies.clear()
        self._order.unload()
        self._order.unloaded.clear()
        for key, cursor in self._cursors.items():
            cursor.next_block, cursor.left_count = None, cursor.reader.run.count
            self._order.unloaded[key] = cursor.reader.run.first

    def drop_passed(self) -> bool:
        """Forget the runs whose records are all delivered durably. Returns whether there was such a run."""
        position = self._order.position
        passed = [key for key, cursor in self._cursors.items() if cursor.reader.run.last <= position]
        for key in passed:
            del self._cursors[key]
            self._order.unloaded.pop(key, None)
        return bool(passed)

    async def listed(self, after: Position, limit: int) -> tuple[Position, ...]:
        """The first `limit` pending records of runs behind `after`, loaded or not. Raises as RunReader does."""
        order = self._order
        found: list[Position] = []
        if not limit:
            return ()
        readers = [cursor.reader for cursor in self._cursors.values() if cursor.reader.run.last > after]
        async with aclosing(merged(readers, max(after, order.position))) as records:
            async for record in records:
                if len(found) == limit:
                    break
                place = Position(record.due_ms, record.offset)
                if not record.is_cancellation and not order.is_cancelled(place):
                    found.append(place)
        return tuple(found)

    async def has(self, place: Position) -> bool:
        """Whether a run has a record at this place (due time and name). Raises as RunReader does."""
        before = Position(place.due_ms, place.offset - 1)
        for reader in self.readers:
            if not reader.run.first <= place <= reader.run.last:
                continue
            block = (await reader.index()).block_of(place)
            if block is None:
                continue
            blocks = await reader.read(block, before, until_ms=-1, bytes_max=BLOCK_BYTES)
            if any((one.due_ms, one.offset) == place and not one.is_cancellation for one in blocks.records[:1]):
                return True
        return False

    # --- their records

    async def load(self, now_ms: int) -> None:
        """Read records of runs that are due now and not in memory. Raises StateDamaged, KafkaError, StorageUnavailable."""
        unloaded = self._order.unloaded
        if not unloaded:
            return
        due_ms = max(now_ms, self._order.position.due_ms)
        for key, cursor in tuple(self._cursors.items()):
            if key in unloaded and unloaded[key].due_ms <= due_ms:
                try:
                    await self._load(key, cursor, due_ms + AHEAD_MS)
                except (FileMissing, CorruptFile) as error:
                    await self._require_accepted(cursor, error)
                    del self._cursors[key], unloaded[key]

    async def _load(self, key: RunKey, cursor: _Cursor, until_ms: int) -> None:
        order, reader = self._order, cursor.reader
        index = await reader.index()
        if cursor.next_block is None:
            above = index.block_above(order.position)
            cursor.next_block = len(index) if above is None else above
        if cursor.next_block < len(index):
            blocks = await reader.read_rows(cursor.next_block, order.position, LOAD_BYTES_MAX, until_ms=until_ms)
            cursor.next_block = blocks.next_block
            rows, cancelled = without_cancellations(blocks.rows)
            self.bodies.add(rows, blocks.data)
            order.load(zip(rows[::ROW_FIELDS], rows[1::ROW_FIELDS], strict=True), cancelled)
        if cursor.next_block < len(index):
            order.unloaded[key] = index.first_of(cursor.next_block)
            cursor.left_count = index.count - index.counts[cursor.next_block]
        else:
            cursor.left_count = 0
            del order.unloaded[key]

    async def _require_accepted(self, cursor: _Cursor, error: FileMissing | CorruptFile) -> None:
        """Return only if an operator accepted the loss of this run (rule 25).

        Raises StateDamaged, KafkaError, StorageUnavailable.
        """
        run, partition = cursor.reader.run, self._partition
        await partition.with_files(_verify_claim)  # raises if a newer owner exists: then a missing file is no damage
        damage = file_damage(partition.paths.partition, run.leader_epoch, run_name(run.number), reason_of(error))
        await require_accepted(partition.context.store, damage)


async def _verify_claim(files: PartitionFiles) -> None:
    await files.verify_claim()
