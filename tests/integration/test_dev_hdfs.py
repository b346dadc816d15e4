"""The development cluster itself: real daemons that come up, are hurt, come back, and are gone at the end."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from typer.testing import CliRunner

from bmq.cli.commands import app
from bmq.dev.cluster_file import NoCluster
from bmq.dev.hadoop_configuration import NAMESERVICE
from bmq.dev.hdfs import ClusterFailed, HdfsCluster
from bmq.dev.ports import PortTaken, pick_ports
from bmq.hdfs.config import HdfsConfig, HdfsSettings
from bmq.hdfs.hadoop_site import hadoop_properties
from bmq.hdfs.location import located
from bmq.hdfs.namenode import NameNode
from testing.hdfs import HADOOP_JARS, USER, new_cluster, outside_any_loop, running, until
from testing.processes import eventually

pytestmark = pytest.mark.campaign("hdfs-faults")

# On a busy machine a NameNode may leave a question for its status unanswered: it is asked again for so long.
STATUS_WITHIN_S = 30.0
# A NameNode that is well steps back in that time on any machine.
STANDBY_WAIT_S = 60.0


def processes_in(directory: Path) -> list[int]:
    """Ids of all processes that have the directory in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if str(directory).encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except (FileNotFoundError, ProcessLookupError):
                continue
    return found


def client_of(cluster: HdfsCluster) -> NameNode:
    return NameNode(HdfsConfig(namenodes=cluster.namenodes, root="/unused", user=USER, retry_max_s=30.0), Random())


async def names_in(cluster: HdfsCluster, path: str) -> list[str]:
    client = client_of(cluster)
    try:
        return sorted(status.path.decode() for status in await client.listing(path))
    finally:
        await client.close()


async def make(cluster: HdfsCluster, path: str) -> None:
    client = client_of(cluster)
    try:
        await client.make_directory(path, with_parents=True)
    finally:
        await client.close()


async def until_all_are_live(cluster: HdfsCluster) -> None:
    async def are_live() -> bool:
        status = (await cluster.statuses()).get("nn0")
        return status is not None and status.live == {str(address) for address in cluster.datanodes}

    await until(are_live, STATUS_WITHIN_S, "nn0 counts all DataNodes as live")


async def until_active_is(cluster: HdfsCluster, index: int) -> None:
    async def is_active() -> bool:
        return await cluster.active_index() == index

    await until(is_active, STATUS_WITHIN_S, f"nn{index} is active")


async def until_roles_are(cluster: HdfsCluster, wanted: dict[str, str]) -> None:
    """`wanted`: the roles of all NameNodes that run, by name."""

    async def are_as_wanted() -> bool:
        return {name: status.role for name, status in (await cluster.statuses()).items()} == wanted

    await until(are_as_wanted, STATUS_WITHIN_S, f"the roles are {wanted}")


class TestSingleNameNode:
    """One cluster for the story of a cluster's life, because a start costs seconds."""

    def test_life(self, tmp_path: Path) -> None:
        directory = tmp_path / "hdfs"
        cluster = new_cluster(directory)
        with running(cluster):
            assert len(processes_in(directory)) == 4
            assert [*(directory / "dn0" / "tmp").glob("jetty-*")], "its web server unpacks in the cluster's directory"
            outside_any_loop(self.daemons_keep_ports_and_files_over_a_restart(cluster))
            outside_any_loop(self.a_paused_datanode_is_found_dead_and_comes_back(cluster))
            self.a_second_cluster_on_the_same_ports_is_refused(cluster)
        assert processes_in(directory) == []
        again = new_cluster(directory)
        with running(again):
            assert outside_any_loop(names_in(again, "/kept")) == ["inside"]
            # The first cluster has left an archive of Hadoop's classes at the latest; it is in use by now.
            maps = Path(f"/proc/{again.namenode(0).pid}/maps").read_text()
            assert str(HADOOP_JARS / "classes-") in maps
        assert processes_in(directory) == []

    async def daemons_keep_ports_and_files_over_a_restart(self, cluster: HdfsCluster) -> None:
        await make(cluster, "/kept/inside")
        before = cluster.namenodes, cluster.datanodes
        await until_all_are_live(cluster)
        for daemon in (cluster.namenode(0), cluster.datanode(0)):
            await daemon.kill()
            assert daemon.state == "stopped"
            await daemon.restart()
            await cluster.wait_live(3)
        assert (cluster.namenodes, cluster.datanodes) == before
        await until_all_are_live(cluster)
        assert await names_in(cluster, "/kept") == ["inside"]

    async def a_paused_datanode_is_found_dead_and_comes_back(self, cluster: HdfsCluster) -> None:
        address = str(cluster.datanodes[1])
        await cluster.datanode(1).pause()

        async def is_dead() -> bool:
            status = (await cluster.statuses()).get("nn0")
            return status is not None and address not in status.live

        await until(is_dead, 60, "the NameNode gives the silent DataNode up")
        with pytest.raises(ClusterFailed, match="nn0 counts 2 live DataNodes of 3"):
            await cluster.wait_live(3, timeout_s=5.0)
        await cluster.datanode(1).resume()
        await cluster.wait_live(3)

    def a_second_cluster_on_the_same_ports_is_refused(self, cluster: HdfsCluster) -> None:
        second = HdfsCluster(cluster.directory.parent / "second", HADOOP_JARS, plan=cluster.plan)
        with pytest.raises(PortTaken, match=str(cluster.namenodes[0])):
            outside_any_loop(second.start())
        assert processes_in(second.directory) == []


class TestHighAvailability:
    def test_life(self, tmp_path: Path) -> None:
        directory = tmp_path / "hdfs"
        with running(new_cluster(directory, is_ha=True)) as cluster:
            assert len(processes_in(directory)) == 5
            outside_any_loop(self.its_configuration_leads_to_both(cluster))
            outside_any_loop(self.nothing_answered_is_lost_when_the_active_one_is_killed(cluster))
            outside_any_loop(self.roles_change_in_order(cluster))
            outside_any_loop(self.a_paused_active_one_is_killed_before_the_other_takes_over(cluster))
        assert processes_in(directory) == []

    async def its_configuration_leads_to_both(self, cluster: HdfsCluster) -> None:
        hadoop = hadoop_properties({"HADOOP_CONF_DIR": str(cluster.directory / "conf")})
        by_name = located(f"hdfs://{NAMESERVICE}/named", HdfsSettings(), system_user=USER, hadoop=hadoop)
        assert by_name == located("hdfs:///named", HdfsSettings(), system_user=USER, hadoop=hadoop)
        assert by_name.namenodes == cluster.namenodes
        client = NameNode(by_name, Random())
        try:
            await client.make_directory("/named/by-the-nameservice", with_parents=True)
        finally:
            await client.close()

    async def nothing_answered_is_lost_when_the_active_one_is_killed(self, cluster: HdfsCluster) -> None:
        await until_active_is(cluster, 0)
        client = client_of(cluster)
        made: list[str] = []

        async def load() -> None:
            while True:
                await client.make_directory(f"/load/{len(made):06d}", with_parents=True)
                made.append(f"{len(made):06d}")

        async def more(count: int) -> None:
            wanted = len(made) + count

            async def are_made() -> bool:
                return len(made) >= wanted

            await until(are_made, 60, f"{count} more directories are made")

        loading = asyncio.create_task(load())
        try:
            await more(50)
            await cluster.namenode(0).kill()
            assert await cluster.active_index() is None
            await cluster.transition_to_active(1)
            await until_active_is(cluster, 1)
            await more(50)
            await cluster.namenode(0).restart()
            await until_roles_are(cluster, {"nn0": "standby", "nn1": "active"})
            answered = list(made)
        finally:
            loading.cancel()
            await asyncio.gather(loading, return_exceptions=True)
            await client.close()
        assert set(answered) <= set(await names_in(cluster, "/load"))

    async def roles_change_in_order(self, cluster: HdfsCluster) -> None:
        for _ in range(2):
            await cluster.transition_to_active(0, standby_wait_s=STANDBY_WAIT_S)
        await until_roles_are(cluster, {"nn0": "active", "nn1": "standby"})
        assert cluster.namenode(1).state == "running"
        await cluster.wait_live(3)

    async def a_paused_active_one_is_killed_before_the_other_takes_over(self, cluster: HdfsCluster) -> None:
        await cluster.namenode(0).pause()
        with pytest.raises(ClusterFailed, match="nn0 is paused, so it cannot become active"):
            await cluster.transition_to_active(0)
        await cluster.transition_to_active(1)
        assert cluster.namenode(0).state == "stopped"
        await until_active_is(cluster, 1)
        assert "000049" in await names_in(cluster, "/load")


class TestCommandLine:
    """`bmq dev hdfs` in two terminals."""

    @pytest.fixture
    def up(self, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
        command = [sys.executable, "-m", "bmq.cli.main", "dev", "hdfs", "up", "--quick", "--datanodes", "1"]
        (port,) = pick_ports("127.0.0.1", 1, Random())
        command += ["--data", str(tmp_path / "hdfs"), "--port", str(port)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            yield process
            process.kill()

    def ctl(self, directory: Path, *arguments: str) -> str:
        result = CliRunner().invoke(app, ["dev", "hdfs", *arguments, "--data", str(directory)])
        assert result.exit_code == 0, f"{result.output}{result.exception}"
        return result.output

    def wait_up(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if "Ctrl-C ends it" in line:
                return
        raise AssertionError(f"it ended with {process.wait(10)}: {lines}")

    def states(self, directory: Path) -> dict[str, str]:
        return {node["name"]: node["state"] for node in json.loads(self.ctl(directory, "status", "--json"))}

    def test_orders_from_a_second_terminal(self, up: subprocess.Popen[str], tmp_path: Path) -> None:
        directory = tmp_path / "hdfs"
        self.wait_up(up)
        assert self.states(directory) == {"nn0": "running", "dn0": "running"}
        self.ctl(directory, "pause", "dn0")
        assert self.states(directory)["dn0"] == "paused"
        self.ctl(directory, "kill", "dn0")
        assert self.states(directory)["dn0"] == "stopped"
        self.ctl(directory, "start", "dn0")
        assert self.states(directory)["dn0"] == "running"
        assert "Successfully sent block report" in self.ctl(directory, "logs", "dn0", "-n", "500")
        self.ctl(directory, "down")
        assert up.wait(30) == 0
        assert processes_in(directory) == []

    def test_ctrl_c_while_it_starts_leaves_nothing(self, up: subprocess.Popen[str], tmp_path: Path) -> None:
        directory = tmp_path / "hdfs"
        eventually(lambda: len(processes_in(directory / "dn0")) == 1, 30, "a DataNode was started")
        up.send_signal(signal.SIGINT)
        assert up.wait(30) == 0
        assert processes_in(directory) == []

    def test_kill_9_of_the_foreground_process_leaves_nothing(self, up: subprocess.Popen[str], tmp_path: Path) -> None:
        directory = tmp_path / "hdfs"
        self.wait_up(up)
        up.kill()
        up.wait(30)
        eventually(lambda: processes_in(directory) == [], 30, "its daemons are gone")
        result = CliRunner().invoke(app, ["dev", "hdfs", "status", "--data", str(directory)])
        assert isinstance(result.exception, NoCluster)
        assert "is not running: start it with" in str(result.exception)
