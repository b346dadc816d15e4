"""Client quotas as the metadata log has them: record 14, one key of one entity each."""

from __future__ import annotations

from collections.abc import Iterator

from bmq.protocol.metadata_records import ClientQuotaRecord, QuotaEntity
from bmq.security.quotas.entities import Entity, Quotas, entity_of


class ClientQuotaState:
    """The sum of the records. `image` stays the same object until one changes it."""

    def __init__(self) -> None:
        self._quotas: dict[Entity, dict[str, float]] = {}
        self._image: Quotas | None = {}

    def replay(self, record: ClientQuotaRecord) -> None:
        """Apply one record. Removing what is not there changes nothing."""
        entity = entity_of((part.entity_type, part.entity_name) for part in record.entity)
        self._image = None
        values = dict(self._quotas.get(entity, {}))  # images keep what they have of it
        if record.remove:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value
        if values:
            self._quotas[entity] = values
        else:
            self._quotas.pop(entity, None)

    @property
    def image(self) -> Quotas:
        """All quotas, as a copy that does not change."""
        if self._image is None:
            self._image = dict(self._quotas)
        return self._image

    def records(self) -> Iterator[ClientQuotaRecord]:
        """Records that lead to this state from nothing."""
        for entity, values in self._quotas.items():
            parts = tuple(QuotaEntity(entity_type=kind, entity_name=name) for kind, name in entity)
            for key, value in values.items():
                yield ClientQuotaRecord(entity=parts, key=key, value=value)
