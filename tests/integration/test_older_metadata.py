"""What this release writes into the metadata log and into partitions beside the older one, which has to read it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from uuid import UUID

import pytest

from bmq.log.aborted_files import FILE_ENTRIES_MAX
from bmq.log.aborted_transactions import AbortedEntry, AbortedTransactions
from bmq.log.manifest import Extent, Manifest
from bmq.log.producer_state import ProducerStates
from bmq.metadata.state import TABLE_CONFIG, MetadataState
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.metadata_records import RESOURCE_TYPE_TABLE, ConfigRecord, TopicRecord, encode_record
from bmq.protocol.record_batch import BatchHeader
from bmq.table_definitions.stored import StoredTable, stored_table
from tests.support.older_release import unpack_older_release
from tests.unit.table_definitions.definitions import definition

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


READ_LOG = """
import sys
from bmq.log.manifest import Manifest
from bmq.log.producer_state import ProducerStates
manifest = Manifest.decode(bytes.fromhex(sys.stdin.readline()))
states = ProducerStates.decode_snapshot(manifest.producers)
print(manifest.end_offset, len(manifest.extents), len(manifest.aborted))
for producer_id, entry in states._entries.items():
    print(producer_id, entry.last_timestamp_ms, entry.batches[-1].last_sequence, entry.batches[-1].timestamp_ms)
"""


def test_an_older_owner_reads_the_manifest_and_the_producers(tmp_path: Path) -> None:
    """It finds the time at which the last batch was placed where it has that batch's timestamp itself."""
    states, aborted = ProducerStates(), AbortedTransactions()
    record = Record(None, b"v", timestamp_ms=1_000)
    data = encode_batch([record], producer_id=7, producer_epoch=0, base_sequence=0)
    states.place(BatchHeader.parse(memoryview(data)), 0, 1_700_000_000_000)
    states.synced(1)
    for marker in range(1, FILE_ENTRIES_MAX):
        aborted.add(AbortedEntry(9, marker - 1, marker, marker + 1))
    extents = tuple(Extent(1, roll, 1, roll, 10, 0, 10, roll, roll + 1, -1) for roll in range(3_000))
    manifest = Manifest(1, 3_000, 0, 3_000, extents, aborted=aborted, producers=states.encode_snapshot(1))
    ran = subprocess.run(
        [sys.executable, "-P", "-c", READ_LOG],
        input=manifest.encode().hex() + "\n",
        env={**os.environ, "PYTHONPATH": str(unpack_older_release(tmp_path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split("\n") == [f"3000 3000 {FILE_ENTRIES_MAX - 1}", "7 1700000000000 0 1000", ""]
