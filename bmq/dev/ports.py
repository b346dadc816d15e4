"""Ports for servers that must keep theirs over a restart."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from random import Random
from typing import Final

from bmq.hdfs.config import Address
from bmq.protocol.errors import BmqError

# Below the range for outgoing connections, so that none of those takes the port of a server that is down.
PORTS: Final = range(15_000, 32_000)
TRIES_MAX: Final = 1_000
# Where all development daemons listen.
HOST: Final = "127.0.0.1"


class PortTaken(BmqError):
    """Another process listens on a daemon's port."""


def pick_ports(host: str, count: int, random: Random, exclude: Sequence[int] = ()) -> tuple[int, ...]:
    """Ports that nobody listened on a moment ago. Raises PortTaken when there are too few."""
    found: list[int] = []
    for _ in range(TRIES_MAX):
        if len(found) == count:
            return tuple(found)
        port = random.choice(PORTS)
        if port not in found and port not in exclude and _is_free(Address(host, port)):
            found.append(port)
    raise PortTaken(f"no {count} free ports between {PORTS.start} and {PORTS.stop} on {host}")


def check_free(addresses: Iterable[Address]) -> None:
    """Raises PortTaken, naming the ones that are taken."""
    taken = [str(address) for address in addresses if not _is_free(address)]
    if taken:
        raise PortTaken(f"something else listens on {', '.join(taken)}")


def _is_free(address: Address) -> bool:
    with socket.socket() as probe:
        # As the servers do, so that connections in TIME_WAIT do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError:
            return False
        return True
