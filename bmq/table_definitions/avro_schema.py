"""Resolves paths in an Avro schema and checks which columns they fit. Only the walked part of the schema is checked.

Source: Apache Avro 1.12 specification, "Schema Declaration" and "Logical Types".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from bmq.table_definitions.column_types import precision_and_scale

_PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_NAMED: Final = frozenset({"record", "error", "enum", "fixed"})
_NESTED: Final = frozenset({"array", "map"})
_DEPTH_MAX: Final = 64
_COLUMNS: Final[Mapping[str, frozenset[str]]] = {
    "boolean": frozenset({"boolean"}),
    "int": frozenset({"int", "long"}),
    "long": frozenset({"long"}),
    "float": frozenset({"float", "double"}),
    "double": frozenset({"double"}),
    "bytes": frozenset({"binary"}),
    "fixed": frozenset({"binary"}),
    "string": frozenset({"string"}),
    "enum": frozenset({"string"}),
}
"""Columns that take a value without a logical type."""
_NARROW_FIRST: Final = ("boolean", "int", "long", "float", "double", "binary", "string")
_TIMESTAMPS: Final = frozenset({"timestamp-millis", "timestamp-micros"})


class SchemaRefused(Exception):
    """One sentence about the schema; the caller adds which field it is about."""


class AvroSchema:
    """A schema for values that are records. Raises SchemaRefused for anything else."""

    def __init__(self, schema: Any) -> None:
        self._named: dict[str, Mapping[str, Any]] = {}
        self._fields: dict[int, dict[str, Mapping[str, Any]]] = {}  # of each record, by its id()
        self._collect(schema, "", 0)
        self._root = self._resolved(schema, "")
        if self._root.get("type") != "record":
            raise SchemaRefused("its type is no record")

    def fits(self, steps: Sequence[str], column_type: str, unit: str | None) -> None:
        """Raises SchemaRefused when the path does not exist, or its value does not fit a column of this type."""
        found = self._at(steps)
        name, logical = found["type"], self.logical_type(steps)
        if column_type == "timestamp":
            is_fit = logical in _TIMESTAMPS if unit is None else name in ("int", "long")
        elif logical == "date" or column_type == "date":
            is_fit = logical == "date" and column_type == "date"
        elif logical == "decimal" or precision_and_scale(column_type) is not None:
            is_fit = logical == "decimal" and _holds(column_type, found)
        else:
            is_fit = column_type in _COLUMNS.get(name, ())
        if not is_fit:
            what = name if logical is None else f"{name} ({logical})"
            raise SchemaRefused(f"{'.'.join(steps)} is {_article(what)} there, which does not fit {column_type}")

    def logical_type(self, steps: Sequence[str]) -> str | None:
        """Raises SchemaRefused when the path does not exist."""
        logical = self._at(steps).get("logicalType")
        return logical if isinstance(logical, str) else None

    def has(self, steps: Sequence[str]) -> bool:
        """Whether the path exists."""
        try:
            self._at(steps)
        except SchemaRefused:
            return False
        return True

    def children(self, steps: Sequence[str]) -> tuple[str, ...] | None:
        """Names of a record's fields; None if no record is there. Raises SchemaRefused when the path does not exist."""
        found = self._at(steps)
        return tuple(self._fields[id(found)]) if found["type"] in ("record", "error") else None

    def column_type(self, steps: Sequence[str]) -> str | None:
        """The column that holds every value there; None if none does. Raises SchemaRefused when the path does not exist."""
        found, logical = self._at(steps), self.logical_type(steps)
        if logical == "decimal":
            precision, scale = found.get("precision"), found.get("scale", 0)
            kinds = [f"decimal({precision},{scale})"] if _holds(f"decimal({precision},{scale})", found) else []
        elif logical in _TIMESTAMPS:
            kinds = ["timestamp"]
        elif logical == "date":
            kinds = ["date"]
        else:
            kinds = [kind for kind in _NARROW_FIRST if kind in _COLUMNS.get(found["type"], ())]
        return kinds[0] if kinds else None

    def _at(self, steps: Sequence[str]) -> Mapping[str, Any]:
        found, namespace = self._root, _namespace_of(self._root, "")
        for number, step in enumerate(steps):
            if found["type"] not in ("record", "error"):
                raise SchemaRefused(f"{'.'.join(steps[:number])} is no record there, so it has no {step}")
            field = self._fields[id(found)].get(step)
            if field is None:
                raise SchemaRefused(f"it has no {'.'.join(steps[: number + 1])}")
            found = self._resolved(field["type"], namespace)
            namespace = _namespace_of(found, namespace)
        return found

    def _resolved(self, schema: Any, namespace: str) -> Mapping[str, Any]:
        """The non-null branch of a union with null; the definition behind a name."""
        if isinstance(schema, list):
            branches = [branch for branch in schema if branch != "null"]
            if len(branches) != 1:
                return {"type": "union"}
            schema = branches[0]
        if isinstance(schema, str):
            if schema in _PRIMITIVES:
                return {"type": schema}
            return self._named[_full_name(schema, namespace, self._named)]
        kind = schema["type"]
        if not isinstance(kind, str):
            return self._resolved(kind, namespace)
        if kind in _PRIMITIVES or kind in _NAMED or kind in _NESTED:
            found: Mapping[str, Any] = schema
            return found
        return self._named[_full_name(kind, namespace, self._named)]

    def _collect(self, schema: Any, namespace: str, depth: int) -> None:
        """Collect named types, and check the form of the whole schema."""
        if depth > _DEPTH_MAX:
            raise SchemaRefused(f"it is nested more than {_DEPTH_MAX} deep")
        if isinstance(schema, str):
            if schema not in _PRIMITIVES:
                _full_name(schema, namespace, self._named)
            return
        if isinstance(schema, list):
            for branch in schema:
                self._collect(branch, namespace, depth + 1)
            return
        if not isinstance(schema, dict) or "type" not in schema:
            raise SchemaRefused("a schema is a name, a list or an object with a type")
        kind = schema["type"]
        if not isinstance(kind, str):
            self._collect(kind, namespace, depth + 1)
        elif kind in _NAMED:
            self._collect_named(schema, namespace, depth)
        elif kind in _NESTED:
            self._collect(schema.get("items" if kind == "array" else "values"), namespace, depth + 1)
        elif kind not in _PRIMITIVES:
            _full_name(kind, namespace, self._named)

    def _collect_named(self, schema: Mapping[str, Any], namespace: str, depth: int) -> None:
        name = schema.get("name")
        if not isinstance(name, str) or not name:
            raise SchemaRefused(f"{_article(schema['type'])} has no name")
        namespace = _namespace_of(schema, namespace)
        self._named[name if "." in name or not namespace else f"{namespace}.{name}"] = schema
        if schema["type"] not in ("record", "error"):
            return
        fields = schema.get("fields")
        if not isinstance(fields, list):
            raise SchemaRefused(f"record {name} has no list of fields")
        by_name = self._fields[id(schema)] = {}
        for field in fields:
            if not isinstance(field, dict) or not isinstance(field.get("name"), str) or "type" not in field:
                raise SchemaRefused(f"a field of record {name} has no name or no type")
            if field["name"] in by_name:
                raise SchemaRefused(f"record {name} has {field['name']} more than once")
            by_name[field["name"]] = field
            self._collect(field["type"], namespace, depth + 1)


def _namespace_of(schema: Mapping[str, Any], enclosing: str) -> str:
    """The namespace in which names within the schema are looked up."""
    name = schema.get("name", "")
    if schema.get("type") in _NAMED and "." in name:
        return str(name).rpartition(".")[0]
    given = schema.get("namespace", enclosing)
    return given if isinstance(given, str) else enclosing


def _full_name(name: str, namespace: str, named: Mapping[str, Any]) -> str:
    """Raises SchemaRefused for a name that was not defined before."""
    full = f"{namespace}.{name}" if namespace and "." not in name else name
    if full in named:
        return full
    if name in named:
        return name
    raise SchemaRefused(f"{name} is no type of Avro, and nothing before it has that name")


def _holds(column_type: str, schema: Mapping[str, Any]) -> bool:
    digits = precision_and_scale(column_type)
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if digits is None or not isinstance(precision, int) or not isinstance(scale, int):
        return False
    return digits[1] == scale and digits[0] >= precision


def _article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' and noun != 'union' else 'a'} {noun}"
