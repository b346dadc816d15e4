"""An index's definition as the cluster's REST API tells it (`GET /v1/tables/NAME`). Pure."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from bmq.index.errors import SourceAway
from bmq.table_definitions.stored import StoredTable


def stored_index(form: Any) -> StoredTable:
    """Times are left out: no query needs them. Raises SourceAway: it is no answer of a bmq node of this release."""
    try:
        return StoredTable.model_validate(
            {
                "table_id": form["table_id"],
                "topic_id": form["topic_id"],
                "version": form["version"],
                "created_at_ms": 0,
                "altered_at_ms": 0,
                "definition": form["definition"],
            }
        )
    except (ValidationError, KeyError, TypeError):
        raise SourceAway(
            "the definition of the index cannot be read: upgrade this program, or ask another node"
        ) from None
