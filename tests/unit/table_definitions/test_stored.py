"""Tables as the metadata log has them."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.protocol.metadata_records import RESOURCE_TYPE_TABLE, ConfigRecord, decode_record, encode_record
from bmq.table_definitions.definition import TableDefinition
from bmq.table_definitions.stored import StoredTable, UnreadableTable, stored_table
from tests.unit.table_definitions.definitions import definitions

pytestmark = pytest.mark.unit

_times = st.integers(0, 2**53)


@given(definitions(), st.uuids(), st.uuids(), st.integers(1, 2**31), _times, _times)
def test_a_table_is_the_same_behind_the_log(
    definition: TableDefinition, table_id: UUID, topic_id: UUID, version: int, created_at_ms: int, altered_at_ms: int
) -> None:
    table = StoredTable(
        table_id=table_id,
        topic_id=topic_id,
        version=version,
        created_at_ms=created_at_ms,
        altered_at_ms=altered_at_ms,
        definition=definition,
    )
    record = ConfigRecord(
        resource_type=RESOURCE_TYPE_TABLE, resource_name=definition.name, name="table", value=table.to_text()
    )
    again = decode_record(encode_record(record))
    assert isinstance(again, ConfigRecord)
    assert again == record
    assert stored_table(again.value or "") == table


@given(st.text(max_size=40))
def test_what_is_no_table_is_a_sentence(text: str) -> None:
    with pytest.raises(UnreadableTable, match="a later release of bmq wrote this table"):
        stored_table(text)
