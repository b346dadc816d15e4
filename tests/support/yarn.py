"""A real YARN on this machine for tests: one ResourceManager and one NodeManager, beside an HDFS that has its files.

    with running(YarnCluster(directory, hdfs)) as yarn:
        subprocess.run(["spark-submit", "--master", "yarn", …], env={**os.environ, **yarn.environment})

All it writes is in its directory: `conf` is the HADOOP_CONF_DIR of daemons and clients, `containers` has the output of each
container, `log` that of the daemons. The NodeManager kills its containers when it is stopped; when everything is killed,
executors and application masters end by themselves once their driver is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from bmq.dev.daemon import Daemon
from bmq.dev.hadoop_configuration import LOGGING, client_properties, configuration_xml
from bmq.dev.hdfs import HdfsCluster
from bmq.dev.java import QUICK_START_JVM_OPTIONS, java_command, java_executable
from bmq.dev.ports import HOST, check_free, pick_ports
from bmq.dev.secure_hadoop import CLIENT, HOST_NAME, by_host_name
from bmq.hdfs.config import Address
from bmq.hdfs.hadoop_site import hadoop_properties
from testing.hdfs import outside_any_loop
from testing.processes import JARS
from tests.support.secure_hdfs import SecureHdfs

YARN_JARS: Final = JARS / "yarn"
HEAP_MB: Final = 256
MEMORY_MB: Final = 4096
"""What all containers together may ask for; nothing measures what they use."""
VCORES: Final = 8
LOG_TAIL_LINES: Final = 40
MANAGERS: Final = f"yarn/{HOST_NAME}"

_RESOURCE_MANAGER: Final = "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager"
_NODE_MANAGER: Final = "org.apache.hadoop.yarn.server.nodemanager.NodeManager"
# What Hadoop's own start scripts add for Java 17: Guice makes classes in java.lang.
_OPENED: Final = ("--add-opens=java.base/java.lang=ALL-UNNAMED",)


@dataclass(frozen=True)
class YarnKerberos:
    """`properties`: of a client of the HDFS. `principal`, `keytab`: of both managers."""

    properties: Mapping[str, str]
    principal: str
    keytab: Path
    krb5_conf: Path

    @classmethod
    def of(cls, secure: SecureHdfs) -> YarnKerberos:
        hadoop = hadoop_properties({"HADOOP_CONF_DIR": str(secure.client_conf)})
        keytab = secure.kdc.keytab(MANAGERS)
        # They are no users of this machine.
        groups = {"hadoop.user.group.static.mapping.overrides": f"{CLIENT}=users;yarn=users"}
        return cls({**hadoop, **groups}, secure.kdc.full(MANAGERS), keytab, secure.kdc.krb5_conf)

    @property
    def yarn_properties(self) -> dict[str, str]:
        managers = ("yarn.resourcemanager", "yarn.nodemanager")
        return {
            **{f"{manager}.principal": self.principal for manager in managers},
            **{f"{manager}.keytab": str(self.keytab) for manager in managers},
            # Its web interface stays open.
            "yarn.resourcemanager.webapp.delegation-token-auth-filter.enabled": "false",
        }


class YarnCluster:
    """Not started; `running` does. `kerberos`: on a kerberized HDFS, that of its realm. Raises JavaMissing, JarsMissing."""

    def __init__(
        self, directory: Path, hdfs: HdfsCluster, random: Random | None = None, *, kerberos: YarnKerberos | None = None
    ) -> None:
        self.directory = directory.resolve()
        self._hdfs = hdfs
        self._kerberos = kerberos
        self._addresses = [Address(HOST, port) for port in pick_ports(HOST, 8, random or Random())]
        self._managers = [
            self._daemon("resourcemanager", _RESOURCE_MANAGER, "Transitioned to active state"),
            self._daemon("nodemanager", _NODE_MANAGER, "Registered with ResourceManager"),
        ]

    def _daemon(self, name: str, main_class: str, ready: str) -> Daemon:
        """It is ready once it has logged `ready`."""

        async def probe() -> str | None:
            return None if ready in daemon.log_head() else f"it has not logged {ready!r}"

        command = java_command(
            main_class,
            (),
            jars=YARN_JARS,
            configuration=self.configuration,
            heap_mb=HEAP_MB,
            options=(*QUICK_START_JVM_OPTIONS, *_OPENED, f"-Djava.io.tmpdir={self._temporary}", *self.jvm_options),
        )
        # For the containers as well, which start Java by it.
        environment = {"JAVA_HOME": str(Path(java_executable()).parents[1])}
        daemon = Daemon(name, command, self.directory / "log" / f"{name}.log", probe, environment)
        return daemon

    @property
    def _temporary(self) -> Path:
        return self.directory / "tmp"

    @property
    def jvm_options(self) -> tuple[str, ...]:
        """That every JVM here needs, those of jobs too."""
        return () if self._kerberos is None else (f"-Djava.security.krb5.conf={self._kerberos.krb5_conf}",)

    @property
    def configuration(self) -> Path:
        return self.directory / "conf"

    @property
    def environment(self) -> dict[str, str]:
        """For `spark-submit`."""
        return {"HADOOP_CONF_DIR": str(self.configuration), "YARN_CONF_DIR": str(self.configuration)}

    def output_of_containers(self) -> str:
        """The last lines of each container, to follow the first line of a failure."""
        found = []
        for log in sorted((self.directory / "containers").glob("*/*/stderr")):
            lines = log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:]
            found += [f"\n--- last lines of {log.parent.name}:", *lines]
        return "\n".join(found)

    async def start(self) -> None:
        """Return once the ResourceManager counts the NodeManager. Raises DaemonFailed, PortTaken."""
        check_free(self._addresses)
        self.configuration.mkdir(parents=True)
        self._temporary.mkdir()
        found = {
            **client_properties(self._hdfs.plan),
            "hadoop.tmp.dir": str(self._temporary),
            # Without this, the web interfaces look in the home directory for a secret to sign cookies with.
            "hadoop.http.filter.initializers": "org.apache.hadoop.http.lib.StaticUserWebFilter",
        }
        if self._kerberos is not None:
            found = {**by_host_name(found, HOST), **self._kerberos.properties}
        (self.configuration / "core-site.xml").write_text(configuration_xml(found))
        (self.configuration / "hdfs-site.xml").write_text(configuration_xml(found))
        (self.configuration / "yarn-site.xml").write_text(configuration_xml(self._properties()))
        (self.configuration / "log4j.properties").write_text(LOGGING)
        try:
            for daemon in self._managers:
                daemon.spawn()
            await asyncio.gather(*(daemon.wait_ready() for daemon in self._managers))
        except BaseException:
            await self._end(is_killed=True)
            raise

    async def stop(self) -> None:
        await self._end(is_killed=False)

    async def _end(self, *, is_killed: bool) -> None:
        for daemon in reversed(self._managers):
            await (daemon.kill() if is_killed else daemon.stop())

    def _properties(self) -> Mapping[str, str]:
        manager, node = "yarn.resourcemanager", "yarn.nodemanager"
        names = (
            f"{manager}.webapp.address",
            f"{manager}.address",
            f"{manager}.scheduler.address",
            f"{manager}.resource-tracker.address",
            f"{manager}.admin.address",
            f"{node}.address",
            f"{node}.localizer.address",
            f"{node}.webapp.address",
        )
        return {
            **{name: str(address) for name, address in zip(names, self._addresses, strict=True)},
            # The capacity scheduler wants a file of queues.
            f"{manager}.scheduler.class": "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fifo.FifoScheduler",
            # Containers are given out at a NodeManager's heartbeat: ten a second, not one.
            f"{manager}.nodemanagers.heartbeat-interval-ms": "100",
            "yarn.scheduler.minimum-allocation-mb": "128",
            **({} if self._kerberos is None else self._kerberos.yarn_properties),
            f"{node}.hostname": HOST,
            f"{node}.local-dirs": str(self.directory / "local"),
            f"{node}.log-dirs": str(self.directory / "containers"),
            f"{node}.resource.memory-mb": str(MEMORY_MB),
            f"{node}.resource.cpu-vcores": str(VCORES),
            f"{node}.container-monitor.enabled": "false",
            f"{node}.log-container-debug-info.enabled": "false",
            f"{node}.sleep-delay-before-sigkill.ms": "100",
            # A disk that is nearly full would make the node unhealthy.
            f"{node}.disk-health-checker.enable": "false",
        }


@contextmanager
def running(cluster: YarnCluster) -> Iterator[YarnCluster]:
    """Start it from the main thread, with which it dies, and end it however the tests ended."""
    outside_any_loop(cluster.start())
    try:
        yield cluster
    finally:
        outside_any_loop(cluster.stop())
