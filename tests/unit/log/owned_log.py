"""A small owner of one partition for tests: starts as the rules say, appends, rolls, dies, and hands what it wrote over."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from bmq.log.index_cache import IndexCache
from bmq.log.names import EpochListing, PartitionPaths
from bmq.log.partition_files import PartitionFiles
from bmq.log.recovery import RecoveredLog, recover_log, write_manifest
from bmq.log.segment_index import IndexBuilder
from bmq.log.store import Buffer, Durability, FencedWriter, FileMissing, FileStatus, SegmentStore, SegmentWriter
from bmq.protocol.batch_records import Record
from bmq.protocol.control_batch import parse_end_transaction_marker
from bmq.protocol.record_batch import BatchHeader, rewrite
from tests.support.flagged_batch import flagged_batch

PARTITION = "topics/t/0"
NOW_MS = 1_700_000_000_000
INTERVAL_BYTES = 200


def batch_of(count: int = 1, *, value_bytes: int = 20, timestamp_ms: int = 1_000, **fields: object) -> bytearray:
    """A batch of `count` records, a millisecond apart. `fields` as of encode_batch."""
    records = [Record(None, bytes(value_bytes), timestamp_ms=timestamp_ms + number) for number in range(count)]
    return flagged_batch(records, **fields)  # type: ignore[arg-type]


class CountingStore:
    """Passes everything on and counts: calls by name, bytes read of segments."""

    def __init__(self, store: SegmentStore) -> None:
        self._store = store
        self.calls: list[str] = []
        self.read_bytes = 0

    def __getattr__(self, name: str) -> object:
        method = getattr(self._store, name)

        async def call(*arguments: object, **options: object) -> object:
            self.calls.append(name)
            return await method(*arguments, **options)

        return call

    async def read(self, path: str, *, file_id: int, position: int, length_bytes: int) -> Buffer:
        self.calls.append("read")
        self.read_bytes += length_bytes
        return await self._store.read(path, file_id=file_id, position=position, length_bytes=length_bytes)


class Owner:
    """Owns PARTITION at one leader epoch. `start` does rules 1 to 4."""

    def __init__(
        self,
        store: SegmentStore,
        leader_epoch: int,
        *,
        indexes: IndexCache | None = None,
        saves_rebuilt: bool = True,
    ) -> None:
        self.store = store
        self.saves_rebuilt = saves_rebuilt  # False: dies before it comes to that
        self.paths = PartitionPaths(PARTITION, leader_epoch)
        self.holder = f"owner-{leader_epoch}"
        self.indexes = indexes or IndexCache()
        self.files: PartitionFiles
        self.recovered: RecoveredLog
        self.writer: SegmentWriter | None = None
        self.builder: IndexBuilder | None = None
        self.roll = -1
        self.acknowledged: list[bytes] = []
        self.directory_id = 0

    async def start(self) -> Owner:
        await self.claim()
        await self.start_behind_the_claim()
        return self

    async def start_behind_the_claim(self) -> None:
        await self.recover()
        await self.begin()

    async def claim(self) -> None:
        paths = self.paths
        await self.store.make_directories(PARTITION)
        await self.store.make_directory(paths.own)
        await self.store.write_file(paths.owner(self.holder), b"", holder=self.holder)
        own = await self.store.status(paths.own)
        assert own is not None
        self.directory_id = own.file_id
        listing = EpochListing.of(await self.store.list_directory(PARTITION))
        for epoch in listing.to_seal(paths.leader_epoch):
            await self.store.rename(PartitionPaths(PARTITION, epoch).own, paths.epoch(epoch))
        listing = EpochListing.of(await self.store.list_directory(PARTITION))
        self.older = listing.older_epochs(paths.leader_epoch)
        for epoch in self.older:
            for entry in await self.store.list_directory(paths.epoch(epoch)):
                if entry.is_open:
                    path = paths.file(epoch, entry.name)
                    await self.store.take_over(path, previous_holder=f"owner-{epoch}")

    async def look(self) -> None:
        found = await self.store.status(self.paths.own)
        if found is None or found.file_id != self.directory_id:
            raise FencedWriter(self.paths.own)

    async def recover(self) -> RecoveredLog:
        self.recovered = await recover_log(
            self.store, self.paths, self.older, index_interval_bytes=INTERVAL_BYTES, now_ms=NOW_MS
        )
        return self.recovered

    async def begin(self) -> None:
        manifest = self.recovered.manifest(self.paths.leader_epoch)
        await write_manifest(self.store, self.paths, manifest, holder=self.holder, numbers=count())
        self.files = PartitionFiles(
            self.store,
            self.paths,
            self.recovered,
            holder=self.holder,
            indexes=self.indexes,
            index_interval_bytes=INTERVAL_BYTES,
            verify_claim=self.look,
        )
        if self.saves_rebuilt:
            await self.files.save_rebuilt()

    async def open_segment(self) -> None:
        self.roll += 1
        path = self.paths.segment(self.paths.leader_epoch, self.roll)
        self.writer = await self.store.create_segment(
            path, holder=self.holder, durability=Durability.HFLUSH, segment_bytes=1 << 20
        )
        self.builder = IndexBuilder(
            self.paths.leader_epoch,
            self.roll,
            self.writer.file_id,
            self.files.end_offset,
            interval_bytes=INTERVAL_BYTES,
        )
        self.files.begin_segment(self.builder)

    async def produce(self, batch: bytearray) -> int:
        """Append a batch, durable and counted in; its base offset."""
        if self.writer is None:
            await self.open_segment()
        assert self.writer is not None and self.builder is not None
        base_offset = self.files.end_offset
        rewrite(batch, 0, base_offset, self.paths.leader_epoch)
        await self.writer.append([batch])
        header = BatchHeader.parse(batch)
        if header.has_producer_id:
            marker = parse_end_transaction_marker(batch) if header.is_control else None
            if marker is not None:
                self.files.producers.place_marker(header, base_offset, marker, NOW_MS)
            else:
                self.files.producers.place(header, base_offset, NOW_MS)
        self.builder.add(header, base_offset, self.builder.valid_bytes)
        self.files.producers.synced(header.end_offset)
        self.acknowledged.append(bytes(batch))
        return base_offset

    async def roll_segment(self, *, is_indexed: bool = True) -> None:
        """Close the current segment; the next produce opens another."""
        assert self.writer is not None
        self.files.end_segment(self.roll)
        closed_bytes = await self.writer.close()
        index = await self.files.seal_segment(self.roll, closed_bytes)
        if is_indexed:
            await self.files.save_index(index)
        self.writer = self.builder = None

    async def read_all(self) -> bytes:
        """The whole log through its extents and own segments."""
        data = bytearray()
        for extent in self.files.extents:
            path = self.paths.segment(extent.leader_epoch, extent.roll)
            data += await self.store.read(
                path, file_id=extent.file_id, position=extent.position, length_bytes=extent.length
            )
        for builder in self.files.own_segments():
            path = self.paths.segment(builder.leader_epoch, builder.roll)
            data += await self.store.read(path, file_id=builder.file_id, position=0, length_bytes=builder.valid_bytes)
        return bytes(data)


async def entries_of(store: SegmentStore, path: str) -> Sequence[FileStatus]:
    try:
        return await store.list_directory(path)
    except FileMissing:
        return ()
