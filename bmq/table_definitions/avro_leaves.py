"""The values in an Avro schema that fit columns. Decisions only."""

from __future__ import annotations

from typing import Any, Final

from bmq.table_definitions.avro_schema import AvroSchema, SchemaRefused
from bmq.table_definitions.leaf_columns import Leaf, LeftOut, SchemaLeaves

_DEPTH_MAX: Final = 14
"""Spark follows a recursive schema not much further."""
_LEAVES_MAX: Final = 1_000


def avro_leaves(schema: Any) -> SchemaLeaves:
    """Raises SchemaRefused: it is no schema of records, or too large."""
    known = AvroSchema(schema)
    leaves: list[Leaf] = []
    left_out: list[LeftOut] = []
    waiting: list[tuple[str, ...]] = [()]
    while waiting:
        steps = waiting.pop()
        below = known.children(steps)
        kind = known.column_type(steps) if below is None else None
        if below is not None and len(steps) < _DEPTH_MAX:
            waiting += [(*steps, name) for name in reversed(below)]
        elif below is not None:
            left_out.append(LeftOut(steps, f"it is nested {_DEPTH_MAX} deep, or contains itself"))
        elif kind is None:
            left_out.append(LeftOut(steps, "no column holds a list, a map or a union"))
        else:
            leaves.append(Leaf(steps, kind))
        if len(leaves) + len(left_out) + len(waiting) > _LEAVES_MAX:
            raise SchemaRefused(f"it has more than {_LEAVES_MAX} values")
    return SchemaLeaves(tuple(leaves), tuple(left_out))
