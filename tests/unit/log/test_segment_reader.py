"""Reading whole batches in chunks: every batch once, in order, to the first bad one."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.log import segment_reader
from bmq.log.padding import padded_end
from bmq.log.partition_log import Location
from bmq.log.segment_reader import BadBatch, SegmentReader, read_whole_batches
from bmq.log.store import FileMissing
from tests.fakes.store import FakeStore
from tests.unit.log.owned_log import CountingStore, batch_of

pytestmark = pytest.mark.unit

PATH = "topics/t/0/00000001/00000000.log"
SIZES = st.lists(st.integers(0, 300), min_size=1, max_size=12)


def batches_of(sizes: list[int]) -> list[bytes]:
    return [bytes(batch_of(2, value_bytes=size, base_offset=2 * n)) for n, size in enumerate(sizes)]


def file_of(data: bytes) -> tuple[Any, Location]:
    fake = FakeStore()
    file_id = fake.put_file(PATH, data)
    return CountingStore(fake.client("a")), Location(PATH, file_id, 0, len(data), 0, 100, True)


async def read_on(reader: SegmentReader) -> tuple[list[bytes], BadBatch | None]:
    """All batches up to the end or the bad one."""
    found: list[bytes] = []
    try:
        while (run := await reader.next_run()) is not None:
            assert run.batches
            for place, header in run.batches:
                found.append(bytes(run.data[place : place + header.size_bytes]))
            assert sum(map(len, found[-len(run.batches) :])) == len(run.data)
    except BadBatch as error:
        return found, error
    return found, None


@given(sizes=SIZES, chunk_bytes=st.integers(1, 2_000), data=st.data())
async def test_every_batch_is_read_once(sizes: list[int], chunk_bytes: int, data: st.DataObject) -> None:
    batches = batches_of(sizes)
    ends = list(accumulate(map(len, batches), initial=0))
    first = data.draw(st.integers(0, len(batches)))
    last = data.draw(st.integers(first, len(batches)))
    store, location = file_of(b"".join(batches))
    location = replace(location, position=ends[first], valid_bytes=ends[last])
    found, error = await read_on(SegmentReader.at(store, location, chunk_bytes=chunk_bytes))
    assert error is None
    assert found == batches[first:last]
    assert store.read_bytes == ends[last] - ends[first]


@given(sizes=SIZES, chunk_bytes=st.integers(1, 2_000), data=st.data())
async def test_a_damaged_or_torn_batch_ends_it(sizes: list[int], chunk_bytes: int, data: st.DataObject) -> None:
    batches = batches_of(sizes)
    ends = list(accumulate(map(len, batches), initial=0))
    number = data.draw(st.integers(0, len(batches) - 1))
    whole = bytearray(b"".join(batches))
    is_torn = data.draw(st.booleans())
    if is_torn:
        del whole[ends[number] + data.draw(st.integers(1, len(batches[number]) - 1)) :]
    else:
        # Everything behind base offset and leader epoch is checked: length, magic, checksum, and what that covers.
        position = data.draw(st.integers(0, 3) | st.integers(8, len(batches[number]) - 9)) + 8
        whole[ends[number] + position] ^= 1 << data.draw(st.integers(0, 7))
        if position in range(12, 16):
            return
    store, location = file_of(bytes(whole))
    reader = SegmentReader.at(store, location, chunk_bytes=chunk_bytes)
    found, error = await read_on(reader)
    assert found == batches[:number]
    assert error is not None
    assert error.position == ends[number]
    assert reader.position == ends[number]
    with pytest.raises(BadBatch):
        await reader.next_run()


async def test_an_absurd_length_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_reader, "BATCH_BYTES_MAX", 10_000)
    batch = batch_of(1, value_bytes=20_000)
    store, location = file_of(bytes(batch))
    _, error = await read_on(SegmentReader.at(store, location, chunk_bytes=100))
    assert error is not None
    assert store.read_bytes < 200


async def test_another_file_under_the_name_is_missing() -> None:
    store, location = file_of(bytes(batch_of()))
    with pytest.raises(FileMissing):
        await SegmentReader.at(store, replace(location, file_id=-5)).next_run()


@given(sizes=SIZES, data=st.data())
async def test_whole_batches_from_an_offset_on(sizes: list[int], data: st.DataObject) -> None:
    batches = batches_of(sizes)
    offset = data.draw(st.integers(0, 2 * len(batches) - 1))
    bound = data.draw(st.integers(0, 2 * len(batches)))
    length_bytes_max = data.draw(st.integers(0, 2_000))
    store, location = file_of(b"".join(batches))
    found = await read_whole_batches(store, location, offset, length_bytes_max, bound)
    first = offset // 2
    eligible = batches[first : bound // 2]
    if not eligible:
        assert found is None
        return
    assert found is not None
    base_offset, data_found = found
    assert base_offset == 2 * first
    taken = []  # type: ignore[var-annotated]
    for batch in eligible:
        if taken and sum(map(len, taken)) + len(batch) > length_bytes_max:  # type: ignore[arg-type]
            break
        taken.append(batch)
    assert bytes(data_found) == b"".join(taken)


# --- padding


def padded_file(groups: list[list[int]], alignments: list[int]) -> tuple[list[tuple[int, bytes]], bytes]:
    """(position and bytes of each batch, the whole file): each group is an append, padded as its writer did."""
    placed: list[tuple[int, bytes]] = []
    file = bytearray()
    for sizes, alignment_bytes in zip(groups, alignments, strict=False):
        for size in sizes:
            batch = bytes(batch_of(2, value_bytes=size, base_offset=2 * len(placed)))
            placed.append((len(file), batch))
            file += batch
        file += bytes(padded_end(len(file), alignment_bytes) - len(file))
    return placed, bytes(file)


GROUPS = st.lists(st.lists(st.integers(0, 900), min_size=1, max_size=3), min_size=1, max_size=8)
ALIGNMENTS = st.lists(st.sampled_from([1, 512, 4096]), min_size=8, max_size=8)


@given(groups=GROUPS, alignments=ALIGNMENTS, chunk_bytes=st.integers(1, 6_000), data=st.data())
async def test_padding_is_passed_over(
    groups: list[list[int]], alignments: list[int], chunk_bytes: int, data: st.DataObject
) -> None:
    """From any batch on, and to wherever the file was cut: all whole batches before that."""
    placed, file = padded_file(groups, alignments)
    first = data.draw(st.integers(0, len(placed) - 1))
    cut = data.draw(st.integers(placed[first][0], len(file)))
    store, location = file_of(file[:cut])
    reader = SegmentReader.at(store, replace(location, position=placed[first][0]), chunk_bytes=chunk_bytes)
    found: list[tuple[int, bytes]] = []
    try:
        while (run := await reader.next_run()) is not None:
            assert run.batches
            for place, header in run.batches:
                found.append((run.position + place, bytes(run.data[place : place + header.size_bytes])))
    except BadBatch as error:
        assert not file[error.position : cut].strip(b"\0") or any(at == error.position for at, _ in placed)
    assert found == [(at, batch) for at, batch in placed[first:] if at + len(batch) <= cut]
    assert store.read_bytes <= cut - placed[first][0]


async def test_what_is_not_blank_is_no_padding() -> None:
    placed, file = padded_file([[10], [10]], [4096, 4096])
    damaged = bytearray(file)
    damaged[300] = 1
    store, location = file_of(bytes(damaged))
    found, error = await read_on(SegmentReader.at(store, replace(location, valid_bytes=placed[1][0] + 100)))
    assert error is not None and "neither a record batch nor padding" in str(error)
    assert found == [placed[0][1]]


@given(groups=GROUPS, alignments=ALIGNMENTS, data=st.data())
async def test_whole_batches_are_given_back_to_back(
    groups: list[list[int]], alignments: list[int], data: st.DataObject
) -> None:
    placed, file = padded_file(groups, alignments)
    number = data.draw(st.integers(0, len(placed) - 1))
    limit = data.draw(st.integers(0, 5_000))
    store, location = file_of(file)
    location = replace(location, valid_bytes=placed[-1][0] + len(placed[-1][1]))
    found = await read_whole_batches(store, location, 2 * number, limit, 2 * len(placed))
    assert found is not None
    base_offset, records = found
    expected = b""
    for _, batch in placed[number:]:
        if expected and len(expected) + len(batch) > limit:
            break
        expected += batch
    assert base_offset == 2 * number and bytes(records) == expected
