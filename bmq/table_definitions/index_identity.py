"""What rows of an index depend on, as a short text that its files keep. Pure.

An index that was dropped and made again under its name finds the files of the former one. If that had other fields or keys, its rows
would be wrong answers, so job and queries compare.
"""

from __future__ import annotations

import hashlib
import json
from typing import Final

from bmq.table_definitions.definition import TableDefinition

INDEX_PROPERTY: Final = "bmq.index"
"""Property of the Iceberg table, set when it is made."""
_CHARACTERS: Final = 16


def index_identity(definition: TableDefinition) -> str:
    """Equal for definitions that `alterations` allows to follow each other. The definition has an index."""
    assert definition.index is not None
    form = {
        "topic": definition.topic,
        "format": definition.format.value,
        "fields": [
            [each.name, each.source.value, list(each.steps), each.unit and each.unit.value]
            for each in definition.fields
        ],
        "index": definition.index.model_dump(mode="json", exclude={"retention_ms"}),
    }
    if definition.has_framed_json:
        form["json_framing"] = "registry"
    return hashlib.sha256(json.dumps(form, sort_keys=True).encode()).hexdigest()[:_CHARACTERS]
