"""The values in a Protobuf message that fit columns. Decisions only."""

from __future__ import annotations

from typing import Final

from google.protobuf.descriptor import Descriptor

from bmq.table_definitions.avro_schema import SchemaRefused
from bmq.table_definitions.leaf_columns import Leaf, LeftOut, SchemaLeaves
from bmq.table_definitions.protobuf_schema import TIMESTAMP, ProtobufSchema, own_column

_DEPTH_MAX: Final = 32
_LEAVES_MAX: Final = 1_000


def protobuf_leaves(schema: ProtobufSchema) -> SchemaLeaves:
    """Raises SchemaRefused: it is too large."""
    leaves: list[Leaf] = []
    left_out: list[LeftOut] = []
    waiting: list[tuple[tuple[str, ...], Descriptor, tuple[str, ...]]] = [((), schema.message, ())]
    while waiting:
        steps, message, within = waiting.pop()
        deeper = []
        for field in message.fields:
            here = (*steps, field.name)
            below = field.message_type
            if field.is_repeated:
                left_out.append(LeftOut(here, "no column holds a list or a map"))
            elif below is None or below.full_name == TIMESTAMP:
                leaves.append(Leaf(here, own_column(schema.path(here).kind)))
            elif below.full_name in (*within, message.full_name) or len(here) >= _DEPTH_MAX:
                left_out.append(LeftOut(here, f"it is nested {_DEPTH_MAX} deep, or contains itself"))
            else:
                deeper.append((here, below, (*within, message.full_name)))
            if len(leaves) + len(left_out) + len(waiting) + len(deeper) > _LEAVES_MAX:
                raise SchemaRefused(f"it has more than {_LEAVES_MAX} values")
        waiting += reversed(deeper)
    return SchemaLeaves(tuple(leaves), tuple(left_out))
