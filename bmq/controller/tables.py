"""Tables made of topics: creating, altering, dropping. Decisions only.

Here a table is only a definition: the job that fills it writes its rows to Iceberg, and dropping the table leaves them
there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from uuid import UUID

from bmq.controller.decision import Decision
from bmq.dataclass import dataclass
from bmq.metadata.image import INTERNAL_TOPICS, MetadataImage
from bmq.metadata.state import TABLE_CONFIG
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.protocol.metadata_records import RESOURCE_TYPE_TABLE, ConfigRecord
from bmq.table_definitions.definition import DEFINITION_BYTES_MAX, InvalidDefinition, TableDefinition
from bmq.table_definitions.evolution import alterations
from bmq.table_definitions.progress import TABLES_MAX
from bmq.table_definitions.stored import StoredTable, UnreadableTable, stored_table

TABLES_CHARACTERS_MAX: Final = 16 * 1024 * 1024
"""Total size of all tables in the metadata log, which every node holds in memory."""


class UnknownTable(BmqError):
    """There is no table of this name."""


class TableRefused(BmqError):
    """Existing tables or topics do not allow the change."""

    code = ErrorCode.INVALID_REQUEST


@dataclass(frozen=True, slots=True)
class TableChange:
    """The outcome for a table: one sentence overall, and one for each change. `is_new`: it did not exist before."""

    summary: str
    table: StoredTable
    changes: tuple[str, ...] = ()
    is_new: bool = False


def find_table(image: MetadataImage, name: str) -> StoredTable:
    """Raises UnknownTable, UnreadableTable."""
    text = image.tables.get(name)
    if text is None:
        raise UnknownTable(f"there is no table {name}")
    return stored_table(text)


def decide_create_table(
    image: MetadataImage, definition: TableDefinition, table_id: UUID, now_ms: int
) -> Decision[TableChange]:
    """Create a table. An equal existing one counts as success: the first answer may have been lost.

    `table_id`: never used before. Raises TableRefused, UnreadableTable, InvalidDefinition.
    """
    name = definition.name
    if name in image.tables:
        table = stored_table(image.tables[name])
        if table.definition != definition:
            raise TableRefused(f"there is a table {name} already, and it is another one; alter it, or drop it first")
        return Decision(TableChange(f"Table {name} is there already.", table))
    if len(image.tables) >= TABLES_MAX:
        raise TableRefused(f"there are {len(image.tables)} tables, and no more may be; drop one first")
    topic = image.topics.get(definition.topic)
    if definition.topic in INTERNAL_TOPICS:
        raise TableRefused(f"topic {definition.topic} is bmq's own, and no table is made of it")
    if topic is None:
        raise TableRefused(f"there is no topic {definition.topic}; create it first")
    _require_free_names(image, definition)
    table = StoredTable(
        table_id=table_id,
        topic_id=topic.topic_id,
        version=1,
        created_at_ms=now_ms,
        altered_at_ms=now_ms,
        definition=definition,
    )
    partitions = "1 partition" if len(topic.partitions) == 1 else f"{len(topic.partitions)} partitions"
    made_of = f"topic {definition.topic}"
    if topic.view is not None:
        made_of = f"{definition.topic}, a view of topic {topic.view.base_name}"
    kind = "Table" if definition.index is None else "Index"
    summary = f"{kind} {name} is made of {made_of} ({partitions})."
    return Decision(TableChange(summary, table, is_new=True), (_record(image, table),))


def decide_alter_table(
    image: MetadataImage, name: str, definition: TableDefinition, now_ms: int
) -> Decision[TableChange]:
    """Replace the whole definition. An equivalent one changes nothing.

    Raises UnknownTable, UnreadableTable, TableRefused, InvalidDefinition, and AlterationRefused for what may not change.
    """
    table = find_table(image, name)
    changes = alterations(table.definition, definition)
    if not changes:
        return Decision(TableChange(f"Table {name} is so already: nothing changes.", table))
    _require_free_names(image, definition)
    altered = table.model_copy(update={"version": table.version + 1, "altered_at_ms": now_ms, "definition": definition})
    summary = f"Table {name} changes; its job follows with its next batch."
    return Decision(TableChange(summary, altered, changes), (_record(image, altered),))


def decide_drop_table(image: MetadataImage, name: str) -> Decision[str]:
    """Drop a table, even one that this release cannot read; answers with a sentence. Raises UnknownTable."""
    if name not in image.tables:
        raise UnknownTable(f"there is no table {name}")
    record = ConfigRecord(resource_type=RESOURCE_TYPE_TABLE, resource_name=name, name=TABLE_CONFIG, value=None)
    return Decision(f"The definition of table {name} is dropped; its rows stay where they are.", (record,))


def _require_free_names(image: MetadataImage, definition: TableDefinition) -> None:
    """Neither the table's name nor that of its dead letters may belong to another table. Raises TableRefused."""
    wanted = {definition.name, definition.dead_letter_table}
    for name, used in _names_in_use(image):
        if name != definition.name and used in wanted:
            whose = f"table {name}" if used == name else f"the dead-letter table of {name}"
            raise TableRefused(f"{used} is {whose}, and two jobs must not write one table; choose another name")


def _names_in_use(image: MetadataImage) -> Iterator[tuple[str, str]]:
    """Names of tables, each with the tables that its job writes."""
    for name, text in image.tables.items():
        yield name, name
        try:
            dead_letter = stored_table(text).definition.dead_letter_table
        except UnreadableTable:
            continue
        if dead_letter is not None:
            yield name, dead_letter


def _record(image: MetadataImage, table: StoredTable) -> ConfigRecord:
    """Raises InvalidDefinition, TableRefused when it would be too large."""
    name, text = table.definition.name, table.to_text()
    if len(text) > DEFINITION_BYTES_MAX:
        raise InvalidDefinition(f"the definition has {len(text)} characters, {DEFINITION_BYTES_MAX} are allowed")
    others = sum(len(each) for other, each in image.tables.items() if other != name)
    if others + len(text) > TABLES_CHARACTERS_MAX:
        raise TableRefused(
            f"all tables together would have more than {TABLES_CHARACTERS_MAX} characters; drop one first"
        )
    return ConfigRecord(resource_type=RESOURCE_TYPE_TABLE, resource_name=name, name=TABLE_CONFIG, value=text)
