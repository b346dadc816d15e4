"""Columns of an Iceberg table from a definition, and the statements that create or extend the table. Decisions only.

Every column is nullable, required ones too: the definition checks required fields per record, and may change. Two extra
columns tell where a row comes from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from bmq.spark.tables.errors import TableMismatch
from bmq.table_definitions.column_types import is_widening
from bmq.table_definitions.definition import DEAD_LETTER_COLUMNS, Partitioning, TableDefinition, Transform
from bmq.table_definitions.index_identity import INDEX_PROPERTY, index_identity
from bmq.table_definitions.index_layout import TIMESTAMP_COLUMN

PARTITION_COLUMN: Final = "_bmq_partition"
OFFSET_COLUMN: Final = "_bmq_offset"
OWN_COLUMNS: Final[Mapping[str, str]] = {PARTITION_COLUMN: "int", OFFSET_COLUMN: "bigint"}

OWNER_PROPERTY: Final = "bmq.topic"
"""Marks the tables that a job may write; tables without it are never touched."""
TABLE_PROPERTIES: Final[Mapping[str, str]] = {
    "format-version": "2",
    # Rows are staged in a snapshot that readers do not see, and published together with the offsets.
    "write.wap.enabled": "true",
    # Each task writes files for all partitions it meets: shuffling every small batch costs more than merging later.
    "write.distribution-mode": "none",
    "write.spark.fanout.enabled": "true",
    "write.parquet.compression-codec": "zstd",
    # Each commit writes a metadata file.
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
    "commit.retry.num-retries": "20",
}
CHANGES_PROPERTY: Final = "bmq.changes"
"""Key and mode of a table whose records change rows, set when it is made."""
INDEX_ROW_GROUP_BYTES: Final = 8 * 1024 * 1024
INDEX_BLOOM_BYTES_MAX: Final = 256 * 1024
"""Of one row group and column: enough for 200,000 different values with one false answer in 100."""


def spark_type(column_type: str) -> str:
    """Spark's name of a definition's column type."""
    return "bigint" if column_type == "long" else column_type


def definition_type(type_of_spark: str) -> str:
    return "long" if type_of_spark == "bigint" else type_of_spark


def table_columns(definition: TableDefinition) -> dict[str, str]:
    """Names and Spark types, in order."""
    own = OWN_COLUMNS if definition.index is None else {**OWN_COLUMNS, TIMESTAMP_COLUMN: "timestamp"}
    return {**{field.name: spark_type(field.type) for field in definition.fields}, **own}


def index_properties(definition: TableDefinition) -> dict[str, str]:
    """Properties of Iceberg's Parquet writer for lookups: small row groups, each with bloom filters for exact keys.

    A lookup reads whole row groups, chosen by their least and greatest values and their bloom filters.
    """
    layout = definition.index
    if layout is None:
        return {}
    return {
        INDEX_PROPERTY: index_identity(definition),
        "write.parquet.row-group-size-bytes": str(INDEX_ROW_GROUP_BYTES),
        "write.parquet.bloom-filter-max-bytes": str(INDEX_BLOOM_BYTES_MAX),
        **{f"write.parquet.bloom-filter-enabled.column.{name}": "true" for name in layout.bloom_columns},
    }


def changes_properties(definition: TableDefinition) -> dict[str, str]:
    """Properties of a table whose records change rows; none for any other.

    An update is a new row and a mark on the old one's position (merge-on-read), so that no large file is written anew for a few
    rows. Format 3 keeps these marks as one deletion vector for each file, which goes with its file: so the totals of a snapshot
    tell how many rows there are.
    """
    if definition.changes is None:
        return {}
    return {
        CHANGES_PROPERTY: str(definition.changes),
        "format-version": "3",
        "write.merge.mode": "merge-on-read",
        "write.update.mode": "merge-on-read",
        "write.delete.mode": "merge-on-read",
    }


def dead_letter_columns() -> dict[str, str]:
    return {name: spark_type(kind) for name, kind in DEAD_LETTER_COLUMNS.items()}


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def text(value: str) -> str:
    """A string literal in Spark SQL."""
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


def partition_terms(definition: TableDefinition) -> list[str]:
    """The table's partitions as SQL: for an index first its time."""
    terms = list(map(transform, definition.partitioning))
    layout = definition.index
    return terms if layout is None else [f"{layout.every.value}s({quoted(layout.time_column)})", *terms]


def create_statement(
    identifier: str,
    columns: Mapping[str, str],
    topic: str,
    partitions: Sequence[str] = (),
    properties: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """`identifier`: already quoted. `partitions`: as SQL. `properties`: beside those that every table has."""
    properties = {OWNER_PROPERTY: topic, **TABLE_PROPERTIES, **properties}
    parts = [
        f"CREATE TABLE IF NOT EXISTS {identifier}",
        f"({', '.join(f'{quoted(name)} {kind}' for name, kind in columns.items())})",
        "USING iceberg",
        *([f"PARTITIONED BY ({', '.join(partitions)})"] if partitions else []),
        f"TBLPROPERTIES ({', '.join(f'{text(key)} = {text(value)}' for key, value in properties.items())})",
    ]
    return " ".join(parts)


def evolution_statements(
    identifier: str, existing: Mapping[str, str], wanted: Mapping[str, str], table: str
) -> list[str]:
    """Statements that add missing columns and widen types. Extra columns are kept, and null from now on.

    Raises TableMismatch: a column has a type as which its files cannot be read.
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
