"""The embedded store on a real directory: the contract, and what only a file system can do to it."""

from __future__ import annotations

import asyncio
import errno
import os
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings

from bmq.local_store.lease import Leases
from bmq.local_store.root import ID_ATTRIBUTE, LOCK_FILE, raise_open_files_limit
from bmq.local_store.store import LocalStore
from bmq.local_store.writer import INLINE_BYTES_MAX
from bmq.log.root import ROOT_FILE, RootForeign, RootInUse, RootUnusable
from bmq.log.store import (
    Buffer,
    CorruptFile,
    Durability,
    FencedWriter,
    FileMissing,
    LeaseHeld,
    StorageFull,
    StorageUnavailable,
    WriterBroken,
)
from tests.unit.log_store.contract import Pair, StoreContract, claimed, create, read_all, sealed, until
from tests.unit.log_store.history import STEPS, Driver, compare

pytestmark = pytest.mark.unit


class Disk:
    """The write and sync system calls, with a disk that can be full, broken or slow. Bytes left; None: no limit."""

    def __init__(self) -> None:
        self.room_bytes: int | None = None
        self.error = errno.ENOSPC
        self.write_bytes_max: int | None = None
        self.sync_error: int | None = None
        self.write_calls = 0
        self.sync_calls = 0

    def writev(self, descriptor: int, buffers: Sequence[Buffer]) -> int:
        self.write_calls += 1
        data = b"".join(buffers)
        if self.write_bytes_max is not None:
            data = data[: self.write_bytes_max]
        if self.room_bytes is not None:
            if self.room_bytes == 0 and data:
                raise OSError(self.error, os.strerror(self.error))
            data = data[: self.room_bytes]
            self.room_bytes -= len(data)
        return os.write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        self.sync_calls += 1
        if self.sync_error is not None:
            raise OSError(self.sync_error, os.strerror(self.sync_error))
        os.fdatasync(descriptor)


@pytest.fixture
async def local_store(tmp_path: Path) -> AsyncIterator[LocalStore]:
    store = LocalStore(tmp_path / "data")
    yield store
    await store.close()


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
async def disk_store(tmp_path: Path, disk: Disk) -> AsyncIterator[LocalStore]:
    store = LocalStore(tmp_path / "data", writev=disk.writev, sync=disk.sync)
    yield store
    await store.close()


class TestLocalStoreContract(StoreContract):
    @pytest.fixture
    def pair(self, local_store: LocalStore) -> Pair:
        return Pair(local_store, local_store)


@given(steps=STEPS)
@settings(max_examples=40)
def test_any_history_is_the_models(steps: list[tuple[object, ...]]) -> None:
    async def run(root: Path) -> None:
        store = LocalStore(root)
        try:
            await compare(steps, Driver(store, ignored=frozenset({LOCK_FILE})))
        finally:
            await store.close()

    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(run(Path(directory)))


# --- failing disks


@pytest.mark.parametrize("length_bytes", [100, INLINE_BYTES_MAX + 100], ids=["inline", "thread"])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
async def test_a_full_disk_breaks_the_writer_and_mending_drops_the_torn_end(
    disk_store: LocalStore, disk: Disk, error: int, length_bytes: int
) -> None:
    writer = await create(disk_store, "file")
    await writer.append([b"acknowledged"])
    disk.room_bytes, disk.error = 50, error
    with pytest.raises(StorageFull):
        await writer.append([b"x" * length_bytes])
    with pytest.raises(StorageFull):
        await writer.append([b"later"])
    with pytest.raises(StorageFull):
        await writer.close()
    assert await writer.mend() == 12
    disk.room_bytes = 0
    with pytest.raises(StorageFull):
        await disk_store.write_file("manifest", b"data", holder="owner")
    assert await disk_store.status("manifest") is None
    assert await read_all(disk_store, "file", 12) == b"acknowledged"
    disk.room_bytes = None
    writer = await create(disk_store, "next")
    assert await writer.append([b"x" * length_bytes]) == length_bytes
    assert await writer.close() == length_bytes


async def test_a_broken_disk_is_not_a_full_one(disk_store: LocalStore, disk: Disk) -> None:
    writer = await create(disk_store, "file")
    disk.room_bytes, disk.error = 0, errno.EIO
    with pytest.raises(WriterBroken) as raised:
        await writer.append([b"abc"])
    assert not isinstance(raised.value, StorageFull)
    assert await writer.mend() == 0


@pytest.mark.parametrize("length_bytes", [1000, INLINE_BYTES_MAX + 1000], ids=["inline", "thread"])
async def test_short_writes_are_continued(disk_store: LocalStore, disk: Disk, length_bytes: int) -> None:
    disk.write_bytes_max = 999 if length_bytes == 1000 else 77_777
    content = (bytes(range(256)) * 2000)[:length_bytes]
    writer = await create(disk_store, "file")
    assert await writer.append([content[:10], content[10:600], b"", content[600:]]) == length_bytes
    assert disk.write_calls > 1
    assert await read_all(disk_store, "file", length_bytes) == content


async def test_a_failed_sync_acknowledges_nothing_and_mending_keeps_what_was_synced(
    disk_store: LocalStore, disk: Disk
) -> None:
    writer = await create(disk_store, "file", durability=Durability.HSYNC)
    assert await writer.append([b"synced"]) == 6
    disk.sync_error = errno.EIO
    answers = [writer.append([b"lost"]), writer.append([b"lost too"])]
    results = await asyncio.gather(*answers, return_exceptions=True)
    assert [type(result) for result in results] == [WriterBroken, WriterBroken]
    with pytest.raises(StorageUnavailable):
        await writer.mend()
    disk.sync_error = None
    assert await writer.mend() == 6
    assert await read_all(disk_store, "file", 6) == b"synced"


async def test_appends_that_wait_share_a_sync(disk_store: LocalStore, disk: Disk) -> None:
    writer = await create(disk_store, "file", durability=Durability.HSYNC)
    answers = [writer.append([b"x"]) for _ in range(50)]
    assert [await answer for answer in answers] == list(range(1, 51))
    assert disk.sync_calls <= 3


async def test_hflush_needs_no_sync_and_answers_at_once(disk_store: LocalStore, disk: Disk) -> None:
    writer = await create(disk_store, "file")
    answer = writer.append([b"abc"])
    assert answer.done() and answer.result() == 3
    assert disk.sync_calls == 0
    assert await writer.close() == 3
    assert disk.sync_calls == 1


async def test_after_a_large_append_small_ones_keep_their_place(disk_store: LocalStore) -> None:
    writer = await create(disk_store, "file")
    large = writer.append([b"L" * (INLINE_BYTES_MAX + 1)])
    small = writer.append([b"s"])
    assert not large.done() and not small.done()
    assert await small == INLINE_BYTES_MAX + 2
    assert large.done()
    assert await read_all(disk_store, "file", INLINE_BYTES_MAX + 2) == b"L" * (INLINE_BYTES_MAX + 1) + b"s"


async def test_a_takeover_waits_for_the_thread_that_writes(disk_store: LocalStore) -> None:
    writer = await create(disk_store, "file")
    answers = [writer.append([bytes([n]) * (INLINE_BYTES_MAX + 1)]) for n in range(4)]
    length_bytes = await disk_store.take_over("file", previous_holder="owner")
    results = await asyncio.gather(*answers, return_exceptions=True)
    assert all(isinstance(result, int | FencedWriter) for result in results)
    assert max((result for result in results if isinstance(result, int)), default=0) <= length_bytes
    status = await disk_store.status("file")
    assert status is not None and (status.is_open, status.length_bytes) == (False, length_bytes)


async def test_a_directory_whose_making_was_cut_short_gets_an_id(local_store: LocalStore) -> None:
    """By a kill between mkdir and setxattr. Two directories without an id would look the same (rule 20)."""
    (local_store.root / "half-made").mkdir()
    before = await local_store.status("half-made")
    assert before is not None and before.file_id == 0
    await local_store.make_directory("half-made")
    after = await local_store.status("half-made")
    assert after is not None and after.file_id > 0
    await local_store.make_directory("half-made")
    assert await local_store.status("half-made") == after


async def test_a_file_copied_without_its_id_is_not_read(local_store: LocalStore) -> None:
    """All such files have the same id, 0: what is kept by ids would give one file's bytes for another's."""
    for name in (b"a", b"b"):
        writer = await create(local_store, name.decode())
        await writer.append([name * 100])
        await writer.close()
        await local_store.write_file(f"whole-{name.decode()}", name, holder="owner")
        for path in (name.decode(), f"whole-{name.decode()}"):
            os.removexattr(local_store.root / path, ID_ATTRIBUTE)
    for path in ("a", "b"):
        status = await local_store.status(path)
        assert status is not None and status.file_id == 0
        assert local_store.file_part(path, file_id=0, position=0, length_bytes=100) is None
        for refused in (
            local_store.read(path, file_id=0, position=0, length_bytes=100),
            local_store.take_over(path, previous_holder="owner"),
            local_store.read_file(f"whole-{path}", length_bytes_max=100),
        ):
            with pytest.raises(CorruptFile, match=r"without its extended attributes.*cp -a"):
                await refused


async def test_a_file_whose_making_was_cut_short_is_closed(local_store: LocalStore) -> None:
    """By a kill between open and setxattr: nothing was written into it."""
    (local_store.root / "half-made").touch()
    assert await local_store.take_over("half-made", previous_holder="owner") == 0


async def test_a_directory_copied_without_ids_is_refused(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "data")
    await store.write_file(ROOT_FILE, b"{}", holder="owner")
    await store.close()
    os.removexattr(tmp_path / "data" / ROOT_FILE, ID_ATTRIBUTE)
    with pytest.raises(RootUnusable, match=r"without its extended attributes.*cp -a"):
        LocalStore(tmp_path / "data")


async def test_a_cancelled_create_leaks_nothing(local_store: LocalStore) -> None:
    path = await claimed(local_store)
    creating = asyncio.ensure_future(create(local_store, f"{path}/file"))
    await asyncio.sleep(0)
    creating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await creating
    await until((local_store.root / path / "file").exists)
    assert await local_store.take_over(f"{path}/file", previous_holder="owner") == 0


# --- leases between processes; two stores stand for two processes, the kernel treats their locks alike


@pytest.fixture
async def rivals(tmp_path: Path) -> AsyncIterator[Pair]:
    first, second = (LocalStore(tmp_path, is_root_locked=False) for _ in range(2))
    yield Pair(first, second)
    await first.close()
    await second.close()


async def test_a_living_process_keeps_its_epoch_directory(rivals: Pair) -> None:
    path = await claimed(rivals.owner)
    await rivals.owner.write_file(f"{path}/owner", b"me", holder="owner")
    writer = await create(rivals.owner, f"{path}/00000000.log")
    await writer.append([b"abc"])
    for attempt in (
        rivals.successor.rename(path, sealed(path)),
        rivals.successor.take_over(f"{path}/00000000.log", previous_holder="owner"),
        create(rivals.successor, f"{path}/00000001.log"),
        rivals.successor.write_file(f"{path}/manifest.00000000", b"", holder="b"),
    ):
        with pytest.raises(LeaseHeld):
            await attempt
    assert await writer.append([b"def"]) == 6
    await rivals.owner.close()
    await rivals.successor.rename(path, sealed(path))
    status = await rivals.successor.status(f"{sealed(path)}/00000000.log")
    assert status is not None and status.is_open
    assert await rivals.successor.take_over(f"{sealed(path)}/00000000.log", previous_holder="owner") == 6


async def test_the_lock_moves_with_the_directory_while_somebody_writes_in_it(rivals: Pair) -> None:
    path = await claimed(rivals.owner)
    writer = await create(rivals.owner, f"{path}/00000000.log")
    await rivals.owner.rename(path, sealed(path))
    with pytest.raises(LeaseHeld):
        await rivals.successor.take_over(f"{sealed(path)}/00000000.log", previous_holder="owner")
    await writer.close()
    assert await rivals.successor.take_over(f"{sealed(path)}/00000000.log", previous_holder="owner") == 0
    await rivals.successor.rename(sealed(path), f"{sealed(path)}.moved")


async def test_leases_are_let_go_with_their_directories(tmp_path: Path) -> None:
    leases = Leases()
    paths = [tmp_path / name for name in ("1.open", "2.open")]
    for path in paths:
        path.mkdir()
    held = [leases.hold(str(path)) for path in paths]
    assert leases.hold(str(tmp_path)) is None
    leases.release(held[0])
    leases.deleted(str(tmp_path))
    other = Leases()
    assert other.hold(str(paths[0])) is not None
    with pytest.raises(LeaseHeld):
        leases.hold(str(paths[0]))
    other.close()
    with pytest.raises(FileMissing):
        leases.hold(str(tmp_path / "3.open"))
    leases.release(held[1])
    leases.close()


# --- the data directory


async def test_two_servers_on_one_directory(tmp_path: Path) -> None:
    first = LocalStore(tmp_path)
    with pytest.raises(RootInUse, match=f"in use by another server \\(process {os.getpid()}\\)"):
        LocalStore(tmp_path)
    await first.close()
    await first.close()
    second = LocalStore(tmp_path)
    await second.close()


def test_a_foreign_directory_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    with pytest.raises(RootForeign, match="photos"):
        LocalStore(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["photos"]


async def test_a_directory_with_a_cluster_is_taken(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    await store.make_directories("topics")
    await store.write_file(ROOT_FILE, b"{}", holder="owner")
    await store.close()
    await LocalStore(tmp_path).close()


async def test_a_server_that_died_in_its_first_start_is_forgiven(tmp_path: Path) -> None:
    (tmp_path / f"{ROOT_FILE}.node-1-00.id").write_text("{")
    await LocalStore(tmp_path).close()


def test_what_is_not_a_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RootUnusable, match="is not a directory"):
        LocalStore(tmp_path / "file")
    with pytest.raises(RootUnusable, match="is not a directory"):
        LocalStore(tmp_path / "file" / "below")


def test_a_directory_that_cannot_be_written() -> None:
    with pytest.raises(RootUnusable, match="cannot be"):
        LocalStore(Path("/proc/bmq"))
    with pytest.raises(RootUnusable, match="cannot be"):
        LocalStore(Path("/sys/kernel/bmq"))


def test_as_many_files_as_allowed() -> None:
    assert raise_open_files_limit() >= 1024
