"""The largest legal requests of an API: as many elements in one of its arrays as a message may have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from bmq.protocol.apis import APIS, ApiKey
from bmq.protocol.codec import message_format
from bmq.protocol.wire import Entity, Field

Path = tuple[str, ...]

_ZEROS: Final[Mapping[str, Any]] = {"bool": False, "float64": 0.0, "string": "", "bytes": b"", "records": None}


@dataclass(frozen=True, slots=True)
class Known:
    """What there is at the server, for requests that name it. `topic` has `partitions` partitions."""

    topic: str
    topic_id: UUID
    partitions: int


@dataclass(frozen=True, slots=True)
class LargestRequest:
    """`path`: the array that has the elements. `is_known`: each names what there is; else each names something else."""

    api_key: ApiKey
    version: int
    path: Path
    is_known: bool
    message: Any

    @property
    def name(self) -> str:
        return f"{self.api_key.name} {'.'.join(self.path)} {'known' if self.is_known else 'unknown'}"


def largest_requests(api_key: ApiKey, known: Known, elements: int) -> Iterator[LargestRequest]:
    """In the API's newest version, one request for each of its arrays and each kind of names."""
    version = APIS[api_key].version_max
    entity = message_format("request", api_key).entity(version)
    for path in _array_paths(entity):
        for is_known in (True, False):
            yield LargestRequest(
                api_key, version, path, is_known, _message(entity, path, elements, known if is_known else None, 0)
            )


def _array_paths(entity: Entity) -> Iterator[Path]:
    for field in entity.fields:
        if field.is_array:
            yield (field.name,)
        if field.entity is not None:
            for path in _array_paths(field.entity):
                yield (field.name, *path)


def _message(entity: Entity, path: Path, elements: int, known: Known | None, number: int) -> Any:
    values = {}
    for field in entity.fields:
        on_path = bool(path) and field.name == path[0]
        if field.tag is not None and not on_path and field.entity is None:
            values[field.name] = field.default  # a tagged field would count as an element
        elif not field.is_array:
            values[field.name] = _value(field, path[1:] if on_path else (), elements, known, number)
        elif on_path and len(path) > 1:
            values[field.name] = (_value(field, path[1:], elements, known, 0),)
        elif on_path:
            # Each element of an array of entities has an element of its own in each of its arrays.
            inner = 1 + _inner(field)
            values[field.name] = tuple(_value(field, (), 1, known, one) for one in range(elements // inner))
        else:
            values[field.name] = () if path else (_value(field, (), 1, known, number),)
    return entity.message_class(**values)


def _inner(field: Field) -> int:
    if field.entity is None:
        return 0
    return sum(1 + _inner(one) if one.is_array else _inner(one) for one in field.entity.fields)


def _value(field: Field, path: Path, elements: int, known: Known | None, number: int) -> Any:
    if field.entity is not None:
        return _message(field.entity, path, elements, known, number)
    kind, name = field.kafka_type or "", field.name
    if kind == "uuid":
        return None if known is None else known.topic_id
    if kind == "string":
        if "topic" in name or name == "name" or name == "resource_name":
            return f"y{number}" if known is None else known.topic
        if name in ("transactional_id", "group_instance_id", "cursor", "rack", "rack_id", "member_id"):
            return None if field.is_nullable else ""
        return f"y{number}" if known is None else "g"
    if kind in _ZEROS:
        return _ZEROS[kind]
    if "partition" in name:
        return number % (1 if known is None else known.partitions)
    return _NUMBERS.get(name, 0)


_NUMBERS: Final[Mapping[str, int]] = {
    "timeout_ms": 30_000,
    "session_timeout_ms": 30_000,
    "rebalance_timeout_ms": 30_000,
    "timestamp": -1,
    "resource_type": 2,
    "replication_factor": 1,
    "num_partitions": 1,
    "replica_id": -1,
    "current_leader_epoch": -1,
    "generation_id_or_member_epoch": -1,
    "generation_id": -1,
    "leader_epoch": -1,
    "max_wait_ms": 0,
    "max_bytes": 1 << 20,
    "partition_max_bytes": 1 << 20,
    "replica_epoch": -1,
    "response_partition_limit": 2_000,
}
