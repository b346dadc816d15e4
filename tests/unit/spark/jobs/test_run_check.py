"""Runs of delayed records as `verify` checks them: the file, and what the manifest says of it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bmq.local_store.store import LocalStore
from bmq.log.manifest import Manifest, TimersReference
from bmq.log.names import PartitionPaths
from bmq.log.partition_view import view_partition
from bmq.log.store import Durability
from bmq.log.timers.announcements import START
from bmq.log.timers.delivering import DueRecord
from bmq.log.timers.run_file import RunEncoder
from bmq.log.timers.run_reference import RunReference
from bmq.spark.jobs.segment_check import Kind
from bmq.spark.jobs.stored_segments import SegmentTask, runs_of
from bmq.spark.jobs.stores import StoreAddress
from bmq.spark.jobs.verify import check_segment
from bmq.spark.jobs.verify_report import SegmentResult, report_of

pytestmark = pytest.mark.unit

DIRECTORY = "topics/t/0"
PATHS = PartitionPaths(DIRECTORY, 9)
RUN = PATHS.run(1, 0)
RECORDS = [DueRecord(offset, 1000 + offset // 3, 5, bytes(1000)) for offset in range(300)]


def write(root: Path, change: Callable[[RunReference], RunReference] = lambda run: run) -> SegmentTask:
    """A run, and a manifest that names it."""

    async def written() -> SegmentTask:
        store = LocalStore(root, is_root_locked=False)
        try:
            await store.make_directories(PATHS.epoch(1))
            writer = await store.create_segment(RUN, holder="h", durability=Durability.HFLUSH, segment_bytes=1 << 20)
            run = RunEncoder()
            await writer.append([b"".join((*map(run.add, RECORDS), run.finish()))])
            reference = RunReference(
                1, 0, writer.file_id, await writer.close(), 0, run.count, *run.first, *run.last, end_offset=300
            )
            manifest = Manifest(1, 1, 0, 0, timers=TimersReference(0, -1, -1, (change(reference),)))
            await store.write_file(f"{PATHS.epoch(1)}/manifest.00000000", manifest.encode(), holder="h")
            (task,) = runs_of(await view_partition(store, DIRECTORY), "t", 0)
            return task
        finally:
            await store.close()

    root.mkdir()
    return asyncio.run(written())


def check(root: Path, task: SegmentTask) -> SegmentResult:
    task = SegmentTask.from_json(task.to_json())
    return SegmentResult.from_json(check_segment(StoreAddress(str(root)), task, has_replicas=True))


def test_a_whole_run_is_clean_and_counted_apart(tmp_path: Path) -> None:
    task = write(tmp_path / "store")
    report = report_of([check(tmp_path / "store", task)])
    assert report.is_clean
    (summary,) = report.partitions
    assert (summary.runs, summary.segments, summary.records) == (1, 0, 0)
    assert summary.bytes == (tmp_path / "store" / RUN).stat().st_size


@pytest.mark.parametrize("position", [20, 100_000, -30, -200])
def test_a_flipped_bit_is_found_in_blocks_index_and_tail(tmp_path: Path, position: int) -> None:
    root = tmp_path / "store"
    task = write(root)
    data = bytearray((root / RUN).read_bytes())
    data[position] ^= 4
    (root / RUN).chmod(0o644)
    (root / RUN).write_bytes(data)
    (root / RUN).chmod(0o444)
    (finding,) = check(root, task).findings
    assert finding.kind is Kind.RUN


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda run: replace(run, count=299), "not the run that the manifest names"),
        (lambda run: replace(run, first_offset=1), "not the run that the manifest names"),
        (lambda run: replace(run, last_due_ms=5000), "not the run that the manifest names"),
        (lambda run: replace(run, length=run.length + 1), "the manifest says that this run is closed"),
    ],
)
def test_a_run_that_the_manifest_does_not_describe_is_found(
    tmp_path: Path, change: Callable[[RunReference], RunReference], reason: str
) -> None:
    (finding,) = check(tmp_path / "store", write(tmp_path / "store", change)).findings
    assert finding.kind is Kind.RUN and reason in finding.reason


def test_a_run_that_is_not_there_is_found(tmp_path: Path) -> None:
    root = tmp_path / "store"
    task = write(root)
    (root / RUN).unlink()
    (finding,) = check(root, task).findings
    assert (finding.kind, finding.reason) == (Kind.FILE, "the manifest names this run, and it is not there")
    (root / PATHS.epoch(1) / "manifest.00000000").unlink()
    assert check(root, task).is_gone, "it was dropped since the job was planned"


class CarelessEncoder(RunEncoder):
    """As a faulty merge would write: checksums and counts are right, the order is not."""

    def add(self, record: DueRecord) -> bytes:
        self.last = START
        return super().add(record)


@pytest.mark.parametrize(
    "records",
    [[RECORDS[1], RECORDS[0], *RECORDS[2:]], [*RECORDS[:9], RECORDS[8], *RECORDS[9:]]],
    ids=["out of order", "double"],
)
def test_a_run_whose_records_do_not_follow_each_other_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: list[DueRecord]
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "RECORDS", records)
    monkeypatch.setattr(sys.modules[__name__], "RunEncoder", CarelessEncoder)
    (finding,) = check(tmp_path / "store", write(tmp_path / "store")).findings
    assert finding.kind is Kind.RUN and "is out of order" in finding.reason
