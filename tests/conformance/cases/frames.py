"""Hostile frames for every API: made of the request that a well-behaved client sends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from tests.conformance import codec
from tests.conformance.case import Body, Build, Case, NotInThisVersion
from tests.conformance.codec import Raw
from tests.conformance.schemas import Schema, schema, schema_versions
from tests.conformance.world import World

Cut = Callable[[bytes], bytes]
Path = tuple[str, ...]

ABOVE: Final = 1_000
INT32_MAX: Final = 2**31 - 1
UNKNOWN_TAG: Final = codec.unsigned_varint(9_999)


def _unknown_tag(body: bytes) -> bytes:
    """A tagged field that nobody knows, behind all others."""
    return body[:-1] + b"\1" + UNKNOWN_TAG + b"\2ab" if body.endswith(b"\0") else body


def _tag_behind_the_end(body: bytes) -> bytes:
    """A tagged field that claims more bytes than there are."""
    return body[:-1] + b"\1" + UNKNOWN_TAG + codec.unsigned_varint(1_000) + b"ab"


_FRAMES: Final[dict[str, Cut]] = {
    "the last byte is missing": lambda body: body[:-1],
    "half of the body is missing": lambda body: body[: len(body) // 2],
    "a byte behind the body": lambda body: body + b"\0",
}
_FLEXIBLE_FRAMES: Final[dict[str, Cut]] = {
    "an unknown tagged field": _unknown_tag,
    "a tagged field longer than the body": _tag_behind_the_end,
}


def made_of(cases: Iterable[Case]) -> Iterator[Case]:
    """Of the first valid case of each API."""
    seen = set()
    for case in cases:
        if not case.is_valid or case.api_key in seen:
            continue
        seen.add(case.api_key)
        for name, cut in _FRAMES.items():
            yield _hostile(case, name, _cut(case, cut), case.versions)
        for name, cut in _FLEXIBLE_FRAMES.items():
            yield _hostile(case, name, _cut(case, cut), _flexible(case))
        yield _hostile(case, "no client id", _without_client_id(case), case.versions)
        for path in _paths(case, _refuses_null):
            yield _hostile(case, f"null in {'.'.join(path)}", _replaced(case, path, None), case.versions)
        for path in _paths(case, lambda field: bool(field.is_array)):
            yield _hostile(case, f"2^31-1 elements in {'.'.join(path)}", _endless(case, path), case.versions)
        for name, version in (("a version far above", ABOVE), ("version -1", -1)):
            yield _hostile(case, name, _other_version(version), _lowest_alone(case.api_key))


def _hostile(case: Case, name: str, build: Build, versions: Callable[[int], bool]) -> Case:
    return Case(case.api_key, name, build, versions, case.only, ignored=case.ignored)


def _flexible(case: Case) -> Callable[[int], bool]:
    return lambda version: case.versions(version) and schema(case.api_key, version, "request").flexible


def _lowest_alone(api_key: int) -> Callable[[int], bool]:
    """What does not depend on a case's version is asked once for each API."""
    lowest = schema_versions(api_key).start
    return lambda version: version == lowest


def _cut(case: Case, cut: Cut) -> Build:
    def build(world: World, version: int) -> Body:
        return Body(cut(codec.request_body(case.api_key, version, _values(case, world, version))))

    return build


def _without_client_id(case: Case) -> Build:
    def build(world: World, version: int) -> Body:
        body = codec.request_body(case.api_key, version, _values(case, world, version))
        return Body(body, client_id=None)

    return build


def _replaced(case: Case, path: Path, value: Any) -> Build:
    def build(world: World, version: int) -> Body:
        form = _form_at(schema(case.api_key, version, "request"), path[:-1])
        if not any(field.name == path[-1] and (value is not None or _refuses_null(field)) for field in form.fields):
            raise NotInThisVersion
        values = _with(_values(case, world, version), path, value)
        return Body(codec.request_body(case.api_key, version, values))

    return build


def _endless(case: Case, path: Path) -> Build:
    def build(world: World, version: int) -> Body:
        flexible = schema(case.api_key, version, "request").flexible
        length = codec.unsigned_varint(INT32_MAX) if flexible else INT32_MAX.to_bytes(4, "big")
        return _replaced(case, path, Raw(length))(world, version)  # type: ignore[return-value]

    return build


def _other_version(other: int) -> Build:
    return lambda world, version: Body(b"", other)


def _values(case: Case, world: World, version: int) -> Mapping[str, Any]:
    values = case.build(world, version)
    assert not isinstance(values, Body), f"{case.name} is no request of a client"
    return values


def _refuses_null(field: Any) -> bool:
    may_be_null = field.is_array or field.kafka_type in ("string", "bytes", "records")
    return may_be_null and not field.nullable and field.tag is None


def _paths(case: Case, wanted: Callable[[Any], bool]) -> list[Path]:
    """Of fields at the top, and in what the top's arrays hold, in any version."""
    found: dict[Path, None] = {}
    for version in schema_versions(case.api_key):
        form = schema(case.api_key, version, "request")
        for field in form.fields:
            if wanted(field):
                found[(field.name,)] = None
            if field.entity is not None:
                inner = form.entities[field.name].fields
                found.update({(field.name, one.name): None for one in inner if wanted(one)})
    return list(found)


def _form_at(form: Schema, path: Path) -> Schema:
    for name in path:
        if name not in form.entities:
            raise NotInThisVersion
        form = form.entities[name]
    return form


def _with(values: Any, path: Path, value: Any) -> Any:
    """A copy, with another value in the first element of each array on the way."""
    first, *rest = path
    if not rest:
        return {**values, first: value}
    inner = values.get(first)
    if not inner:
        raise NotInThisVersion
    if isinstance(inner, list):
        return {**values, first: [_with(inner[0], tuple(rest), value), *inner[1:]]}
    return {**values, first: _with(inner, tuple(rest), value)}
