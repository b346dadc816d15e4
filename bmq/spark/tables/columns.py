"""A definition as columns of an Iceberg table, and as the statements that make such a table or add to it. Decisions only.

Every column may be null, required ones too: what is required is the definition's to say, record by record, and may
change. Two columns more say where a row comes from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bmq.spark.tables.errors import TableMismatch
from bmq.tables.column_types import is_widening
from bmq.tables.definition import DEAD_LETTER_COLUMNS, Partitioning, TableDefinition, Transform

PARTITION_COLUMN: Final = "_bmq_partition"
OFFSET_COLUMN: Final = "_bmq_offset"
OWN_COLUMNS: Final[Mapping[str, str]] = {PARTITION_COLUMN: "int", OFFSET_COLUMN: "bigint"}

OWNER_PROPERTY: Final = "bmq.topic"
"""Only tables that have it are written: one of another origin is never touched."""
TABLE_PROPERTIES: Final[Mapping[str, str]] = {
    "format-version": "2",
    # Rows are staged as a snapshot that nobody sees, and published with the offsets.
    "write.wap.enabled": "true",
    # A task writes the files of all partitions it meets: a shuffle for each small batch costs more than merging later.
    "write.distribution-mode": "none",
    "write.spark.fanout.enabled": "true",
    "write.parquet.compression-codec": "zstd",
    # Each commit makes a metadata file.
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
    "commit.retry.num-retries": "20",
}


def spark_type(column_type: str) -> str:
    """A column type of a definition under Spark's name."""
    return "bigint" if column_type == "long" else column_type


def definition_type(type_of_spark: str) -> str:
    return "long" if type_of_spark == "bigint" else type_of_spark


def table_columns(definition: TableDefinition) -> dict[str, str]:
    """Names and Spark's types, in order."""
    return {**{field.name: spark_type(field.type) for field in definition.fields}, **OWN_COLUMNS}


def dead_letter_columns() -> dict[str, str]:
    return {name: spark_type(kind) for name, kind in DEAD_LETTER_COLUMNS.items()}


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def text(value: str) -> str:
    """A literal of Spark's SQL."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def transform(partitioning: Partitioning) -> str:
    field = quoted(partitioning.field)
    match partitioning.by:
        case Transform.IDENTITY:
            return field
        case Transform.BUCKET:
            return f"bucket({partitioning.buckets}, {field})"
        case by:
            return f"{by.value}s({field})"


def create_statement(
    identifier: str, columns: Mapping[str, str], topic: str, partitioning: tuple[Partitioning, ...] = ()
) -> str:
    """`identifier`: quoted already."""
    properties = {OWNER_PROPERTY: topic, **TABLE_PROPERTIES}
    parts = [
        f"CREATE TABLE IF NOT EXISTS {identifier}",
        f"({', '.join(f'{quoted(name)} {kind}' for name, kind in columns.items())})",
        "USING iceberg",
        *([f"PARTITIONED BY ({', '.join(map(transform, partitioning))})"] if partitioning else []),
        f"TBLPROPERTIES ({', '.join(f'{text(key)} = {text(value)}' for key, value in properties.items())})",
    ]
    return " ".join(parts)


def evolution_statements(
    identifier: str, existing: Mapping[str, str], wanted: Mapping[str, str], table: str
) -> list[str]:
    """What gives a table the columns it lacks and wider types. Columns it has beyond are kept, and null from now on.

    Raises TableMismatch: a column has another type that its files cannot be read as.
    """
    by_name = {name.lower(): kind for name, kind in existing.items()}
    added, statements = [], []
    for name, kind in wanted.items():
        old = by_name.get(name.lower())
        if old is None:
            added.append(f"{quoted(name)} {kind}")
        elif old == kind or is_widening(definition_type(kind), definition_type(old)):
            continue
        elif is_widening(definition_type(old), definition_type(kind)):
            statements.append(f"ALTER TABLE {identifier} ALTER COLUMN {quoted(name)} TYPE {kind}")
        else:
            raise TableMismatch(
                f"column {name} of table {table} is {old}, and {kind} in its definition; columns can be added or widened, "
                "not changed: give the field another name"
            )
    if added:
        statements.append(f"ALTER TABLE {identifier} ADD COLUMNS ({', '.join(added)})")
    return statements
