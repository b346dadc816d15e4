"""A whole descriptor set out of a registry's Protobuf schema and those that it refers to. Decisions only.

A registry compiles schemas itself and gives them as Base64 of a FileDescriptorProto. Nothing is compiled here.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Final

from google.protobuf import (
    any_pb2,
    api_pb2,
    descriptor_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    source_context_pb2,
    struct_pb2,
    timestamp_pb2,
    type_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from bmq.table_definitions.avro_schema import SchemaRefused
from bmq.table_definitions.protobuf_framing import INDEXES_MAX

IMPORTS_DEEP_MAX: Final = 32
_MAIN: Final = "schema.of.the.subject.proto"
_WELL_KNOWN: Final = {
    module.DESCRIPTOR.name: module.DESCRIPTOR.serialized_pb
    for module in (
        any_pb2,
        api_pb2,
        descriptor_pb2,
        duration_pb2,
        empty_pb2,
        field_mask_pb2,
        source_context_pb2,
        struct_pb2,
        timestamp_pb2,
        type_pb2,
        wrappers_pb2,
    )
}
"""Files of Protobuf itself: no registry has them."""


class RegisteredFile:
    """`text`: what the registry gives. `imports`: the same of the files that it refers to, by the name of the import.

    Raises SchemaRefused, also when an import is missing that its messages need.
    """

    def __init__(self, text: str, imports: Mapping[str, str]) -> None:
        self._imports = imports
        self._found: dict[str, FileDescriptorProto] = {}
        self._main = _file(text, _MAIN)
        self._take(self._main, (_MAIN,))

    @property
    def descriptor_set(self) -> bytes:
        """A serialized FileDescriptorSet, imports first."""
        return FileDescriptorSet(file=self._found.values()).SerializeToString(deterministic=True)

    @property
    def first_message(self) -> str:
        """Its full name. Raises SchemaRefused."""
        if not self._main.message_type:
            raise SchemaRefused("it has no message")
        return self._full_name([self._main.message_type[0].name])

    def indexes(self, message: str) -> tuple[int, ...]:
        """Where the message is in the subject's own file. Raises SchemaRefused."""
        prefix = f"{self._main.package}." if self._main.package else ""
        if message.startswith(prefix):
            found = _place(self._main.message_type, message.removeprefix(prefix).split("."))
            if found is not None and len(found) <= INDEXES_MAX:
                return found
        raise SchemaRefused(f"it has no message {message}")

    def _full_name(self, names: Sequence[str]) -> str:
        return ".".join(filter(None, (self._main.package, *names)))

    def _take(self, file: FileDescriptorProto, within: tuple[str, ...]) -> None:
        """The file behind those that it imports."""
        if len(within) > IMPORTS_DEEP_MAX:
            raise SchemaRefused(f"its imports are more than {IMPORTS_DEEP_MAX} deep")
        missing = set()
        for name in file.dependency:
            if name in within:
                raise SchemaRefused(f"its import {name[:100]} leads back to itself")
            if name in self._found:
                continue
            if name in _WELL_KNOWN:
                below = FileDescriptorProto.FromString(_WELL_KNOWN[name])
            elif name in self._imports:
                below = _file(self._imports[name], name)
            else:
                missing.add(name)
                continue
            self._take(below, (*within, name))
        _leave_out(file, missing)
        self._found[file.name] = file


def _file(text: str, name: str) -> FileDescriptorProto:
    """Raises SchemaRefused."""
    try:
        file = FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (ValueError, DecodeError):
        raise SchemaRefused(
            "the registry gives it as text, not compiled (format=serialized); write the definition with protoc's descriptor set"
        ) from None
    file.name = name
    file.ClearField("source_code_info")
    return file


def _leave_out(file: FileDescriptorProto, missing: set[str]) -> None:
    """Drop imports that the registry does not have: options alone may use them (`confluent/meta.proto`)."""
    if not missing:
        return
    kept = [(place, name) for place, name in enumerate(file.dependency) if name not in missing]
    new_place = {place: number for number, (place, _) in enumerate(kept)}
    public = [new_place[place] for place in file.public_dependency if place in new_place]
    weak = [new_place[place] for place in file.weak_dependency if place in new_place]
    file.dependency[:] = [name for _, name in kept]
    file.public_dependency[:] = public
    file.weak_dependency[:] = weak


def _place(messages: Sequence[DescriptorProto], names: Sequence[str]) -> tuple[int, ...] | None:
    found: list[int] = []
    for name in names:
        at = next((at for at, each in enumerate(messages) if each.name == name), None)
        if at is None:
            return None
        found.append(at)
        messages = messages[at].nested_type
    return tuple(found)
