"""The embedded store between real processes and on a really full disk."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bmq.local_store.store import LocalStore
from bmq.log.root import RootInUse
from bmq.log.store import Durability, LeaseHeld, StorageFull
from tests.unit.log_store.contract import create, read_all

pytestmark = pytest.mark.contract

_HOLDER = """
import asyncio, sys
from pathlib import Path
from bmq.local_store.store import LocalStore
from bmq.log.store import Durability

async def main():
    store = LocalStore(Path(sys.argv[1]), is_root_locked=sys.argv[2] == "locked")
    await store.write_file("cluster.json", b"{}", holder="holder")
    await store.make_directory("00000001.open")
    await store.write_file("00000001.open/owner", b"holder", holder="holder")
    writer = await store.create_segment(
        "00000001.open/00000000.log", holder="holder", durability=Durability.HFLUSH, segment_bytes=1 << 20
    )
    length = 0
    for _ in range(10):
        length = await writer.append([b"acknowledged|"])
    print(length, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@contextmanager
def holder(root: Path, lock: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A process that holds an epoch directory and has had this many bytes acknowledged."""
    process = subprocess.Popen([sys.executable, "-c", _HOLDER, str(root), lock], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield process, int(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one mebibyte, in a mount namespace's own tmpfs; needs root."""
    mount = tmp_path / "disk"
    mount.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(mount)], check=True)
    yield mount
    subprocess.run(["umount", str(mount)], check=True)


async def test_one_server_for_each_directory_and_kill_9_frees_it(tmp_path: Path) -> None:
    with holder(tmp_path, "locked") as (process, _):
        with pytest.raises(RootInUse, match=f"process {process.pid}"):
            LocalStore(tmp_path)
        process.send_signal(signal.SIGKILL)
        process.wait()
        store = LocalStore(tmp_path)
        await store.close()


async def test_kill_9_of_the_holder_frees_its_lease_and_loses_nothing_acknowledged(tmp_path: Path) -> None:
    with holder(tmp_path, "shared") as (process, length_bytes):
        store = LocalStore(tmp_path, is_root_locked=False)
        for _ in range(2):
            with pytest.raises(LeaseHeld):
                await store.rename("00000001.open", "00000001")
            with pytest.raises(LeaseHeld):
                await store.take_over("00000001.open/00000000.log", previous_holder="holder")
        process.send_signal(signal.SIGKILL)
        process.wait()
        await store.rename("00000001.open", "00000001")
        segment, owner = await store.list_directory("00000001")
        assert (segment.name, segment.is_open, owner.is_open) == ("00000000.log", True, False)
        assert await store.take_over("00000001/00000000.log", previous_holder="holder") == length_bytes
        assert await read_all(store, "00000001/00000000.log", length_bytes) == b"acknowledged|" * 10
        await store.close()


async def test_a_full_file_system_refuses_writes_serves_reads_and_recovers(small_disk: Path) -> None:
    store = LocalStore(small_disk)
    writer = await create(store, "first")
    acknowledged = 0
    with pytest.raises(StorageFull):
        for _ in range(100):
            acknowledged = await writer.append([b"x" * 50_000])
    assert acknowledged >= 500_000
    assert await writer.mend() == acknowledged
    assert await read_all(store, "first", acknowledged) == b"x" * acknowledged
    with pytest.raises(StorageFull):
        await store.write_file("whole", b"y" * 500_000, holder="owner")
    assert await store.status("whole") is None
    await store.delete("first")
    writer = await create(store, "second", durability=Durability.HSYNC)
    assert await writer.append([b"x" * 500_000]) == 500_000
    await writer.close()
    await store.close()


async def test_appends_from_many_tasks_keep_their_files_apart(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)

    async def write(number: int) -> None:
        writer = await create(store, f"file{number}", durability=list(Durability)[number % 2])
        for size in (10, 300_000, 1, 70_000):
            await writer.append([bytes([number]) * size])
        assert await writer.close() == 370_011

    await asyncio.gather(*(write(number) for number in range(20)))
    for number in range(20):
        assert await read_all(store, f"file{number}", 370_011) == bytes([number]) * 370_011
    await store.close()
