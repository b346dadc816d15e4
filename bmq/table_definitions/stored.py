"""A table in the metadata log: its definition, the ids of the table and its topic, and times.

One text per table, rewritten whole with every change. It is the value of a ConfigRecord of resource type
RESOURCE_TYPE_TABLE, so releases without tables can read the log, and keep the tables in their snapshots.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bmq.protocol.errors import BmqError
from bmq.table_definitions.definition import TableDefinition, sentence_of

_KEPT_MAX: Final = 1_000


class UnreadableTable(BmqError):
    """The metadata log has a table that this release does not understand: a later release wrote it."""


class StoredTable(BaseModel):
    """`table_id` differs from that of an earlier table of the name; `topic_id` tells the topic from a later one of its name.

    `version` counts the definition's changes, from 1 on.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    table_id: UUID
    topic_id: UUID
    version: int = Field(ge=1)
    created_at_ms: int
    altered_at_ms: int
    definition: TableDefinition

    def to_text(self) -> str:
        return self.model_dump_json()


@lru_cache(_KEPT_MAX)
def stored_table(text: str) -> StoredTable:
    """The inverse of `to_text`. Raises UnreadableTable."""
    try:
        return StoredTable.model_validate_json(text)
    except ValidationError as error:
        why = sentence_of(error.errors(include_url=False, include_context=False))
        raise UnreadableTable(f"a later release of bmq wrote this table, and this one cannot read it: {why}") from None
