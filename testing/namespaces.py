"""Several hosts on one machine: network namespaces behind a bridge, with wires that can be cut.

    network = Network.enter()                       # this process is the hub from now on, alone with its loopback
    zookeeper = network.add_service()               # one more address of the hub
    host = network.add_host("node-1")               # a host of its own, behind a wire
    ManagedProcess("server", host.command([...]), ...)
    network.cut(host.address, zookeeper)            # one direction; cut the other one too to part them
    network.mend()
    host.unplug(); host.plug()

What is cut is lost without a trace, as on a real network: nobody is refused, everybody waits. Namespaces have no names
and are held by open files of this process, so that nothing of them is left when it ends, however it ends.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

_CLONE_NEWNET: Final = 0x40000000
_OWN_NAMESPACE: Final = Path("/proc/thread-self/ns/net")
# The names of devices are those of their namespace, so that every host may have the same.
_BRIDGE: Final = "hub"
_WIRE: Final = "wire"
_PREFIX: Final = "10.77.0."
_HUB: Final = 1
_FIRST_SERVICE: Final = 2
_FIRST_HOST: Final = 11
_HOSTS_MAX: Final = 200
# Where packets go that are to be lost: to a neighbour nobody has, on the same wire as all others.
_NOWHERE: Final = f"{_PREFIX}254"
_NOBODY: Final = "02:00:00:00:00:fe"
_LOST_TABLE: Final = 77
# Before the main table's rule (32766); rules of one preference are all looked at.
_LOST_PREFERENCE: Final = 100
_IP_WAIT_S: Final = 10.0


class NoNamespaces(Exception):
    """Network namespaces cannot be made here; why, in one sentence."""


class Host:
    """One namespace behind a wire. `address`: its only one, beside its loopback."""

    def __init__(self, name: str, address: str, namespace: int, hub_end: str) -> None:
        self.name = name
        self.address = address
        self._namespace = namespace
        self._hub_end = hub_end

    def command(self, arguments: Sequence[str]) -> list[str]:
        """The command line that runs this one inside; the process keeps its id. Good while the hub's process lives."""
        return ["nsenter", f"--net={_path_of(self._namespace)}", "--", *arguments]

    def unplug(self) -> None:
        """Nothing comes or goes: the hub's end of the wire is down."""
        _ip(f"link set {self._hub_end} down")

    def plug(self) -> None:
        """Whole again; fine when it is."""
        _ip(f"link set {self._hub_end} up")


class Network:
    """The hub of a star of hosts. `address`: its first one, that of clients."""

    def __init__(self) -> None:
        """Use `enter`."""
        self.address = f"{_PREFIX}{_HUB}"
        self.hosts: dict[str, Host] = {}
        self._services: list[str] = []
        self._cuts: set[tuple[str, str]] = set()

    @classmethod
    def enter(cls) -> Network:
        """Move this process, which must have one thread yet, to a namespace of its own. Raises NoNamespaces."""
        _check_possible()
        if threading.active_count() > 1:
            raise NoNamespaces("only a process with one thread can move to another network namespace")
        _unshare()
        network = cls()
        try:
            _ip(
                "link set lo up",
                f"link add name {_BRIDGE} type bridge",
                f"link set {_BRIDGE} up",
                f"addr add {network.address}/24 dev {_BRIDGE}",
                *_way_to_nowhere(_BRIDGE),
            )
        except subprocess.CalledProcessError as error:
            raise NoNamespaces(_sentence(error)) from None
        return network

    def add_service(self) -> str:
        """One more address of the hub, so that those who serve there can be cut off one by one."""
        address = f"{_PREFIX}{_FIRST_SERVICE + len(self._services)}"
        assert len(self._services) < _FIRST_HOST - _FIRST_SERVICE, "the hub has no further address"
        # With a network of its own: who answers from it, or connects to it from here, does so under this address.
        _ip(f"addr add {address}/32 dev {_BRIDGE}")
        self._services.append(address)
        return address

    def add_host(self, name: str) -> Host:
        """A namespace that reaches the hub and all other hosts. Raises NoNamespaces."""
        number = len(self.hosts)
        assert number < _HOSTS_MAX, "there are no further addresses"
        namespace = _new_namespace()
        host = Host(name, f"{_PREFIX}{_FIRST_HOST + number}", namespace, f"{_WIRE}{number}")
        try:
            _ip(
                f"link add name wire{number} type veth peer name {_WIRE} netns {_path_of(namespace)}",
                f"link set wire{number} master {_BRIDGE} up",
            )
            _ip(
                "link set lo up",
                f"link set {_WIRE} up",
                f"addr add {host.address}/24 dev {_WIRE}",
                *_way_to_nowhere(_WIRE),
                within=host,
            )
        except subprocess.CalledProcessError as error:
            raise NoNamespaces(_sentence(error)) from None
        self.hosts[name] = host
        return host

    def cut(self, sender: str, receiver: str) -> None:
        """From now on nothing that is sent from one address to the other arrives; what comes back still does."""
        if (sender, receiver) not in self._cuts:
            _ip(f"rule add {_lost(sender, receiver)}", within=self._host_of(sender))
            self._cuts.add((sender, receiver))

    def mend(self, cuts: Iterable[tuple[str, str]] | None = None) -> None:
        """Undo these cuts (sender, receiver), all of them by default; one that is not there is none too many."""
        for sender, receiver in list(self._cuts if cuts is None else self._cuts.intersection(cuts)):
            _ip(f"rule del {_lost(sender, receiver)}", within=self._host_of(sender))
            self._cuts.discard((sender, receiver))

    def heal(self) -> None:
        """Every wire is plugged in and nothing is cut."""
        self.mend()
        for host in self.hosts.values():
            host.plug()

    def _host_of(self, address: str) -> Host | None:
        """None: the hub."""
        return next((host for host in self.hosts.values() if host.address == address), None)


def _lost(sender: str, receiver: str) -> str:
    return f"preference {_LOST_PREFERENCE} from {sender} to {receiver} lookup {_LOST_TABLE}"


def _way_to_nowhere(device: str) -> tuple[str, ...]:
    """A routing table that loses everything: a route that refused it would tell the sender at once."""
    return (
        f"neigh replace {_NOWHERE} lladdr {_NOBODY} dev {device} nud permanent",
        f"route add default via {_NOWHERE} dev {device} onlink table {_LOST_TABLE}",
    )


def _check_possible() -> None:
    """Raises NoNamespaces for what can be known before anything is tried."""
    if os.geteuid() != 0:
        raise NoNamespaces("network namespaces need root: run this as root")
    for program, package in (("ip", "iproute2"), ("nsenter", "util-linux")):
        if shutil.which(program) is None:
            raise NoNamespaces(f"there is no `{program}` here: install {package} (`make tools` does, as root)")


def _unshare() -> None:
    """Give the calling thread a network namespace of its own. Raises NoNamespaces."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise NoNamespaces(f"the kernel gives no network namespace ({reason}): this takes the capability CAP_SYS_ADMIN")


def _new_namespace() -> int:
    """An open file that holds a new namespace, which a thread of a moment made. Raises NoNamespaces."""
    made: list[int | NoNamespaces] = []

    def make() -> None:
        try:
            _unshare()
            made.append(os.open(_OWN_NAMESPACE, os.O_RDONLY))
        except NoNamespaces as error:
            made.append(error)

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    (namespace,) = made
    if isinstance(namespace, NoNamespaces):
        raise namespace
    return namespace


def _path_of(namespace: int) -> str:
    return f"/proc/{os.getpid()}/fd/{namespace}"


def _ip(*orders: str, within: Host | None = None) -> None:
    """Carry out orders of the `ip` command, the first that fails being the last. Raises CalledProcessError."""
    command = ["ip", "-batch", "-"]
    subprocess.run(
        within.command(command) if within else command,
        input="\n".join(orders) + "\n",
        text=True,
        check=True,
        capture_output=True,
        timeout=_IP_WAIT_S,
    )


def _sentence(error: subprocess.CalledProcessError) -> str:
    lines = str(error.stderr).strip().splitlines() or ["it said nothing"]
    return f"the network of the hosts cannot be made: `ip` says {lines[0]!r}"
