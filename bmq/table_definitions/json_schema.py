"""The values in a JSON Schema that fit columns. Decisions only.

Objects are walked; a list, and an object without known properties, becomes its JSON text. References within the schema are
followed (`#/definitions/…`, `#/$defs/…`). Source: JSON Schema, drafts 7 and 2020-12.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bmq.table_definitions.avro_schema import SchemaRefused
from bmq.table_definitions.leaf_columns import Leaf, LeftOut, SchemaLeaves

_TYPES: Final[Mapping[str, str]] = {
    "boolean": "boolean",
    "integer": "long",
    "number": "double",
    "string": "string",
    "array": "string",
}
_FORMATS: Final[Mapping[str, str]] = {"date": "date", "date-time": "timestamp"}
_DEPTH_MAX: Final = 32
_LEAVES_MAX: Final = 1_000


def json_schema_leaves(schema: Any) -> SchemaLeaves:
    """Raises SchemaRefused: its values are no objects, or it is too large."""
    walk = _Walk(schema)
    root = walk.resolved(schema)
    if not isinstance(root, dict) or not isinstance(root.get("properties"), dict):
        raise SchemaRefused("its values are no objects with known properties")
    walk.into(root, (), 0)
    return SchemaLeaves(tuple(walk.leaves), tuple(walk.left_out))


class _Walk:
    def __init__(self, schema: Any) -> None:
        self.leaves: list[Leaf] = []
        self.left_out: list[LeftOut] = []
        self._schema = schema

    def into(self, schema: Mapping[str, Any], steps: tuple[str, ...], depth: int) -> None:
        for name, below in schema["properties"].items():
            if len(self.leaves) + len(self.left_out) >= _LEAVES_MAX:
                raise SchemaRefused(f"it has more than {_LEAVES_MAX} values")
            if not isinstance(name, str) or not name or len(name) > 255:
                raise SchemaRefused("a property has no name, or one with more than 255 characters")
            self._value(below, (*steps, name), depth + 1)

    def _value(self, schema: Any, steps: tuple[str, ...], depth: int) -> None:
        found = self.resolved(schema)
        if not isinstance(found, dict):
            self.left_out.append(LeftOut(steps, "its schema says nothing of its type"))
            return
        kind = _type_of(found)
        is_object = kind == "object" or (kind is None and isinstance(found.get("properties"), dict))
        if is_object and isinstance(found.get("properties"), dict) and found["properties"]:
            if depth >= _DEPTH_MAX:
                self.left_out.append(LeftOut(steps, f"it is nested {_DEPTH_MAX} deep, or contains itself"))
            else:
                self.into(found, steps, depth)
        elif is_object:
            self.leaves.append(Leaf(steps, "string"))
        elif kind is None:
            self.left_out.append(LeftOut(steps, "it has more than one type, or none"))
        else:
            self.leaves.append(Leaf(steps, _column_type(kind, found)))

    def resolved(self, schema: Any) -> Any:
        """Behind references, and without the branch of null. Raises SchemaRefused for a reference to elsewhere."""
        for _ in range(_DEPTH_MAX):
            if not isinstance(schema, dict):
                return schema
            if "$ref" in schema:
                schema = self._referred(schema["$ref"])
                continue
            branches = [
                branch
                for branch in (schema.get("oneOf") or schema.get("anyOf") or ())
                if not (isinstance(branch, dict) and branch.get("type") == "null")
            ]
            if len(branches) != 1:
                return schema
            schema = branches[0]
        raise SchemaRefused("a reference in it leads to itself")

    def _referred(self, reference: Any) -> Any:
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise SchemaRefused(f"it refers to another schema, {str(reference)[:80]!r}, which is not followed")
        found = self._schema
        for step in reference[1:].split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or key not in found:
                raise SchemaRefused(f"it refers to {reference[:80]!r}, which is not in it")
            found = found[key]
        return found


def _type_of(schema: Mapping[str, Any]) -> str | None:
    """None: none, or several beside null."""
    kind = schema.get("type")
    kinds = [each for each in kind if each != "null"] if isinstance(kind, list) else [kind]
    if len(kinds) == 1 and isinstance(kinds[0], str) and (kinds[0] in _TYPES or kinds[0] == "object"):
        return kinds[0]
    if kind is None and isinstance(schema.get("enum"), list) and all(isinstance(each, str) for each in schema["enum"]):
        return "string"
    return None


def _column_type(kind: str, schema: Mapping[str, Any]) -> str:
    if kind == "string":
        if schema.get("contentEncoding") == "base64":
            return "binary"
        return _FORMATS.get(str(schema.get("format")), "string")
    return _TYPES[kind]
