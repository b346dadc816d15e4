"""A partition over the embedded store: what a process left open is taken over, several files of a directory at once."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from structlog.testing import capture_logs

from bmq.broker.manager import PartitionManager
from bmq.local_store.store import LocalStore
from tests.fakes.clock import FakeClock
from tests.unit.broker.world import CONFIG, KEY, SETTINGS, produce, read_all

pytestmark = pytest.mark.unit


async def test_files_of_one_directory_are_taken_over_at_once(tmp_path: Path) -> None:
    old = LocalStore(tmp_path, is_root_locked=False)
    manager = PartitionManager(old, "old", FakeClock(), Random(1), SETTINGS)
    manager.assign(KEY, 1, "topic", CONFIG)
    log = await manager.leader_of(KEY)
    assert await produce(log, b"a", b"b") == 0
    await log.inspect().lifecycle.open(1)  # a segment opened ahead of need
    await old.close()  # as a killed process leaves it: files visibly open, lock gone
    manager.drop(KEY)
    await manager.close()

    new = LocalStore(tmp_path, is_root_locked=False)
    manager = PartitionManager(new, "new", FakeClock(), Random(2), SETTINGS)
    manager.assign(KEY, 2, "topic", CONFIG)
    with capture_logs() as logs:
        log = await manager.leader_of(KEY)
    assert manager.counts.takeovers == 2
    assert "partition_start_waits" not in {entry["event"] for entry in logs}, "the process stood in its own way"
    assert await produce(log, b"c") == 2
    assert await read_all(log) == [(0, b"a"), (1, b"b"), (2, b"c")]
    await manager.close()
    await new.close()
