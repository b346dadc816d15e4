"""What this release writes into the metadata log beside the older one, which has to read it and keep it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from uuid import UUID

import pytest

from bmq.metadata.state import TABLE_CONFIG, MetadataState
from bmq.protocol.metadata_records import RESOURCE_TYPE_TABLE, ConfigRecord, TopicRecord, encode_record
from bmq.tables.stored import StoredTable, stored_table
from tests.support.older_release import unpack_older_release
from tests.unit.tables.definitions import definition

pytestmark = pytest.mark.contract

REPLAY = """
import sys
from bmq.controller.metadata_state import MetadataState
from bmq.protocol.metadata_records import decode_record
state = MetadataState("cluster", 1, {})
for line in sys.stdin:
    state.replay(decode_record(bytes.fromhex(line)))
assert len(state.image_at(2).topics) == 1
print(state.snapshot().hex())
"""


def test_tables_go_through_an_older_controllers_snapshot(tmp_path: Path) -> None:
    table = StoredTable(
        table_id=UUID(int=7),
        topic_id=UUID(int=8),
        version=3,
        created_at_ms=1,
        altered_at_ms=2,
        definition=definition(),
    )
    records = (
        TopicRecord(name="orders", topic_id=UUID(int=8)),
        ConfigRecord(
            resource_type=RESOURCE_TYPE_TABLE, resource_name="orders", name=TABLE_CONFIG, value=table.to_text()
        ),
    )
    ran = subprocess.run(
        [sys.executable, "-P", "-c", REPLAY],
        input="\n".join(encode_record(record).hex() for record in records),
        env={**os.environ, "PYTHONPATH": str(unpack_older_release(tmp_path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    state = MetadataState("cluster", 1, {})
    state.replay_snapshot(bytes.fromhex(ran.stdout))
    assert stored_table(state.image_at(2).tables["orders"]) == table
