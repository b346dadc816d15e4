"""An Avro schema with one more field, which is set in every readable value. Pure.

Spark's `from_avro` returns a record of nulls for unreadable bytes, and the same for a value that is all null. A field
with a default in the reader's schema tells them apart.
"""

from __future__ import annotations

import copy
import json
from typing import Any, Final

MARKER: Final = "_bmq_present"


def marked_avro_schema(schema: Any) -> str:
    """The JSON of a reader's schema for values written by `schema`, a record or a union of one with null."""
    marked = copy.deepcopy(schema)
    record = marked
    while True:
        if isinstance(record, list):
            record = next(branch for branch in record if branch != "null")
        elif isinstance(record["type"], str):
            break
        else:
            record = record["type"]
    record["fields"].append({"name": MARKER, "type": "boolean", "default": True})
    return json.dumps(marked)
