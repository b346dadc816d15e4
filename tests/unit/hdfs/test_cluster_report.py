"""What NameNodes tell about their HDFS: each is asked by itself, and one that hangs is told."""

from __future__ import annotations

import asyncio

import pytest

from bmq.hdfs.cluster_report import namenode_reports
from bmq.hdfs.cluster_state import NameNodeReport
from bmq.hdfs.config import Address, HdfsConfig
from tests.fakes.hadoop_ipc import ScriptedServer
from tests.fakes.loop_time import LoopTime
from tests.support.waiting import until
from tests.unit.cli.doctor.scripted_hdfs import GIB, NO_QUOTA, ScriptedHdfs

pytestmark = pytest.mark.unit


async def reports(*servers: ScriptedServer, limit_s: float = 5.0) -> tuple[NameNodeReport, ...]:
    config = HdfsConfig(namenodes=tuple(server.address for server in servers), root="/bmq", user="bmq")
    return await namenode_reports(config, limit_s=limit_s)


async def test_the_active_namenode_tells_all_and_the_standby_its_safe_mode() -> None:
    standby = ScriptedHdfs(is_standby=True, is_in_safe_mode=True)
    active = ScriptedHdfs(missing_blocks=2, quota=1_000, space_quota=6 * GIB)
    async with ScriptedServer(standby.script) as one, ScriptedServer(active.script) as other:
        first, second = await reports(one, other)
    assert (first.is_active, first.is_in_safe_mode, first.space, first.trouble) == (False, True, None, "")
    assert second.is_active and not second.is_in_safe_mode
    assert second.space is not None and second.quota is not None and second.datanodes is not None
    assert (second.space.capacity_bytes, second.space.remaining_bytes) == (100 * GIB, 50 * GIB)
    assert second.space.missing_blocks == 2
    assert (second.quota.names, second.quota.names_max) == (120, 1_000)
    assert (second.quota.space_bytes, second.quota.space_bytes_max) == (3 * GIB, 6 * GIB)
    assert [node.name for node in second.datanodes] == ["d1:9866", "d2:9866", "d3:9866"]
    assert second.answer_s > 0


async def test_no_quota_is_none_and_what_a_user_may_not_see_is_refused() -> None:
    hdfs = ScriptedHdfs(is_superuser=False, quota=NO_QUOTA)
    async with ScriptedServer(hdfs.script) as server:
        (report,) = await reports(server)
    assert report.quota is not None
    assert (report.quota.names_max, report.quota.space_bytes_max) == (None, None)
    assert report.datanodes is None
    assert "AccessControlException" in report.refusals[0]


async def test_a_namenode_that_hangs_and_one_that_is_away_are_told() -> None:
    async with ScriptedServer() as hung:
        away = Address("127.0.0.1", 1)
        config = HdfsConfig(namenodes=(hung.address, away), root="/bmq", user="bmq")
        silent, gone = await namenode_reports(config, limit_s=0.1)
    assert "setSafeMode" in silent.trouble or "within" in silent.trouble
    assert "Connect call failed" in gone.trouble or "refused" in gone.trouble


async def test_a_count_that_hangs_costs_the_quota_alone(loop_time: LoopTime) -> None:
    hdfs = ScriptedHdfs(silent={"getQuotaUsage"})
    async with ScriptedServer(hdfs.script) as server:
        asking = asyncio.create_task(reports(server, limit_s=5.0))
        await until(lambda: server.calls_of("getQuotaUsage"))
        await loop_time.pass_s(5.0)
        (report,) = await asking
    assert report.trouble == ""
    assert report.quota is None and report.space is not None
    assert len(report.refusals) == 1
