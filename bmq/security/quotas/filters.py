"""DescribeClientQuotas: which entities a request asks for (KIP-546). Words of ClientQuotasImage (Kafka 4.3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.security.quotas.entities import CLIENT_ID, ENTITY_TYPES, IP, USER, Entity, Quotas

_ANY: Final = object()


class MatchType(IntEnum):
    """Numbers of DescribeClientQuotasRequest."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


class Component(NamedTuple):
    """One condition of a request."""

    entity_type: str
    match_type: int
    match: str | None


def described(
    quotas: Quotas, components: Iterable[Component], *, is_strict: bool
) -> Iterator[tuple[Entity, Mapping[str, float]]]:
    """The entities that meet all conditions; with `is_strict` those that have no other parts.

    Raises KafkaError INVALID_REQUEST, and UNSUPPORTED_VERSION for a type of entity that Kafka does not know.
    """
    wanted = _conditions(components)
    return (
        (entity, values)
        for entity, values in quotas.items()
        if not (is_strict and len(entity) != len(wanted)) and _meets(dict(entity), wanted)
    )


def _meets(parts: Mapping[str, str | None], wanted: Mapping[str, object]) -> bool:
    return all(kind in parts and (name is _ANY or parts[kind] == name) for kind, name in wanted.items())


def _conditions(components: Iterable[Component]) -> dict[str, object]:
    wanted: dict[str, object] = {}
    for kind, match_type, match in components:
        if not kind:
            raise _invalid("Invalid empty entity type.")
        if kind in wanted:
            raise _invalid(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in ENTITY_TYPES:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        if match_type == MatchType.EXACT:
            if match is None:
                raise _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
            wanted[kind] = match
        elif match_type == MatchType.DEFAULT:
            if match is not None:
                raise _invalid("Request specified MATCH_TYPE_DEFAULT, but also specified a match string.")
            wanted[kind] = None
        elif match_type == MatchType.SPECIFIED:
            if match is not None:
                raise _invalid("Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.")
            wanted[kind] = _ANY
        else:
            raise _invalid(f"Unknown match type {match_type}")
    if IP in wanted and (USER in wanted or CLIENT_ID in wanted):
        raise _invalid(
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId "
            "filter component."
        )
    return wanted


def _invalid(why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, why)
