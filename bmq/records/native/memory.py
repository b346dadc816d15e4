"""Addresses of Python's buffers, for calls of the kernel."""

from __future__ import annotations

import ctypes
from array import array
from mmap import mmap
from typing import Final

from bmq.protocol.compression import Buffer

_SIMPLE: Final = 0


class _PyBuffer(ctypes.Structure):
    """Python's Py_buffer, which has been the same since Python 3.0 (PEP 3118) and is part of its stable ABI."""

    _fields_ = (
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_void_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    )


_get = ctypes.pythonapi.PyObject_GetBuffer
_get.argtypes = (ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int)
_get.restype = ctypes.c_int
_release = ctypes.pythonapi.PyBuffer_Release
_release.argtypes = (ctypes.POINTER(_PyBuffer),)
_release.restype = None


class Pins:
    """Holds buffers where they are, read-only ones too, until it is closed. For one call: `with Pins() as pins`."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: list[_PyBuffer] = []

    def __enter__(self) -> Pins:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let all of them go."""
        while self._held:
            _release(self._held.pop())

    def address(self, buffer: Buffer | array[int] | mmap, bytes_min: int = 0) -> int | None:
        """Where the buffer's bytes are; None if it has none. Raises ValueError when they are fewer than `bytes_min`.

        Raises BufferError when they are not contiguous.
        """
        view = _PyBuffer()
        _get(buffer, view, _SIMPLE)
        self._held.append(view)
        if view.len < bytes_min:
            raise ValueError(f"{view.len} bytes in place of {bytes_min}")
        address: int | None = view.buf
        return address
