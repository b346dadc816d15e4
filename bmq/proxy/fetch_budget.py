"""Limits the bytes of records in memory that unsent responses hold.

A response counts until its last buffer is freed, when the transport has sent it or dropped it with its connection. A weak
reference notices that, so no code has to report it. Above the limit a response carries one batch: consumers get slower, but none
gets stuck.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import cast

from bmq.protocol.parts import MEMORY, Part
from bmq.protocol.wire import Buffer


class _Held(weakref.ref[memoryview]):
    __slots__ = ("size_bytes",)

    def __init__(self, tail: memoryview, freed: Callable[[_Held], None], size_bytes: int) -> None:
        super().__init__(tail, freed)  # type: ignore[call-arg]
        self.size_bytes = size_bytes

    def __new__(cls, tail: memoryview, freed: Callable[[_Held], None], size_bytes: int) -> _Held:
        return super().__new__(cls, tail, freed)


class ResponseBudget:
    """The budget. `bytes_used` may exceed `bytes_max` by one response, and by one batch for each of the others."""

    __slots__ = ("__weakref__", "_held", "bytes_max", "bytes_used")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes_used = 0
        self._held: dict[int, _Held] = {}  # by id: a reference to a writable buffer has no hash

    @property
    def room_bytes(self) -> int:
        return max(0, self.bytes_max - self.bytes_used)

    def hold(self, parts: list[Part], size_bytes: int) -> None:
        """Count `size_bytes`, less the parts in files, until the last of `parts` in memory is freed.

        To notice that, the part is replaced by a view of itself. The first part, with the answer's head, is always in memory.
        """
        place = -1
        for number, part in enumerate(parts):
            if isinstance(part, MEMORY):
                place = number
            else:
                size_bytes -= len(part)
        tail = memoryview(cast(Buffer, parts[place]))
        parts[place] = tail
        held = _Held(tail, self._give_back, size_bytes)
        self._held[id(held)] = held
        self.bytes_used += size_bytes

    def reserve(self, size_bytes: int) -> None:
        """Count bytes that are being read for a response; the caller takes them off again."""
        self.bytes_used += size_bytes

    def release(self, size_bytes: int) -> None:
        self.bytes_used -= size_bytes

    def _give_back(self, held: _Held) -> None:
        if self._held.pop(id(held), None) is not None:
            self.bytes_used -= held.size_bytes
