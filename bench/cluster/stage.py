"""Where clusters are measured: one directory, the HDFS and the ZooKeeper that bmq needs, and whatever was started last."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from bench.cluster.kafka_cluster import KafkaCluster
from bench.cluster.sides import COMBINED, BmqSide, Side
from bench.criteria import KAFKA
from bench.hdfs.cluster import hdfs_cluster, is_first_of_its_kind
from bench.logged_errors import with_logged_errors
from bmq.dev.hdfs import HdfsCluster
from bmq.dev.zookeeper import ZooKeeperServer
from bmq.hdfs.location import system_user
from testing.hdfs import outside_any_loop
from testing.processes import JARS


class Stage:
    """Everything lies under `directory`. All methods are for the main thread: daemons die with the one that started them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._hdfs: HdfsCluster | None = None
        self._zookeeper: ZooKeeperServer | None = None
        self._numbers = iter(range(1_000_000))

    # -- What bmq stands on --------------------------------------------------------------------------------------------

    def up(self, *, is_jvm_default: bool = False) -> None:
        """Start HDFS and ZooKeeper on new directories, unless they run. `is_jvm_default`: no heap and no collector is
        chosen for the daemons of HDFS.
        """
        if self._hdfs is not None:
            return
        number = next(self._numbers)
        if is_first_of_its_kind(is_jvm_default=is_jvm_default):
            first = hdfs_cluster(self.directory / f"first-hdfs-{number}", is_jvm_default=is_jvm_default)
            outside_any_loop(first.start())
            outside_any_loop(first.stop())
            shutil.rmtree(first.directory, ignore_errors=True)
        hdfs = hdfs_cluster(
            self.directory / f"hdfs-{number}", is_jvm_default=is_jvm_default, local_reader=system_user()
        )
        zookeeper = ZooKeeperServer(self.directory / f"zookeeper-{number}", JARS / "zookeeper")
        outside_any_loop(hdfs.start())
        self._hdfs = hdfs
        outside_any_loop(zookeeper.start())
        self._zookeeper = zookeeper

    def down(self) -> None:
        """End them and take their files away."""
        if self._zookeeper is not None:
            outside_any_loop(self._zookeeper.kill())
            shutil.rmtree(self._zookeeper.directory, ignore_errors=True)
            self._zookeeper = None
        if self._hdfs is not None:
            outside_any_loop(self._hdfs.stop())
            shutil.rmtree(self._hdfs.directory, ignore_errors=True)
            self._hdfs = None

    @property
    def hdfs(self) -> HdfsCluster:
        assert self._hdfs is not None, "HDFS is not up"
        return self._hdfs

    @property
    def zookeeper(self) -> ZooKeeperServer:
        assert self._zookeeper is not None, "ZooKeeper is not up"
        return self._zookeeper

    def stop_zookeeper(self) -> None:
        """kill -9."""
        outside_any_loop(self.zookeeper.kill())

    def start_zookeeper(self) -> None:
        outside_any_loop(self.zookeeper.start())

    @property
    def daemon_pids(self) -> dict[str, int]:
        """Process ids by name: `nn0`, `dn0`, …, `zk0`."""
        daemons = (*self.hdfs.daemons, *self.zookeeper.daemons)
        return {daemon.name: daemon.pid for daemon in daemons if daemon.pid is not None}

    def blocks(self) -> dict[str, int]:
        """Bytes of every replica on the DataNodes' disks, under the same name while it is written and afterwards."""
        found = {}
        for node in self.hdfs.plan.datanodes:
            for path in (self.hdfs.directory / node.name).rglob("blk_*"):
                with suppress(FileNotFoundError):  # it was finalized or deleted just now
                    if path.suffix != ".meta":
                        found[f"{node.name}/{path.name}"] = path.stat().st_size
        return found

    def free_bytes(self) -> int:
        return shutil.disk_usage(self.directory).free

    # -- Clusters ------------------------------------------------------------------------------------------------------

    @contextmanager
    def bmq(
        self,
        layout: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        kafka: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
    ) -> Iterator[BmqSide]:
        """A new cluster that is gone afterwards. `arguments`: of each node."""
        self.up()
        side = BmqSide(
            self.directory / f"bmq-{next(self._numbers)}",
            self.hdfs.url,
            str(self.zookeeper.address),
            self.daemon_pids,
            layout,
            environment=environment,
            kafka=kafka,
            arguments=arguments,
        )
        try:
            with with_logged_errors(node.process.log_file for node in side.nodes.values()):
                side.start()
                yield side
        finally:
            side.close()

    @contextmanager
    def kafka(
        self,
        *,
        is_combined: bool,
        is_alone: bool = False,
        wrapper: Sequence[str] = (),
        configs: Mapping[str, str] | None = None,
    ) -> Iterator[KafkaCluster]:
        """A new cluster that is gone afterwards. `is_alone`: HDFS and ZooKeeper are stopped for it. `wrapper`: in front of
        each process's command line. `configs`: of each broker.
        """
        if is_alone:
            self.down()
        cluster = KafkaCluster(
            self.directory / f"kafka-{next(self._numbers)}", is_combined=is_combined, wrapper=wrapper, configs=configs
        )
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.close()
            shutil.rmtree(cluster.directory, ignore_errors=True)

    @contextmanager
    def combined(self, name: str, configs: Mapping[str, str] | None = None) -> Iterator[Side]:
        """Three nodes of either side, each with all roles, and nothing beside them that they do not need. `configs`: of
        each node, by Kafka's names.
        """
        side: AbstractContextManager[Side]
        if name == KAFKA:
            side = self.kafka(is_combined=True, is_alone=True, configs=configs)
        else:
            side = self.bmq(COMBINED, kafka=configs)
        with side as given:
            yield given
