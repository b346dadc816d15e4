"""Which blocks lie under a range, and the bound of what is remembered."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.hdfs.block_cache import BlockCache, FileExtents
from bmq.hdfs.blocks import Block, FileBlocks, LocatedBlock

pytestmark = pytest.mark.unit


def file_blocks(lengths: list[int], *, is_open: bool, is_last_listed: bool = True) -> FileBlocks:
    blocks = []
    offset = 0
    for index, length_bytes in enumerate(lengths):
        blocks.append(LocatedBlock(Block("pool", index, 1, length_bytes), offset, ()))
        offset += length_bytes
    last = blocks[-1] if blocks else None
    complete = blocks[:-1] if is_open else blocks
    listed = blocks if is_last_listed else complete
    complete_bytes = sum(block.block.length_bytes for block in complete)
    return FileBlocks(complete_bytes, is_open, tuple(listed), last, not is_open)


LENGTHS = st.lists(st.integers(1, 50), min_size=1, max_size=6)


@given(LENGTHS, st.data(), st.booleans())
def test_ranges_cover_exactly_what_was_asked_for(lengths: list[int], data: st.DataObject, is_last_listed: bool) -> None:
    total = sum(lengths)
    position = data.draw(st.integers(0, total - 1))
    length_bytes = data.draw(st.integers(1, total - position))
    ranges = FileExtents(file_blocks(lengths, is_open=False, is_last_listed=is_last_listed)).ranges(
        position, length_bytes
    )
    assert ranges is not None
    at = position
    for wanted in ranges:
        assert wanted.located.offset + wanted.position == at
        assert 0 < wanted.length_bytes <= wanted.located.block.length_bytes - wanted.position
        assert not wanted.is_open
        at += wanted.length_bytes
    assert at == position + length_bytes


@given(LENGTHS, st.integers(0, 400), st.integers(1, 400))
def test_a_closed_file_ends_where_its_blocks_end(lengths: list[int], position: int, length_bytes: int) -> None:
    ranges = FileExtents(file_blocks(lengths, is_open=False)).ranges(position, length_bytes)
    assert (ranges is None) == (position + length_bytes > sum(lengths))


@pytest.mark.parametrize("is_last_listed", [True, False])
def test_the_last_block_of_an_open_file_has_no_known_end(is_last_listed: bool) -> None:
    extents = FileExtents(file_blocks([10, 0], is_open=True, is_last_listed=is_last_listed))
    ranges = extents.ranges(5, 100)
    assert ranges is not None
    assert [(wanted.position, wanted.length_bytes, wanted.is_open) for wanted in ranges] == [
        (5, 5, False),
        (0, 95, True),
    ]


@pytest.mark.parametrize("is_open", [True, False])
def test_a_file_without_blocks_has_no_ranges(is_open: bool) -> None:
    assert FileExtents(file_blocks([], is_open=is_open)).ranges(0, 1) is None


def test_between_two_blocks_an_open_file_ends_where_the_complete_ones_end() -> None:
    complete = file_blocks([10], is_open=False)
    extents = FileExtents(FileBlocks(10, True, complete.blocks, complete.last, True))
    assert extents.ranges(0, 10) is not None
    assert extents.ranges(0, 11) is None


def test_the_files_used_last_are_kept() -> None:
    cache = BlockCache(files_max=2)
    extents = {file_id: FileExtents(file_blocks([file_id], is_open=False)) for file_id in (1, 2, 3)}
    cache.put(1, extents[1])
    cache.put(2, extents[2])
    assert cache.get(1) is extents[1]
    cache.put(3, extents[3])
    assert len(cache) == 2
    assert cache.get(2) is None
    assert cache.get(1) is extents[1]
    cache.forget(1)
    cache.forget(1)
    assert cache.get(1) is None
