"""Message formats as data, compiled into readers and writers; used for every message but Produce and Fetch.

An `Entity` lists the fields of one message in one version, in wire order. `compile_entity` writes a Python function for
reading and one for writing it: neighbouring fields of fixed size become one struct call, the rest is laid out inline.

Reading is bounded whatever the bytes say: an array is refused before it is allocated when it has more elements than
bytes are left or than the message may have in all, unknown tagged fields are skipped (KIP-482) and their number is
limited, every length is checked against the end. Kafka 4.4 has such limits too; kio's own reader has neither and refuses
unknown tags, which is why kio is only the source of the formats and the oracle of the tests.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from bmq.dataclass import dataclass
from bmq.protocol.errors import MalformedMessage, TooManyElements

Buffer = bytes | bytearray | memoryview

ELEMENTS_MAX: Final = 250_000
"""Array elements and tagged fields of one message, all together: half a second and 100 MB at the worst.

Kafka allows a million for each array; what its clients send stays far below either.
"""
TAGGED_FIELDS_MAX: Final = 10_000
"""Tagged fields of one entity, as in Kafka 4.4."""
STRING_BYTES_MAX: Final = 2**15 - 1  # as in Kafka, even where the wire format allows more

_FIXED: Final = {
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "bool": "?",
    "float64": "d",
}
_ZERO_UUID: Final = bytes(16)


@dataclass(frozen=True, slots=True)
class Field:
    """One field of an entity. `kafka_type` is a primitive's name; None if `entity` is nested."""

    name: str
    kafka_type: str | None
    entity: Entity | None = None
    is_array: bool = False
    is_nullable: bool = False
    tag: int | None = None
    default: Any = None  # for a tagged field; a nested entity uses its class's defaults


@dataclass(frozen=True, slots=True)
class Entity:
    """A message, or a part of one, in one version. Values are instances of `message_class`, built by keywords."""

    message_class: type
    is_flexible: bool
    fields: tuple[Field, ...]
    has_tags: bool = True
    """False: a piece of a message that ends before its tagged fields."""


Read = Callable[[Buffer, int, int, list[int]], tuple[Any, int]]
Write = Callable[[bytearray, Any], None]


@dataclass(frozen=True, slots=True)
class EntityCodec:
    """Reader and writer of one entity."""

    read_at: Read  # (data, position, end, [elements left]) -> (message, position after it)
    write: Write

    def read(self, data: Buffer, position: int = 0, elements_max: int = ELEMENTS_MAX) -> Any:
        """The message at `position`; bytes behind it are ignored, as Kafka does. Raises MalformedMessage."""
        try:
            return self.read_at(data, position, len(data), [elements_max])[0]
        except (IndexError, struct.error) as error:
            raise MalformedMessage("the message ends before its last field") from error
        except UnicodeDecodeError as error:
            raise MalformedMessage("a string of the message is not UTF-8") from error


def compile_entity(
    entity: Entity, compiled: Callable[[Entity, EntityCodec], object] = lambda part, codec: None
) -> EntityCodec:
    """Reader and writer of an entity and all it nests. `compiled` is called for each, those nested in it first."""
    codecs: dict[int, EntityCodec] = {}

    def codec_of(part: Entity) -> EntityCodec:
        if id(part) not in codecs:
            nested = {id(f.entity): codec_of(f.entity) for f in part.fields if f.entity is not None}
            codec = EntityCodec(ReaderSource(part, nested).reader(), WriterSource(part, nested).writer())
            codecs[id(part)] = codec
            compiled(part, codec)
        return codecs[id(part)]

    return codec_of(entity)


def read_unsigned_varint(data: Buffer, position: int) -> tuple[int, int]:
    """(value, position after it). Raises MalformedMessage for more than five bytes, IndexError at the end of the data."""
    value = shift = 0
    while shift < 35:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7
    raise MalformedMessage("a varint is longer than five bytes")


def unsigned_varint(value: int) -> bytes:
    """The bytes of a varint."""
    if value < 128:
        return bytes((value,))
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def skip_tagged_fields(data: Buffer, position: int) -> int:
    """The position after a section of tagged fields, all skipped. Raises MalformedMessage, IndexError."""
    count, position = read_unsigned_varint(data, position)
    if count > TAGGED_FIELDS_MAX:
        raise MalformedMessage(f"{count} tagged fields in one place, {TAGGED_FIELDS_MAX} are allowed")
    for _ in range(count):
        _, position = read_unsigned_varint(data, position)
        size, position = read_unsigned_varint(data, position)
        position += size
        if position > len(data):
            raise MalformedMessage("a tagged field runs past the end of the message")
    return position


def _past_the_end(what: str) -> MalformedMessage:
    return MalformedMessage(f"{what} runs past the end of the message")


def _unexpected_null(what: str) -> MalformedMessage:
    return MalformedMessage(f"{what} is null and must not be")


def _too_long(what: str, length: int) -> MalformedMessage:
    return MalformedMessage(f"{what} is a string of {length} bytes, {STRING_BYTES_MAX} are allowed")


def too_many(what: str, count: int, bytes_left: int) -> MalformedMessage:
    """The error of an array that claims more elements than there are bytes, or than are allowed."""
    if count > bytes_left:
        return MalformedMessage(f"{what} claims {count} elements, and {bytes_left} bytes are left")
    return TooManyElements(f"{what} claims {count} elements, with which there are more than are allowed")


class _Source:
    """Lines of a function being written, and the objects it refers to by name."""

    def __init__(self, entity: Entity, nested: dict[int, EntityCodec]) -> None:
        self.entity = entity
        self.nested = nested
        self.flexible = entity.is_flexible
        self.lines: list[str] = []
        self.names: dict[str, Any] = {
            "varint": read_unsigned_varint,
            "to_varint": unsigned_varint,
            "unpack_from": struct.unpack_from,
            "pack": struct.pack,
            "past_the_end": _past_the_end,
            "unexpected_null": _unexpected_null,
            "too_many": too_many,
            "too_long": _too_long,
            "Malformed": MalformedMessage,
            "UUID": UUID,
            "ZERO": _ZERO_UUID,
            "Message": entity.message_class,
            "read_int32": struct.Struct(">i").unpack_from,
            "read_int16": struct.Struct(">h").unpack_from,
            "pack_int32": struct.Struct(">i").pack,
            "pack_int16": struct.Struct(">h").pack,
        }

    def name_for(self, prefix: str, value: Any) -> str:
        name = f"{prefix}_{len(self.names)}"
        self.names[name] = value
        return name

    def compiled(self, function: str) -> Any:
        title = self.entity.message_class.__name__
        exec(compile("\n".join(self.lines), f"<wire format of {title}>", "exec"), self.names)
        return self.names[function]

    def runs(self) -> list[list[Field]]:
        """The untagged fields, neighbours of fixed size together."""
        runs: list[list[Field]] = []
        for field in self.entity.fields:
            if field.tag is not None:
                continue
            if _is_fixed(field) and runs and _is_fixed(runs[-1][0]):
                runs[-1].append(field)
            else:
                runs.append([field])
        return runs

    def tagged(self) -> list[Field]:
        return sorted((f for f in self.entity.fields if f.tag is not None), key=lambda field: field.tag or 0)


def is_number(field: Field) -> bool:
    """Whether it holds numbers of a fixed size, one or an array of them."""
    return field.kafka_type in _FIXED


def _is_fixed(field: Field) -> bool:
    return field.kafka_type in _FIXED and not field.is_array


class ReaderSource(_Source):
    """Writes `read_at(data, at, end, left)`."""

    def reader(self) -> Any:
        self.lines.append("def read_at(data, at, end, left):")
        for run in self.runs():
            if _is_fixed(run[0]):
                layout = struct.Struct(">" + "".join(_FIXED[str(f.kafka_type)] for f in run))
                unpack = self.name_for("unpack", layout.unpack_from)
                self.add(1, f"{', '.join('v_' + f.name for f in run)}, = {unpack}(data, at)", f"at += {layout.size}")
            else:
                self.field(1, run[0])
        if self.flexible and self.entity.has_tags:
            self.tagged_fields()
        arguments = ", ".join(f"{f.name}=v_{f.name}" for f in self.entity.fields)
        self.add(1, f"return Message({arguments}), at")
        return self.compiled("read_at")

    def add(self, depth: int, *lines: str) -> None:
        self.lines += ["    " * depth + line for line in lines]

    def varint(self, depth: int, name: str) -> None:
        self.add(depth, f"{name} = data[at]", "at += 1")
        self.add(depth, f"if {name} > 127:", f"    {name}, at = varint(data, at - 1)")

    def length(self, depth: int, field: Field, *, of_string: bool) -> None:
        """`n` becomes the length, -1 for null."""
        if self.flexible:
            self.varint(depth, "n")
            self.add(depth, "n -= 1")
        elif of_string:
            self.add(depth, "n, = read_int16(data, at)", "at += 2")
        else:
            self.add(depth, "n, = read_int32(data, at)", "at += 4")

    def field(self, depth: int, field: Field) -> None:
        target = f"v_{field.name}"
        if field.is_array:
            self.array(depth, field, target)
        elif field.entity is not None:
            if field.is_nullable:  # a nullable struct has a byte in front (KIP-893)
                self.add(depth, "n = data[at]", "at += 1", "if n > 127:", f"    {target} = None", "else:")
                depth += 1
            self.nested_entity(depth, field.entity, target)
        else:
            self.primitive(depth, field, target)

    def primitive(self, depth: int, field: Field, target: str) -> None:
        kind = field.kafka_type
        if kind in _FIXED:
            layout = struct.Struct(">" + _FIXED[kind])
            unpack = self.name_for("unpack", layout.unpack_from)
            self.add(depth, f"{target}, = {unpack}(data, at)", f"at += {layout.size}")
        elif kind == "uuid":
            self.add(depth, "stop = at + 16", f"if stop > end: raise past_the_end({field.name!r})")
            self.add(depth, "raw = bytes(data[at:stop])", f"{target} = None if raw == ZERO else UUID(bytes=raw)")
            self.add(depth, "at = stop")
        else:
            self.length(depth, field, of_string=kind == "string")
            if field.is_nullable:
                self.add(depth, "if n < 0:", f"    {target} = None", "else:")
                depth += 1
            else:
                self.add(depth, f"if n < 0: raise unexpected_null({field.name!r})")
            if self.flexible and kind == "string":
                self.add(depth, f"if n > {STRING_BYTES_MAX}: raise too_long({field.name!r}, n)")
            self.add(depth, "stop = at + n", f"if stop > end: raise past_the_end({field.name!r})")
            content = "str(data[at:stop], 'utf-8')" if kind == "string" else "bytes(data[at:stop])"
            self.add(depth, f"{target} = {content}", "at = stop")

    def array(self, depth: int, field: Field, target: str) -> None:
        self.length(depth, field, of_string=False)
        if field.is_nullable:
            self.add(depth, "if n < 0:", f"    {target} = None", "else:")
            depth += 1
        else:
            self.add(depth, f"if n < 0: raise unexpected_null({field.name!r})")
        if field.kafka_type not in _FIXED:
            self.elements(depth, field, target)
            return
        self.add(depth, "left[0] -= n")
        self.add(depth, f"if n > end - at or left[0] < 0: raise too_many({field.name!r}, n, end - at)")
        code = _FIXED[field.kafka_type]
        # Check the count against the bytes left before struct makes a tuple of that size.
        size = struct.calcsize(">" + code)
        self.add(depth, f"stop = at + n * {size}", f"if stop > end: raise past_the_end({field.name!r})")
        self.add(depth, f"{target} = unpack_from(f'>{{n}}{code}', data, at)", "at = stop")

    def elements(self, depth: int, field: Field, target: str) -> None:
        """Reads `n` elements that are no numbers."""
        self.add(depth, "left[0] -= n")
        self.add(depth, f"if n > end - at or left[0] < 0: raise too_many({field.name!r}, n, end - at)")
        self.add(depth, "items = []", "for _ in range(n):")
        self.element(depth + 1, field)
        self.add(depth + 1, "items.append(item)")
        self.add(depth, f"{target} = tuple(items)")

    def element(self, depth: int, field: Field) -> None:
        if field.entity is not None:
            self.nested_entity(depth, field.entity, "item")
        else:
            self.primitive(depth, Field(field.name, field.kafka_type), "item")

    def nested_entity(self, depth: int, entity: Entity, target: str) -> None:
        reader = self.name_for("read", self.nested[id(entity)].read_at)
        self.add(depth, f"{target}, at = {reader}(data, at, end, left)")

    def tagged_fields(self) -> None:
        for field in self.tagged():
            if field.entity is not None and not field.is_array and not field.is_nullable:
                default = self.name_for("make", field.entity.message_class) + "()"
            else:
                default = self.name_for("default", field.default)
            self.add(1, f"v_{field.name} = {default}")
        self.varint(1, "tags")
        self.add(1, "if tags:", "    left[0] -= tags")
        self.add(
            2,
            f"if tags > {TAGGED_FIELDS_MAX} or left[0] < 0: raise too_many('a section of tagged fields', tags, end - at)",
        )
        self.add(1, "for _ in range(tags):")
        self.varint(2, "tag")
        self.varint(2, "size")
        self.add(2, "tag_end = at + size", "if tag_end > end: raise past_the_end('a tagged field')")
        word = "if"
        for field in self.tagged():
            self.add(2, f"{word} tag == {field.tag}:")
            self.field(3, field)
            self.add(3, f"if at != tag_end: raise Malformed('tagged field {field.name} has the wrong size')")
            word = "elif"
        self.add(2, "at = tag_end")


class WriterSource(_Source):
    """Writes `write(out, message)`."""

    parameters = "out, message"

    def writer(self) -> Any:
        self.lines.append(f"def write({self.parameters}):")
        self.lines.append("    pass")
        for run in self.runs():
            if _is_fixed(run[0]):
                layout = struct.Struct(">" + "".join(_FIXED[str(f.kafka_type)] for f in run))
                packer = self.name_for("pack", layout.pack)
                self.add(1, f"out += {packer}({', '.join('message.' + f.name for f in run)})")
            else:
                self.add(1, f"value = message.{run[0].name}")
                self.field(1, run[0], "out")
        if self.flexible and self.entity.has_tags:
            self.tagged_fields()
        return self.compiled("write")

    def add(self, depth: int, *lines: str) -> None:
        self.lines += ["    " * depth + line for line in lines]

    def length(self, depth: int, out: str, expression: str, *, of_string: bool) -> None:
        if self.flexible:
            self.add(depth, f"n = {expression} + 1")
            self.add(depth, f"if n < 128: {out}.append(n)", f"else: {out} += to_varint(n)")
        else:
            self.add(depth, f"{out} += {'pack_int16' if of_string else 'pack_int32'}({expression})")

    def null(self, depth: int, out: str, field: Field, *, of_string: bool) -> None:
        """Write None: null if the version has it, else empty."""
        null, empty = (
            (b"\0", b"\1") if self.flexible else (b"\xff\xff", b"\0\0") if of_string else (b"\xff" * 4, bytes(4))
        )
        self.add(depth, f"if value is None: {out} += {(null if field.is_nullable else empty)!r}", "else:")

    def field(self, depth: int, field: Field, out: str) -> None:
        if field.is_array:
            self.array(depth, field, out)
        elif field.entity is not None:
            if field.is_nullable:
                self.add(depth, f"if value is None: {out}.append(255)", "else:", f"    {out}.append(1)")
                depth += 1
            self.nested_entity(depth, field.entity, out, "value")
        else:
            self.primitive(depth, field, out)

    def primitive(self, depth: int, field: Field, out: str) -> None:
        kind = field.kafka_type
        if kind in _FIXED:
            packer = self.name_for("pack", struct.Struct(">" + _FIXED[kind]).pack)
            self.add(depth, f"{out} += {packer}(value)")
        elif kind == "uuid":
            self.add(depth, f"{out} += ZERO if value is None else value.bytes")
        else:
            self.null(depth, out, field, of_string=kind == "string")
            if kind == "string":
                self.add(depth + 1, "value = value.encode()")
            self.length(depth + 1, out, "len(value)", of_string=kind == "string")
            self.add(depth + 1, f"{out} += value")

    def array(self, depth: int, field: Field, out: str) -> None:
        self.null(depth, out, field, of_string=False)
        depth += 1
        self.length(depth, out, "len(value)", of_string=False)
        if field.kafka_type in _FIXED:
            self.add(depth, f"{out} += pack(f'>{{len(value)}}{_FIXED[field.kafka_type]}', *value)")
        else:
            self.elements(depth, field, out)

    def elements(self, depth: int, field: Field, out: str) -> None:
        """Writes the elements of `value`, which are no numbers."""
        self.add(depth, "for item in value:")
        self.before_element(depth + 1)
        if field.entity is not None:
            self.nested_entity(depth + 1, field.entity, out, "item")
        else:
            self.add(depth + 1, "value = item")
            self.primitive(depth + 1, Field(field.name, field.kafka_type), out)

    def before_element(self, depth: int) -> None:
        """Do something before each element of an array: nothing here."""

    def nested_entity(self, depth: int, entity: Entity, out: str, source: str) -> None:
        writer = self.name_for("write", self.nested[id(entity)].write)
        self.add(depth, f"{writer}({out}, {source})")

    def tagged_fields(self) -> None:
        tagged = self.tagged()
        if not tagged:
            self.add(1, "out.append(0)")
            return
        self.add(1, "tags = bytearray()", "count = 0")
        for field in tagged:
            if field.entity is not None and not field.is_array and not field.is_nullable:
                default = self.name_for("default", field.entity.message_class())
            else:
                default = self.name_for("default", field.default)
            self.add(1, f"value = message.{field.name}", f"if value != {default}:")
            self.add(2, "part = bytearray()")
            self.field(2, field, "part")
            self.add(2, "count += 1", f"tags += {unsigned_varint(field.tag or 0)!r}")
            self.add(2, "tags += to_varint(len(part))", "tags += part")
        self.add(1, "out += to_varint(count)", "out += tags")
