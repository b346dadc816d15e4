"""Takes whole packets of a block out of received bytes, many at a time, by the kernel: native/block_packets.c."""

from __future__ import annotations

import ctypes
from typing import Final

from bmq.hdfs.chunk_checksums import has_instruction
from bmq.records.native.calls import brief_function
from bmq.records.native.library import kernel
from bmq.records.native.memory import Pins

IS_THERE: Final = kernel().library is not None and has_instruction()
"""Else packets are taken one by one alone."""


class _BlockRead(ctypes.Structure):
    _fields_ = (
        ("next_offset", ctypes.c_int64),
        ("filled", ctypes.c_int64),
        ("answer_bytes", ctypes.c_int64),
        ("chunk_bytes", ctypes.c_int64),
    )


_take = (
    brief_function("bmq_take_packets", ctypes.c_void_p, ctypes.c_int64, ctypes.POINTER(_BlockRead), ctypes.c_void_p)
    if IS_THERE
    else None
)


def take_packets(
    data: memoryview, answer: bytearray, *, filled: int, next_offset: int, chunk_bytes: int
) -> tuple[int, int]:
    """Take packets with CRC32C. Returns (bytes of `data` that were taken, bytes of the answer so far).

    It takes packets from the beginning of `data` up to the first that is incomplete, is the last one, or is wrong. The caller
    takes that one by itself and finds out. `next_offset`: the offset in the block at which the next packet has to begin.
    """
    if _take is None:
        return 0, filled
    read = _BlockRead(next_offset, filled, len(answer), chunk_bytes)
    with Pins() as pins:
        taken = _take(pins.address(data), len(data), read, pins.address(answer))
    if taken < 0:
        raise ValueError(f"{filled} bytes of {len(answer)} are there, with {chunk_bytes} under a checksum")
    return taken, read.filled
