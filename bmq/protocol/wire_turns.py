"""Readers and writers of large messages that stop again and again, so that the event loop can serve others in between.

They do what those of wire.py do, as generators: each `yield` is a place where the caller may do something else. Between
two of them at most ELEMENTS_PER_TURN_MAX array elements are read or written (strings and entities; an array of numbers is
one struct call). Only entities with such arrays need one; a message without any has none, and is read at once.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from typing import Any, Final, TypeVar

from bmq.dataclass import dataclass
from bmq.protocol.errors import MalformedMessage
from bmq.protocol.turns import ELEMENTS_PER_TURN_MAX
from bmq.protocol.wire import (
    ELEMENTS_MAX,
    Buffer,
    Entity,
    EntityCodec,
    Field,
    ReaderSource,
    WriterSource,
    compile_entity,
    is_number,
)

T = TypeVar("T")
InTurns = Generator[None, None, T]
"""Returns its result at the end; may be left alone at each `yield`."""


ReadInTurns = Callable[[Buffer, int, int, list[int]], InTurns[tuple[Any, int]]]
WriteInTurns = Callable[[bytearray, Any, list[int]], InTurns[None]]


@dataclass(frozen=True, slots=True)
class TurnsCodec:
    """Reader and writer of one entity; `read_at` and `write` None: it has no array that could be large."""

    plain: EntityCodec
    read_at: ReadInTurns | None  # (data, position, end, [elements left, elements left at the next yield])
    write: WriteInTurns | None  # (out, message, [elements left until the next yield])

    def read(self, data: Buffer, position: int = 0, elements_max: int = ELEMENTS_MAX) -> InTurns[Any]:
        """Like EntityCodec.read."""
        if self.read_at is None:
            return self.plain.read(data, position, elements_max)
        left = [elements_max, max(elements_max - ELEMENTS_PER_TURN_MAX, 0)]
        try:
            message, _ = yield from self.read_at(data, position, len(data), left)
        except (IndexError, struct.error) as error:
            raise MalformedMessage("the message ends before its last field") from error
        except UnicodeDecodeError as error:
            raise MalformedMessage("a string of the message is not UTF-8") from error
        return message

    def write_to(self, out: bytearray, message: Any) -> InTurns[None]:
        """Appends the message to `out`."""
        if self.write is None:
            self.plain.write(out, message)
        else:
            yield from self.write(out, message, [ELEMENTS_PER_TURN_MAX])


def compile_turns(entity: Entity) -> TurnsCodec:
    """Reader and writer of an entity and all it nests."""
    codecs: dict[int, TurnsCodec] = {}
    compile_entity(entity, lambda part, plain: codecs.setdefault(id(part), _compiled(part, plain, codecs)))
    return codecs[id(entity)]


def _compiled(part: Entity, plain: EntityCodec, codecs: dict[int, TurnsCodec]) -> TurnsCodec:
    if not _may_be_large(part):
        return TurnsCodec(plain, None, None)
    nested = {id(f.entity): codecs[id(f.entity)] for f in part.fields if f.entity is not None}
    return TurnsCodec(plain, _TurnsReader(part, nested).function(), _TurnsWriter(part, nested).function())


def _may_be_large(entity: Entity) -> bool:
    return any(
        (field.is_array and not is_number(field)) or (field.entity is not None and _may_be_large(field.entity))
        for field in entity.fields
    )


_MORE_PER_TURN: Final = f"left[1] = left[0] - {ELEMENTS_PER_TURN_MAX}"


class _TurnsReader(ReaderSource):
    def __init__(self, entity: Entity, nested: dict[int, TurnsCodec]) -> None:
        super().__init__(entity, {key: codec.plain for key, codec in nested.items()})
        self.in_turns = nested

    def function(self) -> ReadInTurns:
        return self.reader()  # type: ignore[no-any-return]

    def elements(self, depth: int, field: Field, target: str) -> None:
        # Counted one by one, so that what is left says when this turn is over.
        self.add(depth, f"if n > end - at or n > left[0]: raise too_many({field.name!r}, n, end - at)")
        self.add(depth, "items = []", "for _ in range(n):")
        self.add(depth + 1, "left[0] -= 1", "if left[0] < left[1]:")
        self.add(depth + 2, f"if left[0] < 0: raise too_many({field.name!r}, n, end - at)")
        self.add(depth + 2, _MORE_PER_TURN, "if left[1] < 0: left[1] = 0", "yield")
        self.element(depth + 1, field)
        self.add(depth + 1, "items.append(item)")
        self.add(depth, f"{target} = tuple(items)")

    def nested_entity(self, depth: int, entity: Entity, target: str) -> None:
        read_at = self.in_turns[id(entity)].read_at
        if read_at is None:
            super().nested_entity(depth, entity, target)
        else:
            reader = self.name_for("read", read_at)
            self.add(depth, f"{target}, at = yield from {reader}(data, at, end, left)")


class _TurnsWriter(WriterSource):
    parameters = "out, message, left"

    def __init__(self, entity: Entity, nested: dict[int, TurnsCodec]) -> None:
        super().__init__(entity, {key: codec.plain for key, codec in nested.items()})
        self.in_turns = nested

    def function(self) -> WriteInTurns:
        return self.writer()  # type: ignore[no-any-return]

    def before_element(self, depth: int) -> None:
        self.add(depth, "left[0] -= 1", "if left[0] < 0:")
        self.add(depth + 1, f"left[0] = {ELEMENTS_PER_TURN_MAX}", "yield")

    def nested_entity(self, depth: int, entity: Entity, out: str, source: str) -> None:
        write = self.in_turns[id(entity)].write
        if write is None:
            super().nested_entity(depth, entity, out, source)
        else:
            writer = self.name_for("write", write)
            self.add(depth, f"yield from {writer}({out}, {source}, left)")
