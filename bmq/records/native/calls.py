"""What all calls of the kernel have in common."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Final

from bmq.records import batch_layout as layout
from bmq.records.native import structures
from bmq.records.native.library import kernel
from bmq.records.native.memory import Pins

_INT64_BYTES: Final = 8


def function(name: str, *argument_types: Any) -> Callable[..., int]:
    """A function of the kernel that gives an int64, and releases the interpreter's lock."""
    library = kernel().library
    assert library is not None
    return _typed(library.at_length[name], argument_types)


def brief_function(name: str, *argument_types: Any) -> Callable[..., int]:
    """As `function`; it keeps the interpreter's lock."""
    library = kernel().library
    assert library is not None
    return _typed(library.briefly[name], argument_types)


def _typed(found: Any, argument_types: tuple[Any, ...]) -> Callable[..., int]:
    found.argtypes = argument_types
    found.restype = ctypes.c_int64
    called: Callable[..., int] = found
    return called


def body_structure(bodies: layout.Bodies, pins: Pins) -> structures.Bodies:
    """Raises ValueError when there are fewer batches than it says."""
    return structures.Bodies(
        pins.address(bodies.data),
        len(bodies.data),
        pins.address(bodies.batches, bodies.batch_count * layout.BATCH.size),
        pins.address(bodies.starts, bodies.batch_count * _INT64_BYTES),
        pins.address(bodies.ends, bodies.batch_count * _INT64_BYTES),
        bodies.batch_count,
    )


def checked(status: int) -> int:
    """Raises ValueError for arguments that contradict each other."""
    if status == -layout.BAD_CALL:
        raise ValueError("the kernel was called with numbers that contradict each other")
    return status
