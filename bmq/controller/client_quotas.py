"""AlterClientQuotas: decides which quotas may be set and which records it takes (KIP-546).

Every entity succeeds or fails as a whole. Codes and words are those of Kafka's ClientQuotaControlManager (4.3), which
accepts NaN, and looks names of hosts up; both are refused here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import isnan
from typing import Final

from bmq.controller.decision import Deciding, Decision
from bmq.controller.security_level import security_level_records
from bmq.metadata.image import MetadataImage
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest, OpData
from bmq.protocol.messages.alter_client_quotas_request import EntityData as NamedEntity
from bmq.protocol.messages.alter_client_quotas_request import EntryData as Change
from bmq.protocol.messages.alter_client_quotas_response import AlterClientQuotasResponse, EntityData, EntryData
from bmq.protocol.metadata_records import ClientQuotaRecord, MetadataRecord, QuotaEntity, RegisterBrokerRecord
from bmq.protocol.turns import Pace
from bmq.protocol.wire_turns import InTurns
from bmq.security.quotas.entities import (
    CLIENT_KEYS,
    ENTITY_TYPES,
    IP,
    IP_KEYS,
    WHOLE_KEYS,
    Entity,
    entity_of,
    entity_text,
)
from bmq.security.quotas.precedence import canonical_address

RECORDS_PER_REQUEST_MAX: Final = 10_000
"""Kafka's MAX_RECORDS_PER_USER_OP."""
ENTITIES_MAX: Final = 100_000
"""Entities with quotas in the whole cluster."""
NAME_LENGTH_MAX: Final = 1_024
"""Longest name of a user or a client id with a quota, in characters."""
_FRACTION: Final = 1e-6


@Deciding
def decide_alter_client_quotas(
    image: MetadataImage,
    request: AlterClientQuotasRequest,
    features: Mapping[str, int],
    registrations: Mapping[int, RegisterBrokerRecord],
) -> InTurns[Decision[AlterClientQuotasResponse]]:
    """`features`, `registrations`: the cluster's, as the first quota needs a level that all nodes understand."""
    keys = []
    results, records = [], list[MetadataRecord]()
    added = 0
    pace = Pace()
    for change in request.entries:
        keys.append(_key_of(change.entity))
        if pace.is_over(1 + len(change.entity)):
            yield
    counts = Counter(keys)
    for change, key in zip(request.entries, keys, strict=True):
        if pace.is_over(1 + len(change.entity) + len(change.ops)):
            yield
        result = EntryData(
            entity=[EntityData(entity_type=one.entity_type, entity_name=one.entity_name) for one in change.entity]
        )
        try:
            entity = _valid_entity(change)
            if counts[key] > 1:
                raise _invalid(f"Ignoring duplicate entity {entity_text(entity)}")
            changed = _changes(entity, change.ops, image.client_quotas.get(entity, {}))
            is_new = entity not in image.client_quotas and bool(changed)
            if is_new and len(image.client_quotas) + added >= ENTITIES_MAX:
                raise KafkaError(
                    ErrorCode.POLICY_VIOLATION, f"{ENTITIES_MAX} entities have quotas, no more are allowed"
                )
            if len(records) + len(changed) > RECORDS_PER_REQUEST_MAX:
                raise KafkaError(
                    ErrorCode.POLICY_VIOLATION, f"More than {RECORDS_PER_REQUEST_MAX} quotas are changed by one request"
                )
            if changed and not records:
                records += security_level_records(features, registrations)
            records += changed
            added += is_new
        except KafkaError as error:
            result.error_code, result.error_message = error.code, str(error)
        results.append(result)
    return Decision(AlterClientQuotasResponse(entries=results), () if request.validate_only else records)


def _key_of(named: Sequence[NamedEntity]) -> tuple[tuple[str, str | None], ...]:
    return tuple(sorted(((one.entity_type, one.entity_name) for one in named), key=lambda one: (one[0], one[1] or "")))


def _valid_entity(change: Change) -> Entity:
    named = change.entity
    if not named:
        raise _invalid("Invalid empty client quota entity")
    kinds = [one.entity_type for one in named]
    for kind, name in ((one.entity_type, one.entity_name) for one in named):
        if kinds.count(kind) > 1:
            raise _invalid(f"Invalid client quota entity, duplicate entity entry {kind}")
        if kind not in ENTITY_TYPES:
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
        if name is not None and len(name) > NAME_LENGTH_MAX:
            raise _invalid(f"The name of a {kind} with a quota has {NAME_LENGTH_MAX} characters at most")
    if IP not in kinds:
        return entity_of((one.entity_type, one.entity_name) for one in named)
    if len(kinds) > 1:
        raise _invalid("Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId")
    address = named[0].entity_name
    if address is None:
        return ((IP, None),)
    canonical = canonical_address(address)
    if canonical is None:
        raise _invalid(f"{address} is not a valid IP or resolvable host.")
    return ((IP, canonical),)


def _changes(entity: Entity, changes: Sequence[OpData], current: Mapping[str, float]) -> list[ClientQuotaRecord]:
    """Records for what differs from `current`. Raises KafkaError INVALID_REQUEST."""
    keys = IP_KEYS if entity[0][0] == IP else CLIENT_KEYS
    parts = [QuotaEntity(entity_type=kind, entity_name=name) for kind, name in entity]
    seen, records = set[str](), []
    for change in changes:
        key, value = change.key, change.value
        if key in seen:
            raise _invalid(f"Duplicate quota key {key} not updating quota for this entity {entity_text(entity)}")
        seen.add(key)
        if change.remove:
            if key in current:
                records.append(ClientQuotaRecord(entity=parts, key=key, remove=True))
            continue
        _require_valid(keys, key, value)
        if current.get(key) != value:
            records.append(ClientQuotaRecord(entity=parts, key=key, value=value))
    return records


def _require_valid(keys: frozenset[str], key: str, value: float) -> None:
    if key not in keys:
        raise _invalid(f"Invalid configuration key {key}")
    if isnan(value) or value <= 0:
        raise _invalid(f"Quota {key} must be greater than 0")
    if key in WHOLE_KEYS:
        greatest, type_name = WHOLE_KEYS[key]
        if value > greatest:
            raise _invalid(f"Proposed value for {key} is too large for {type_name}.")
        if value % 1.0 > _FRACTION:
            raise _invalid(f"{key} cannot be a fractional value.")


def _invalid(why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, why)
