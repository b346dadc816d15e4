"""A real ZooKeeper server on this machine, a process that can be broken.

    async with ZooKeeperServer(directory) as zookeeper:
        zookeeper.address                 # for `--zookeeper`, with or without a /chroot behind it
        await zookeeper.pause()

Everything it writes is in its directory: `data`, `log`, and its configuration. It keeps its port and its data over a
restart. Sessions may be as short as one second, so that the death of a process is noticed soon.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Final, Self

from bmq.dataclass import dataclass
from bmq.dev.cluster import Order
from bmq.dev.daemon import START_WAIT_S, Daemon, WrongDaemonState
from bmq.dev.java import QUICK_START_JVM_OPTIONS, ZOOKEEPER_JARS, java_command
from bmq.dev.ports import HOST, check_free, pick_ports
from bmq.dev.zookeeper_probe import zookeeper_trouble
from bmq.hdfs.config import Address
from bmq.protocol.errors import BmqError

NAME: Final = "zk0"
HEAP_MB: Final = 64
# The shortest session is two ticks.
TICK_MS: Final = 500
SESSION_MS_MAX: Final = 60_000
CONFIGURATION: Final = "zoo.cfg"

_MAIN: Final = "org.apache.zookeeper.server.ZooKeeperServerMain"


class UnknownServer(BmqError):
    """There is no server of that name."""


@dataclass(frozen=True, slots=True)
class ZooKeeperNodePlan:
    """`client`: the address for clients."""

    name: str
    client: Address

    @property
    def addresses(self) -> tuple[Address, ...]:
        return (self.client,)


@dataclass(frozen=True, slots=True)
class ZooKeeperPlan:
    """One server. It outlives the process."""

    server: ZooKeeperNodePlan

    @property
    def nodes(self) -> tuple[ZooKeeperNodePlan, ...]:
        return (self.server,)

    @classmethod
    def of_port(cls, port: int) -> Self:
        return cls(ZooKeeperNodePlan(NAME, Address(HOST, port)))

    @classmethod
    def of_json(cls, found: Any) -> Self:
        server = found["server"]
        return cls(ZooKeeperNodePlan(str(server["name"]), Address(*server["client"])))


def configuration(plan: ZooKeeperPlan, directory: Path, more: Mapping[str, str] | None = None) -> str:
    """The file the server reads; its files lie under `directory`. Pure."""
    properties = {
        "tickTime": TICK_MS,
        "maxSessionTimeout": SESSION_MS_MAX,
        "dataDir": directory / "data",
        "clientPort": plan.server.client.port,
        "clientPortAddress": plan.server.client.host,
        "maxClientCnxns": 0,  # unlimited: all clients have one address here
        # Writes survive a killed process without this; only a machine crash would lose them.
        "forceSync": "no",
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "",
        "autopurge.snapRetainCount": 3,
        "autopurge.purgeInterval": 1,
        **(more or {}),
    }
    return "".join(f"{name}={value}\n" for name, value in properties.items())


class ZooKeeperServer:
    """Implements bmq.dev.cluster.DevCluster. Raises JavaMissing, JarsMissing, PortTaken.

    `plan`: its port, instead of a free one. `properties`: more of its configuration. All orders raise WrongDaemonState when they do not fit the state, and
    DaemonFailed, with the end of its log, when it does not come up.
    """

    def __init__(
        self,
        directory: Path,
        jars: Path = ZOOKEEPER_JARS,
        *,
        heap_mb: int = HEAP_MB,
        jvm_options: Sequence[str] = QUICK_START_JVM_OPTIONS,
        plan: ZooKeeperPlan | None = None,
        random: Random | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = directory.resolve()
        self._properties = properties
        self.plan = plan or ZooKeeperPlan.of_port(*pick_ports(HOST, 1, random or Random()))
        command = java_command(
            _MAIN,
            [str(self.directory / CONFIGURATION)],
            jars=jars,
            configuration=self.directory,
            heap_mb=heap_mb,
            options=jvm_options,
        )
        self.process = Daemon(NAME, command, self.directory / "log" / f"{NAME}.log", self._probe)

    @property
    def address(self) -> Address:
        """The address for clients."""
        return self.plan.server.client

    @property
    def daemons(self) -> tuple[Daemon, ...]:
        return (self.process,)

    def daemon(self, name: str) -> Daemon:
        """Raises UnknownServer."""
        if name != NAME:
            raise UnknownServer(f"there is no server {name!r}; the only one is {NAME}")
        return self.process

    # -- Orders ------------------------------------------------------------------------------------------------------

    async def start(self, timeout_s: float = START_WAIT_S) -> None:
        """Start it and wait until it gives sessions; on failure nothing is left running."""
        if self.process.is_running:
            raise WrongDaemonState(f"{NAME} is running already")
        check_free((self.address,))
        (self.directory / "data").mkdir(parents=True, exist_ok=True)
        (self.directory / CONFIGURATION).write_text(configuration(self.plan, self.directory, self._properties))
        try:
            await self.process.start(timeout_s)
        except BaseException:
            await self.process.kill()
            raise

    async def stop(self) -> None:
        """SIGTERM; sessions survive if it is started again before they expire."""
        await self.process.stop()

    async def kill(self) -> None:
        """SIGKILL."""
        await self.process.kill()

    async def pause(self) -> None:
        """SIGSTOP: connections stay and nothing is answered. Sessions that expire meanwhile end when it is resumed."""
        await self.process.pause()

    async def resume(self) -> None:
        """SIGCONT."""
        await self.process.resume()

    async def restart(self) -> None:
        """Stop it (or find it stopped), then start it on the same port and data."""
        await self.stop()
        await self.start()

    def wipe(self) -> None:
        """Lose all its data, as if its disks were new. Raises WrongDaemonState while it runs."""
        if self.process.is_running:
            raise WrongDaemonState(f"{NAME} is running, so its data cannot be taken away")
        shutil.rmtree(self.directory / "data", ignore_errors=True)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    # -- Watching ----------------------------------------------------------------------------------------------------

    async def roles(self) -> Mapping[str, str]:
        """`serving` when it gives sessions, else `?`."""
        is_asked = self.process.state == "running"
        return {NAME: "serving" if is_asked and await zookeeper_trouble(self.address) is None else "?"}

    @property
    def special_orders(self) -> Mapping[str, Order]:
        return {}

    async def _probe(self) -> str | None:
        return await zookeeper_trouble(self.address)
