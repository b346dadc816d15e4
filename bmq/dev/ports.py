"""Ports for servers that must keep theirs over a restart."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import takewhile
from pathlib import Path
from random import Random
from typing import Final

from bmq.hdfs.config import Address
from bmq.protocol.errors import BmqError

# Below the range for outgoing connections, so that none of those takes the port of a server that is down.
PORTS: Final = range(15_000, 32_000)
TRIES_MAX: Final = 1_000
# The same for all processes of a user: with one in each TMPDIR, two of them pick the same port.
RESERVED: Final = Path(f"/tmp/bmq-dev-ports-{os.getuid()}.lock")
# Where all development daemons listen.
HOST: Final = "127.0.0.1"


class PortTaken(BmqError):
    """Another process listens on a daemon's port."""


class ReservedPorts:
    """What this process has picked, seen by all processes of this user: for each port a lock on one byte of a file, which the
    system takes away when the process ends.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        self._ports: set[int] = set()

    def add(self, port: int) -> bool:
        """False if it was reserved before, by whomever."""
        if port in self._ports:
            # The system does not tell a process from itself.
            return False
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
        except OSError:
            return False
        self._ports.add(port)
        return True

    def discard(self, port: int) -> None:
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, port)
        self._ports.discard(port)


def pick_ports(host: str, count: int, random: Random, exclude: Sequence[int] = ()) -> tuple[int, ...]:
    """Ports that nobody listened on a moment ago, and that nobody else picks while this process lives: the servers they are
    for may be down for a while. Raises PortTaken when there are too few.
    """
    found: list[int] = []
    for _ in range(TRIES_MAX):
        if len(found) == count:
            return tuple(found)
        port = random.choice(PORTS)
        if port not in exclude and _reserve(host, port):
            found.append(port)
    for port in found:
        _reserved().discard(port)
    raise PortTaken(f"no {count} free ports between {PORTS.start} and {PORTS.stop} on {host}")


def pick_ports_in_a_row(host: str, count: int, random: Random) -> range:
    """The same, one behind the other. Raises PortTaken when no such row is found."""
    for _ in range(TRIES_MAX):
        first = random.choice(PORTS[: -count + 1 or None])
        row = range(first, first + count)
        found = list(takewhile(lambda port: _reserve(host, port), row))
        if len(found) == count:
            return row
        for port in found:
            _reserved().discard(port)
    raise PortTaken(f"no {count} free ports in a row between {PORTS.start} and {PORTS.stop} on {host}")


def check_free(addresses: Iterable[Address]) -> None:
    """Raises PortTaken, naming the ones that are taken."""
    taken = [str(address) for address in addresses if not _is_free(address)]
    if taken:
        raise PortTaken(f"something else listens on {', '.join(taken)}")


@cache
def _reserved() -> ReservedPorts:
    return ReservedPorts(RESERVED)


def _reserve(host: str, port: int) -> bool:
    """False, and nothing is reserved, if it was before or somebody listens there."""
    if not _reserved().add(port):
        return False
    if _is_free(Address(host, port)):
        return True
    _reserved().discard(port)
    return False


def _is_free(address: Address) -> bool:
    with socket.socket() as probe:
        # As the servers do, so that connections in TIME_WAIT do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError:
            return False
        return True
