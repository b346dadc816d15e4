"""Kafka's message and record formats, described once for all their versions and compiled version by version.

The modules in messages/ carry theirs (written by a generator), group_records.py and metadata_records.py describe their own.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from bmq.dataclass import dataclass
from bmq.protocol.array_codec import ArrayCodec, compile_around
from bmq.protocol.wire import Entity, EntityCodec, Field, compile_entity
from bmq.protocol.wire_turns import TurnsCodec, compile_turns

NEWEST: Final = 0x7FFF


@dataclass(frozen=True, slots=True)
class FormatField:
    """A field in versions `since` … `until`. A field that changed its form is listed once for each form.

    `kafka_type` is a primitive's name, None if `entity` is nested; `nullable_since`: the first version in which it may
    be null; `tag` makes it a tagged field (KIP-482), left out when it equals `default`.
    """

    name: str
    kafka_type: str | None = None
    since: int = 0
    until: int = NEWEST
    entity: Format | None = None
    is_array: bool = False
    nullable_since: int | None = None
    tag: int | None = None
    default: Any = None

    def in_version(self, version: int) -> Field:
        return Field(
            self.name,
            self.kafka_type,
            None if self.entity is None else self.entity.entity(version),
            self.is_array,
            self.nullable_since is not None and version >= self.nullable_since,
            self.tag,
            self.default,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Format:
    """An entity in versions `version_min` … `version_max`, flexible (KIP-482) from `flexible_from` on.

    Compared and hashed by identity: each is made once, in its module.
    """

    message_class: type
    version_max: int
    flexible_from: int
    fields: tuple[FormatField, ...]
    version_min: int = 0

    def entity(self, version: int) -> Entity:
        present = tuple(field.in_version(version) for field in self.fields if field.since <= version <= field.until)
        return Entity(self.message_class, version >= self.flexible_from, present)


@cache
def codec_of(message_format: Format, version: int) -> EntityCodec:
    """Reader and writer of a format in a version it has; compiled when first asked for."""
    if not message_format.version_min <= version <= message_format.version_max:
        raise ValueError(f"{message_format.message_class.__name__} has no version {version}")
    return compile_entity(message_format.entity(version))


@cache
def turns_codec_of(message_format: Format, version: int) -> TurnsCodec:
    """Like `codec_of`, for messages that may be large."""
    codec_of(message_format, version)  # raises ValueError
    return compile_turns(message_format.entity(version))


@cache
def array_codec_of(message_format: Format, version: int, name: str) -> ArrayCodec:
    """For messages whose array `name` may be large. Raises ValueError if there is no such array in this version."""
    codec_of(message_format, version)  # raises ValueError
    return compile_around(message_format.entity(version), name)
