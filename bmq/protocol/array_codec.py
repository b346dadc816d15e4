"""Reads and writes a message around one of its own arrays, whose elements come and go one by one.

A message of 240,000 elements takes many times its bytes as objects. Here only one element is an object at a time.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from bmq.dataclass import dataclass
from bmq.protocol.errors import MalformedMessage
from bmq.protocol.turns import ELEMENTS_PER_TURN_MAX
from bmq.protocol.wire import ELEMENTS_MAX, Buffer, Entity, is_number, read_unsigned_varint, too_many, unsigned_varint
from bmq.protocol.wire_turns import InTurns, TurnsCodec, compile_turns

T = TypeVar("T")

Look = Callable[[Any, Any, int], Generator[None, None, None]]
"""Looks at an element: (the message as far as it stands before the array, the element, its position). May stop at each
`yield`."""
ReadElement = Callable[[int, list[int]], Generator[None, None, tuple[Any, int]]]
"""(Position, [elements left, elements left at the next yield]) to an element and the position behind it."""

_INT32: Final = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class ArrayCodec:
    """A message cut at its array `name`: the fields before it, an element, the fields behind it and the tagged ones.

    Each of the three is read and written as a message of the same class; an element stands in the place of the array.
    """

    name: str
    is_flexible: bool
    is_nullable: bool
    nested: Entity | None  # the elements, unless they are strings
    nested_codecs: dict[str, ArrayCodec]  # compiled when they are first asked for
    names_before: tuple[str, ...]
    before: TurnsCodec
    element: TurnsCodec
    behind: TurnsCodec


def compile_around(entity: Entity, name: str) -> ArrayCodec:
    """Raises ValueError unless `name` is an untagged array of entities or strings in this version."""
    names = [field.name for field in entity.fields]
    if name not in names:
        raise ValueError(f"{entity.message_class.__name__} has no {name} in this version")
    place = names.index(name)
    array = entity.fields[place]
    if not array.is_array or array.tag is not None:
        raise ValueError(f"{entity.message_class.__name__}.{name} is no array without a tag")
    before = tuple(field for field in entity.fields[:place] if field.tag is None)
    behind = entity.fields[place + 1 :] + tuple(field for field in entity.fields[:place] if field.tag is not None)
    return ArrayCodec(
        name,
        entity.is_flexible,
        array.is_nullable,
        array.entity,
        {},
        tuple(field.name for field in before),
        compile_turns(replace(entity, fields=before, has_tags=False)),
        compile_turns(replace(entity, fields=(replace(array, is_array=False, is_nullable=False),), has_tags=False)),
        compile_turns(replace(entity, fields=behind)),
    )


def nested_codec(codec: ArrayCodec, name: str) -> ArrayCodec | None:
    """An element of `codec`, cut at its own array `name`; None: that has numbers, which are read and written as one."""
    found = codec.nested_codecs.get(name)
    if found is None and codec.nested is not None:
        array = next(field for field in codec.nested.fields if field.name == name)
        if not is_number(array):
            found = codec.nested_codecs[name] = compile_around(codec.nested, name)
    return found


class ArrayReader:
    """Reads a message at `position` of `data`: all its fields, but the elements of one array only when they are asked for."""

    def __init__(self, codec: ArrayCodec, data: Buffer, position: int, elements_max: int = ELEMENTS_MAX) -> None:
        self._codec = codec
        self._data = data
        self._position = position
        self._elements_max = elements_max
        self.first = 0
        """The position of the first element."""
        self.count = 0
        """Of elements; -1: the array is null."""
        self.end = 0
        """The position behind the message."""

    def survey(self, look: Look, left: list[int] | None = None, read: ReadElement | None = None) -> InTurns[Any]:
        """The message with an empty array. All its bytes are read, and `look` is shown each element.

        `left`: elements of the message around this one. `read`: reads the elements in another way. Raises MalformedMessage, as
        reading the whole message does.
        """
        elements_max = self._elements_max
        left = left or [elements_max, max(elements_max - ELEMENTS_PER_TURN_MAX, 0)]
        return (yield from _checked(self._surveyed(look, left, read or self._element)))

    def element(self, position: int) -> InTurns[tuple[Any, int]]:
        """The element at a position, and the position behind it. Only after `survey`."""
        return (yield from self._element(position, [ELEMENTS_MAX, ELEMENTS_MAX - ELEMENTS_PER_TURN_MAX]))

    def _surveyed(self, look: Look, left: list[int], read: ReadElement) -> InTurns[Any]:
        codec, data = self._codec, self._data
        head, at = yield from _read_at(codec.before, data, self._position, left)
        self.count, at = self._length(at)
        self.first = at
        if self.count < 0 and not codec.is_nullable:
            raise MalformedMessage(f"{codec.name} is null and must not be")
        if self.count > min(left[0], len(data) - at):
            raise too_many(codec.name, self.count, len(data) - at)
        for _ in range(self.count):
            left[0] -= 1
            if left[0] < left[1]:
                if left[0] < 0:
                    raise too_many(codec.name, self.count, len(data) - at)
                left[1] = max(left[0] - ELEMENTS_PER_TURN_MAX, 0)
                yield
            here = at
            element, at = yield from read(at, left)
            yield from look(head, element, here)
        message, self.end = yield from _read_at(codec.behind, data, at, left)
        for name in codec.names_before:
            setattr(message, name, getattr(head, name))
        setattr(message, codec.name, None if self.count < 0 else ())
        return message

    def _element(self, position: int, left: list[int]) -> InTurns[tuple[Any, int]]:
        message, position = yield from _read_at(self._codec.element, self._data, position, left)
        return getattr(message, self._codec.name), position

    def _length(self, at: int) -> tuple[int, int]:
        if self._codec.is_flexible:
            count, at = read_unsigned_varint(self._data, at)
            return count - 1, at
        return _INT32.unpack_from(self._data, at)[0], at + _INT32.size


def _read_at(codec: TurnsCodec, data: Buffer, position: int, left: list[int]) -> InTurns[tuple[Any, int]]:
    if codec.read_at is None:
        return codec.plain.read_at(data, position, len(data), left)
    return (yield from codec.read_at(data, position, len(data), left))


def _checked(reading: Generator[None, None, T]) -> InTurns[T]:
    try:
        return (yield from reading)
    except (IndexError, struct.error) as error:
        raise MalformedMessage("the message ends before its last field") from error
    except UnicodeDecodeError as error:
        raise MalformedMessage("a string of the message is not UTF-8") from error


PIECE_BYTES: Final = 256 * 1024
"""A longer piece of encoded elements is closed, and another one begun: nothing is ever moved to make room."""


class ArrayWriter:
    """Encodes a message around an array: its elements as they come, the rest in the end."""

    def __init__(self, codec: ArrayCodec) -> None:
        self._codec = codec
        self._count = 0
        self._pieces = [bytearray()]

    def add(self, message_class: type, element: Any) -> InTurns[None]:
        """The next element."""
        out = self._pieces[-1]
        if len(out) > PIECE_BYTES:
            out = bytearray()
            self._pieces.append(out)
        shell = message_class()
        setattr(shell, self._codec.name, element)
        yield from self._codec.element.write_to(out, shell)
        self._count += 1

    def add_encoded(self, pieces: Sequence[bytearray]) -> None:
        """The next element, in pieces."""
        self._pieces += pieces
        self._pieces.append(bytearray())
        self._count += 1

    def finish(self, message: Any) -> InTurns[list[bytearray]]:
        """The pieces of the encoded message; all but its elements is taken from `message`."""
        head, behind = bytearray(), bytearray()
        yield from self._codec.before.write_to(head, message)
        head += unsigned_varint(self._count + 1) if self._codec.is_flexible else _INT32.pack(self._count)
        yield from self._codec.behind.write_to(behind, message)
        return [piece for piece in (head, *self._pieces, behind) if piece]
