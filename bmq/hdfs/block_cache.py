"""Where the blocks of recently read files lie, by file id: a read of a known file asks no NameNode."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from bmq.hdfs.block_tokens import expiry_ms
from bmq.hdfs.blocks import FileBlocks, LocatedBlock

FILES_MAX: Final = 4096
TOKEN_MARGIN_MS: Final = 5_000  # locations are asked for anew this long before their tokens expire


class BlockRange(NamedTuple):
    """A range inside one block. `is_open`: the block is being written, its DataNodes know how long it is."""

    located: LocatedBlock
    position: int
    length_bytes: int
    is_open: bool


class FileExtents:
    """A file's blocks at one moment. Afterwards only the last block of an open file can grow.

    `tokens_expire_ms`: when the first of its block tokens expires, since 1970; None without block tokens.
    """

    __slots__ = ("_blocks", "_offsets", "_visible_bytes", "is_open", "length_bytes", "tokens_expire_ms")

    def __init__(self, blocks: FileBlocks) -> None:
        located = list(blocks.blocks)
        last = blocks.last
        if last is not None and all(block.block.block_id != last.block.block_id for block in located):
            located.append(last)
        located.sort(key=lambda block: block.offset)
        self._blocks = tuple(located)
        self._offsets = [block.offset for block in located]
        self._visible_bytes: dict[str, int] = {}
        self.is_open = blocks.is_open and not (blocks.is_last_complete or last is None)
        self.length_bytes = blocks.length_bytes
        expiries = (expiry_ms(block.token) for block in located if block.token.identifier)
        self.tokens_expire_ms = min((expiry for expiry in expiries if expiry is not None), default=None)

    def ranges(self, position: int, length_bytes: int) -> tuple[BlockRange, ...] | None:
        """The blocks under the `length_bytes` (at least 1) from `position` on; None if the file ends before."""
        ranges: list[BlockRange] = []
        end = position + length_bytes
        index = bisect_right(self._offsets, position) - 1
        while position < end:
            if not 0 <= index < len(self._blocks):
                return None
            located = self._blocks[index]
            inside = position - located.offset
            is_open = self.is_open and index == len(self._blocks) - 1
            part_bytes = end - position
            if not is_open:
                part_bytes = min(part_bytes, located.block.length_bytes - inside)
            if part_bytes <= 0:
                return None
            ranges.append(BlockRange(located, inside, part_bytes, is_open))
            position += part_bytes
            index += 1
        return tuple(ranges)

    def visible_bytes(self, node_uuid: str) -> int:
        """The known length of this node's replica of the open block."""
        return self._visible_bytes.get(node_uuid, 0)

    def note_visible(self, node_uuid: str, visible_bytes: int) -> None:
        self._visible_bytes[node_uuid] = visible_bytes


class BlockCache:
    """Keeps the FILES_MAX most recently used files. `now_ms`: the wall clock, for the expiry of block tokens."""

    def __init__(
        self, files_max: int = FILES_MAX, *, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    ) -> None:
        self._files_max = files_max
        self._now_ms = now_ms
        self._files: OrderedDict[int, FileExtents] = OrderedDict()

    def __len__(self) -> int:
        return len(self._files)

    def get(self, file_id: int) -> FileExtents | None:
        """The blocks; None if the NameNode has to be asked, also for new tokens when these expire soon."""
        extents = self._files.get(file_id)
        if extents is None:
            return None
        if extents.tokens_expire_ms is not None and extents.tokens_expire_ms - TOKEN_MARGIN_MS <= self._now_ms():
            del self._files[file_id]
            return None
        self._files.move_to_end(file_id)
        return extents

    def put(self, file_id: int, extents: FileExtents) -> None:
        self._files[file_id] = extents
        self._files.move_to_end(file_id)
        if len(self._files) > self._files_max:
            self._files.popitem(last=False)

    def forget(self, file_id: int) -> None:
        self._files.pop(file_id, None)
