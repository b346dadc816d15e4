"""Parts of local files: what is sent is what was written, and nothing is kept open for long."""

from __future__ import annotations

import asyncio
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

from bmq.local_store import file_part
from bmq.local_store.file_part import LocalFilePart, OpenFile
from bmq.local_store.store import LocalStore
from bmq.log.store import Durability, FencedWriter
from bmq.protocol.wire import Buffer

pytestmark = pytest.mark.unit

DATA = Random(1).randbytes(300_000)


async def written(store: LocalStore) -> int:
    """The id of the file "p/0.log", which holds DATA."""
    await store.make_directories("p")
    writer = await store.create_segment("p/0.log", holder="me", durability=Durability.HFLUSH, segment_bytes=2**20)
    await writer.append([DATA])
    return writer.file_id


def part_of(store: LocalStore, file_id: int, position: int, length_bytes: int) -> LocalFilePart:
    found = store.file_part("p/0.log", file_id=file_id, position=position, length_bytes=length_bytes)
    if found is None:
        pytest.skip("this kernel does not tell what is in the page cache")
    return found


def sent_of(part: LocalFilePart, position: int) -> bytes:
    left, right = socket.socketpair()
    with left, right:
        left.setblocking(False)
        count = part.send(left.fileno(), position)
        return right.recv(count, socket.MSG_WAITALL)


async def test_what_was_written_is_sent(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    file_id = await written(store)
    part = part_of(store, file_id, 5_000, 100_000)
    assert len(part) == 100_000
    found = sent_of(part, 0)
    assert found and found == DATA[5_000 : 5_000 + len(found)]
    found = sent_of(part, 99_990)
    assert found == DATA[104_990:105_000]
    later = part.from_position(99_000)
    assert len(later) == 1_000
    assert sent_of(later, 0) == DATA[104_000:105_000]
    assert part.peek(99_999, 10) == DATA[104_999:105_000]
    await store.close()


async def test_a_part_is_loaded_by_a_thread(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    part = part_of(store, await written(store), 0, len(DATA))
    loaded: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
    part.load(10, loaded.set_result)
    assert await loaded is None
    assert part.is_cached(10)
    await store.close()


async def test_another_file_in_its_place_and_none_at_all(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    file_id = await written(store)
    assert store.file_part("p/0.log", file_id=file_id + 1, position=0, length_bytes=1) is None
    assert store.file_part("p/1.log", file_id=file_id + 2, position=0, length_bytes=1) is None
    await store.close()


async def test_what_is_past_the_end_is_never_in_memory(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    file_id = await written(store)
    part_of(store, file_id, 0, 1)
    assert store.file_part("p/0.log", file_id=file_id, position=0, length_bytes=len(DATA) + 8192) is None
    await store.close()


async def test_a_deleted_file_is_let_go_of_once_it_is_sent(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    file_id = await written(store)
    part = part_of(store, file_id, 0, 100)
    assert len(store._open_files) == 1
    await store.delete("p", recursive=True)
    assert len(store._open_files) == 0
    assert sent_of(part, 0) == DATA[:100]  # the answer that has it is sent whole
    assert store.file_part("p/0.log", file_id=file_id, position=0, length_bytes=1) is None
    await store.close()


async def test_a_file_that_is_deleted_leaves_the_others_alone(tmp_path: Path) -> None:
    """Retention may delete thousands one after the other, beside readers and writers of other files."""
    store = LocalStore(tmp_path)
    kept_id = await written(store)
    doomed = await store.create_segment("p/1.log", holder="a", durability=Durability.HFLUSH, segment_bytes=1000)
    await doomed.append([DATA])
    other = await store.create_segment("p/2.log", holder="a", durability=Durability.HFLUSH, segment_bytes=1000)
    part = part_of(store, kept_id, 0, 100)
    assert await store.delete("p/1.log")
    assert len(store._open_files) == 1
    with pytest.raises(FencedWriter):
        await doomed.append([DATA])
    await other.append([DATA])
    assert sent_of(part, 0) == DATA[:100]
    await other.close()
    await store.close()


async def test_few_files_are_kept_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_part, "OPEN_FILES_MAX", 2)
    files = file_part.OpenFiles()
    for number in range(3):
        (tmp_path / str(number)).write_bytes(b"x")
        files.put(number, file_part.OpenFile(tmp_path / str(number)))
        assert files.get(0) is not None or number == 2
    assert len(files) == 2 and files.get(1) is None and files.get(0) is not None


async def test_copies_are_whole_from_memory_and_by_a_thread(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    part = part_of(store, await written(store), 5_000, 100_000)
    assert part.read_cached(99_000, 5_000) == DATA[104_000:105_000]
    found: asyncio.Future[Buffer | OSError] = asyncio.get_running_loop().create_future()
    part.read(10, 200_000, found.set_result)
    assert await found == DATA[5_010:105_000]
    await store.close()


async def test_copies_behind_the_end_of_a_file_are_short(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(DATA)
    with ThreadPoolExecutor(1) as threads:
        part = LocalFilePart(OpenFile(tmp_path / "file"), 0, len(DATA) + 10, asyncio.get_running_loop(), threads)
        assert part.read_cached(len(DATA), 10) == b""
        found: asyncio.Future[Buffer | OSError] = asyncio.get_running_loop().create_future()
        part.read(len(DATA) - 1, 11, found.set_result)
        assert await found == DATA[-1:]


async def test_a_copy_that_fails_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(DATA)
    file = OpenFile(tmp_path / "file")
    with ThreadPoolExecutor(1) as threads:
        part = LocalFilePart(file, 0, 10, asyncio.get_running_loop(), threads)
        os.close(file.descriptor)
        file.descriptor = -1
        found: asyncio.Future[Buffer | OSError] = asyncio.get_running_loop().create_future()
        part.read(0, 10, found.set_result)
        assert isinstance(await found, OSError)
