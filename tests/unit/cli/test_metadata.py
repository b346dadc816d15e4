"""`bmq metadata`: what is backed up begins another cluster, and is there again in a backup of that one."""

from __future__ import annotations

from pathlib import Path
from stat import S_IMODE
from uuid import UUID

import pytest
from typer.testing import CliRunner, Result

from bmq.cli.commands import app
from bmq.metadata.backup_file import MetadataBackup, decode_backup, encode_backup
from bmq.protocol.errors import BmqError
from bmq.protocol.metadata_records import PartitionRecord, TopicRecord

pytestmark = pytest.mark.unit

ORDERS = UUID(int=1)
BACKUP = MetadataBackup(
    "first-cluster",
    7,
    1,
    (
        TopicRecord(name="orders", topic_id=ORDERS),
        PartitionRecord(partition_id=0, topic_id=ORDERS, leader_epoch=3),
    ),
)


def metadata(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["metadata", *map(str, arguments)])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "backup"
    path.write_bytes(encode_backup(BACKUP))
    return path


def test_a_restored_cluster_gives_the_same_backup(file: Path, tmp_path: Path) -> None:
    data, again = tmp_path / "data", tmp_path / "again"
    shown = metadata("restore", file, "--data", data, "--dry-run")
    assert (shown.exit_code, "1 topics, 1 partitions" in shown.output) == (0, True), shown.output
    restored = metadata("restore", file, "--data", data)
    assert restored.exit_code == 0 and "of cluster first-cluster: restored as cluster " in restored.output
    made = metadata("backup", again, "--data", data)
    assert made.exit_code == 0, made.output
    assert S_IMODE(again.stat().st_mode) == 0o600
    found = decode_backup(again.read_bytes())
    assert found.image().topics == BACKUP.image().topics
    assert found.cluster_id in restored.output and found.cluster_id != BACKUP.cluster_id


def test_what_is_there_is_not_replaced(file: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    assert metadata("restore", file, "--data", data).exit_code == 0
    refused = metadata("restore", file, "--data", data)
    assert isinstance(refused.exception, BmqError) and "has a cluster already" in str(refused.exception)
    refused = metadata("backup", file, "--data", data)
    assert isinstance(refused.exception, BmqError) and "File exists" in str(refused.exception)
    assert file.read_bytes() == encode_backup(BACKUP)


def test_a_file_that_is_no_backup_is_one_sentence(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("hello")
    for path, why in ((other, "no backup of metadata"), (tmp_path / "absent", "cannot read")):
        refused = metadata("restore", path, "--data", tmp_path / "data")
        assert isinstance(refused.exception, BmqError) and why in str(refused.exception)
    assert not (tmp_path / "data").exists()
