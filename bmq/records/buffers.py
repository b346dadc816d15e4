"""Addresses of Python's buffers, for calls into the kernel."""

from __future__ import annotations

import ctypes

Buffer = bytes | bytearray | memoryview

_first_byte_of = ctypes.c_char.from_buffer


def address_of(buffer: Buffer) -> tuple[int, object]:
    """The address of the buffer's first byte, and an object that keeps it valid. (0, None) for an empty buffer.

    A read-only buffer is copied: its address cannot be had.
    """
    if not len(buffer):
        return 0, None
    view = memoryview(buffer)
    if view.readonly:
        view = memoryview(bytearray(view))
    first = _first_byte_of(view)
    return ctypes.addressof(first), first
