"""What a client quota is set for: a user, a client id, both, or an address; and the names of what may be limited.

Source: ClientQuotaEntity, QuotaConfig (Kafka 4.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
ENTITY_TYPES: Final = frozenset({USER, CLIENT_ID, IP})

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

_LONG_MAX: Final = float(2**63 - 1)
_INT_MAX: Final = float(2**31 - 1)
WHOLE_KEYS: Final[Mapping[str, tuple[float, str]]] = {
    PRODUCER_BYTE_RATE: (_LONG_MAX, "a LONG"),
    CONSUMER_BYTE_RATE: (_LONG_MAX, "a LONG"),
    CONNECTION_CREATION_RATE: (_INT_MAX, "an INT"),
}
"""Keys that take whole numbers: the greatest one, and what Kafka calls the type."""
CLIENT_KEYS: Final = frozenset({PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE})
"""What may be limited for users and client ids."""
IP_KEYS: Final = frozenset({CONNECTION_CREATION_RATE})
"""What may be limited for addresses."""

Entity = tuple[tuple[str, str | None], ...]
"""(type, name) pairs, sorted by type; the name None stands for all that have no quota of their own."""
Quotas = Mapping[Entity, Mapping[str, float]]
"""Limits by key, by entity."""


def entity_of(parts: Iterable[tuple[str, str | None]]) -> Entity:
    """An entity of its parts, each type once."""
    return tuple(sorted(dict(parts).items()))


def entity_text(entity: Entity) -> str:
    """An entity as Kafka writes it into messages."""
    parts = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in entity)
    return f"ClientQuotaEntity(entries={{{parts}}})"
