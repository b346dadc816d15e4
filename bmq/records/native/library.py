"""Finds and loads the kernel, the shared library made of the C sources beside this module.

It is there if a C compiler was there when bmq was installed. Without it, or with one that cannot be used, `kernel()`
says why and callers use their Python twins, which give the same answers.
"""

from __future__ import annotations

import ctypes
import hashlib
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

ABI: Final = 10
"""BMQ_KERNEL_ABI of the sources that this package calls."""
FILE_NAME: Final = "libbmqkernel.so"
CHECKSUM_SUFFIX: Final = ".sha256"
"""A file beside the library with its SHA-256 in hexadecimal: loading a damaged library can end the process."""

_ELF: Final = b"\x7fELF"
_ELF_HEAD_BYTES: Final = 20


class KernelUnusable(Exception):
    """There is no kernel, or not one for this package and processor. The text says why."""


class Library(NamedTuple):
    """The loaded kernel, twice. `briefly` keeps the interpreter's lock, `at_length` releases it during a call.

    Releasing costs an event loop up to 5 ms when other threads compute: calls of microseconds keep the lock.
    """

    path: Path
    briefly: ctypes.PyDLL
    at_length: ctypes.CDLL


class Kernel(NamedTuple):
    """`library`: None when there is none to use, and then `reason` says why."""

    library: Library | None
    reason: str


def load(path: Path) -> Library:
    """Load the library at `path`. Raises KernelUnusable."""
    try:
        data = path.read_bytes()
        expected = path.with_name(path.name + CHECKSUM_SUFFIX).read_text().strip()
    except FileNotFoundError:
        raise KernelUnusable(f"{path.name} is not there: bmq was installed without a C compiler") from None
    except (OSError, UnicodeDecodeError) as error:
        raise KernelUnusable(f"{path.name} cannot be read: {error}") from error
    if hashlib.sha256(data).hexdigest() != expected:
        raise KernelUnusable(f"{path.name} is damaged: its checksum is another one")
    try:
        briefly, at_length = ctypes.PyDLL(str(path)), ctypes.CDLL(str(path))
        abi = at_length.bmq_kernel_abi()
    except (OSError, AttributeError) as error:
        if _is_for_another_processor(data):
            # The system's loader ignores such a file and reports that it does not exist.
            raise KernelUnusable(f"{path.name} is made for another processor") from error
        raise KernelUnusable(f"{path.name} cannot be loaded: {error}") from error
    if abi != ABI:
        raise KernelUnusable(f"{path.name} has interface {abi}, this version of bmq calls interface {ABI}")
    return Library(path, briefly, at_length)


def _is_for_another_processor(data: bytes) -> bool:
    try:
        with open("/proc/self/exe", "rb") as file:
            interpreter = file.read(_ELF_HEAD_BYTES)
    except OSError:
        return False
    # Width of addresses, byte order and processor.
    return data[:4] == _ELF and (data[4:6], data[18:20]) != (interpreter[4:6], interpreter[18:20])


@cache
def kernel() -> Kernel:
    """The kernel beside this module, loaded once per process."""
    try:
        return Kernel(load(Path(__file__).with_name(FILE_NAME)), "")
    except KernelUnusable as error:
        return Kernel(None, str(error))
