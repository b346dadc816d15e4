"""The drill of docs/OPERATIONS.md about a full HDFS: its commands, as the page has them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testing.hdfs import fresh_root, new_cluster, running
from testing.processes import eventually
from tests.support.hdfs_drill import WAIT_S, Drill
from tests.support.page_commands import hadoop_tools, run_commands, run_page

pytestmark = [pytest.mark.campaign("hdfs-faults"), pytest.mark.timeout(200)]

MIB = 1024 * 1024
DISK_MIB = 256
SEGMENT_MIB = 16
FILLER_MIB = 8
NOT_STARTED = "partitions_not_started"
KEPT_FREE = "dfs.datanode.round-robin-volume-choosing-policy.additional-available-space"


@contextmanager
def small_disk(mount: Path, size_mib: int) -> Iterator[None]:
    """A file system of this size at `mount`; needs root."""
    mount.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_mib}m", "tmpfs", str(mount)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(mount)], check=True)


def test_hdfs_is_full(tmp_path: Path) -> None:
    # By default a DataNode takes no new block on a disk with less than 1 GiB left.
    cluster = new_cluster(tmp_path / "hdfs", datanodes=1, **{KEPT_FREE: "0"})  # type: ignore[arg-type]
    filler = tmp_path / "filler"
    filler.mkdir()
    for number in range(DISK_MIB // FILLER_MIB):
        (filler / str(number)).write_bytes(bytes(FILLER_MIB * MIB))
    with small_disk(cluster.directory / "dn0" / "data", DISK_MIB), running(cluster):
        tools = hadoop_tools(tmp_path / "bin", cluster.directory / "conf")
        kafka = f'{{"offsets.topic.num.partitions": "1", "log.segment.bytes": "{SEGMENT_MIB * MIB}"}}'
        drill = Drill(cluster, tmp_path, fresh_root("full"), {"BMQ_KAFKA": kafka})
        drill.server.start()
        try:
            assert drill.takes_records()
            assert drill.read() == drill.acknowledged["t"]  # from now on the group's shard is loaded
            run_commands("hdfs dfs -mkdir /others", tools)
            size = f"dfs.blocksize={FILLER_MIB * MIB}"
            run_commands(f"hdfs dfs -D {size} -put {filler}/* /others/ || true", tools)  # the last ones do not fit
            assert drill.produce("new", timeout_ms=8_000) is not None
            assert drill.takes_records(), "an open segment has its room"
            assert drill.read() == drill.acknowledged["t"]
            eventually(
                lambda: NOT_STARTED in drill.server.get("/v1/health")[1], WAIT_S, "the health names the partition"
            )
            said = run_page(
                "Drill: HDFS is full",
                tools,
                REST=f"http://127.0.0.1:{drill.server.rest_port}",
                UNWANTED="/others",
                STORE=drill.server.store,
                COLUMNS="250",
            )
            assert "/others" in said and "HDFS space" in said
            assert NOT_STARTED in said and "1 partition is not started: new-0" in said, said
            eventually(lambda: drill.takes_records("new"), WAIT_S, "writing works again without a restart")
            eventually(
                lambda: NOT_STARTED not in drill.server.get("/v1/health")[1], WAIT_S, "the health is whole again"
            )
            drill.check()
        finally:
            drill.server.close()
        assert "Traceback" not in drill.server.log_file.read_text()
