"""`bmq log dump` over files in a store in memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bmq.cli.commands import app
from bmq.cli.kafka.value_format import ValueFormat
from bmq.cli.log_dump import Dump, DumpContent, dump_file, dump_partition
from bmq.cli.log_files import OffsetBounds, StoredPartition, UnknownFile, UnknownTopic, stored_partitions
from tests.fakes.store import FakeStore
from tests.unit.log.owned_log import PARTITION, Owner, batch_of

pytestmark = pytest.mark.unit

STORED = StoredPartition("orders", 0, PARTITION)


def output(*, is_json: bool = True, limit: int | None = None) -> Dump:
    return Dump(is_json, ValueFormat.TEXT, ValueFormat.HEX, limit)


def lines(capsys: pytest.CaptureFixture[str]) -> list[Any]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


async def written() -> FakeStore:
    """Offsets [0, 5) in a closed segment, [5, 7) in an open one."""
    fake = FakeStore()
    owner = await Owner(fake.client("owner"), 4).start()
    await owner.produce(batch_of(3))
    await owner.produce(batch_of(2))
    await owner.roll_segment()
    await owner.produce(batch_of(2))
    return fake


async def test_batches_and_records_within_bounds(capsys: pytest.CaptureFixture[str]) -> None:
    store = (await written()).client("onlooker")
    await dump_partition(store, STORED, DumpContent.BATCHES, OffsetBounds(), output())
    rows = lines(capsys)
    assert [(row["base_offset"], row["last_offset"], row["leader_epoch"]) for row in rows] == [
        (0, 2, 4),
        (3, 4, 4),
        (5, 6, 4),
    ]
    assert rows[2]["path"] == f"{PARTITION}/00000004.open/00000001.log"
    assert rows[1]["position"] == rows[0]["bytes"]
    await dump_partition(store, STORED, DumpContent.RECORDS, OffsetBounds(2, 6), output())
    assert [row["offset"] for row in lines(capsys)] == [2, 3, 4, 5]
    await dump_partition(store, STORED, DumpContent.RECORDS, OffsetBounds(), output(limit=2))
    assert [row["offset"] for row in lines(capsys)] == [0, 1]
    await dump_partition(store, STORED, DumpContent.BATCHES, OffsetBounds(), output(is_json=False))
    table = capsys.readouterr().out.splitlines()
    assert table[1].split("\t")[:4] == ["0", "[0, 3)", "3", "4"]


async def test_manifests_and_indexes(capsys: pytest.CaptureFixture[str]) -> None:
    fake = await written()
    await Owner(fake.client("next"), 5).start()
    store = fake.client("onlooker")
    await dump_partition(store, STORED, DumpContent.MANIFEST, OffsetBounds(), output())
    (manifest,) = lines(capsys)
    assert (manifest["leader_epoch"], manifest["end_offset"]) == (5, 7)
    assert [(each["base_offset"], each["end_offset"]) for each in manifest["extents"]] == [(0, 5), (5, 7)]
    await dump_partition(store, STORED, DumpContent.INDEXES, OffsetBounds(), output())
    indexes = lines(capsys)
    assert [each["summary"]["base_offset"] for each in indexes] == [0, 5]
    assert indexes[0]["entries"][0] == {"offset": 0, "position": 0, "max_timestamp_ms": None}
    for path in (indexes[0]["path"], f"{PARTITION}/00000005.open/manifest.00000000"):
        await dump_file(store, path, DumpContent.BATCHES, OffsetBounds(), output(is_json=False))
        shown = capsys.readouterr().out
        assert "offsets" in shown and "[0, " in shown
    await dump_file(store, f"{PARTITION}/00000004/00000000.log", DumpContent.BATCHES, OffsetBounds(), output())
    assert [row["base_offset"] for row in lines(capsys)] == [0, 3]


async def test_what_is_damaged_is_named_and_the_rest_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    fake = await written()
    store = fake.client("onlooker")
    fake.flip_bit(f"{PARTITION}/00000004.open/00000000.log", 70)
    out = output()
    await dump_partition(store, STORED, DumpContent.BATCHES, OffsetBounds(), out)
    captured = capsys.readouterr()
    assert out.damages == 1
    assert "00000000.log" in captured.err
    assert [json.loads(line)["base_offset"] for line in captured.out.splitlines()][-1] == 5


async def test_paths_that_are_no_files_of_partitions() -> None:
    store = FakeStore().client("onlooker")
    for path in ("orders/0", "topics/x/y/00000001/manifest.00000000", "topics/a/0/c/d/e"):
        with pytest.raises(UnknownFile, match="is no partition's file"):
            await dump_file(store, path, DumpContent.BATCHES, OffsetBounds(), output())
    with pytest.raises(UnknownFile, match=r"'owner\.x' is no segment, index, manifest or snapshot"):
        await dump_file(store, f"{PARTITION}/00000001/owner.x", DumpContent.BATCHES, OffsetBounds(), output())
    with pytest.raises(UnknownFile, match="there is no segment"):
        await dump_file(store, f"{PARTITION}/00000001/00000000.log", DumpContent.BATCHES, OffsetBounds(), output())
    with pytest.raises(UnknownTopic, match="there is no topic 'gone' in the store; it has 0 topics"):
        await stored_partitions(store, "gone", None)


def test_usage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Loggers keep the standard error they were set up with, which is the test's own and ends with it.
    monkeypatch.setattr("bmq.cli.log_dump.configure_logs", lambda *_: None)

    def exit_code(*more: str) -> int:
        return CliRunner().invoke(app, ["log", "dump", "t", "--data", str(tmp_path), *more]).exit_code

    assert exit_code("--records", "--manifest") == 2
    assert exit_code("--value-format", "avro") == 2
    assert exit_code() == 1
