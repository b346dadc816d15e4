"""What all message classes share."""

from __future__ import annotations

from typing import Any


class Message:
    """Base of the classes in messages/. Each is a dataclass that brings its own `__init__`, and compares and prints as any
    other: a method that is written once for all need not be compiled for each of two hundred classes at every start.
    """

    __slots__: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return self._values() == other._values()

    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{self.__class__.__qualname__}({', '.join(shown)})"

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.__slots__)
