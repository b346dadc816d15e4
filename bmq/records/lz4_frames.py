"""Tells LZ4 data that all clients read alike: one frame of independent blocks and nothing behind it.

By the kernel (native/lz4_frame.c), or by its twin here where there is no kernel.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from struct import Struct
from typing import Final

from bmq.records.buffers import Buffer, address_of
from bmq.records.native.library import kernel

_MAGIC: Final = 0x184D2204
_WORD: Final = Struct("<I")


def is_one_frame(data: Buffer) -> bool:
    """Whether the data is one such frame. Checksums and the blocks themselves are left to the decoder."""
    return _checker()(data)


@cache
def _checker() -> Callable[[Buffer], bool]:
    library = kernel().library
    if library is None:
        return is_one_frame_twin
    function = library.briefly.bmq_lz4_is_one_frame
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    function.restype = ctypes.c_int32

    def is_one(data: Buffer) -> bool:
        address, _keep = address_of(data)
        return address != 0 and function(address, len(data)) == 1

    return is_one


def is_one_frame_twin(data: Buffer) -> bool:
    """As the kernel answers."""
    size = len(data)
    if size < 7 or _WORD.unpack_from(data)[0] != _MAGIC or data[4] & 0xE3 != 0x60:
        return False
    flags = data[4]
    checksum_bytes = 4 if flags & 0x10 else 0
    place = 15 if flags & 0x08 else 7
    while True:
        if size - place < 4:
            return False
        (word,) = _WORD.unpack_from(data, place)
        place += 4
        if not word:
            return size - place == (4 if flags & 0x04 else 0)
        place += (word & 0x7FFF_FFFF) + checksum_bytes
        if place > size:
            return False
