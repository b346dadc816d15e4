"""Reading whole batches in chunks: every batch once, in order, to the first bad one."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.log import segment_reader
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


def file_of(data: bytes) -> tuple[CountingStore, Location]:
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
    taken = []
    for batch in eligible:
        if taken and sum(map(len, taken)) + len(batch) > length_bytes_max:
            break
        taken.append(batch)
    assert bytes(data_found) == b"".join(taken)
