"""The address of a cluster's election in ZooKeeper: `HOST:PORT[,HOST:PORT][/chroot]`. Pure."""

from __future__ import annotations

import re
from typing import Final, Self

from bmq.dataclass import dataclass
from bmq.election.election import ElectionError

ZOOKEEPER_PORT: Final = 2181
_FORM: Final = "HOST:PORT[,HOST:PORT][/CHROOT]"
_SHOWN_MAX: Final = 100
# Names that a name server can resolve, and addresses.
_HOST: Final = re.compile(r"[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63}){0,20}\.?|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(%\w+)?")


class BadZooKeeperAddress(ElectionError):
    """Text that is not an address in ZooKeeper."""


@dataclass(frozen=True, slots=True)
class ZooKeeperAddress:
    """`servers`: each `HOST:PORT`, in brackets for IPv6. `root`: "" for the whole tree, else `/chroot`."""

    servers: tuple[str, ...]
    root: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """A port left out is 2181. Raises BadZooKeeperAddress with one sentence."""
        authority, slash, path = text.strip().partition("/")
        servers = tuple(_server(part.strip(), text) for part in authority.split(","))
        if len(set(servers)) != len(servers):
            raise BadZooKeeperAddress(f"ZooKeeper {_short(text)} names the same server twice")
        parts = path.rstrip("/").split("/") if path.strip("/") else []
        if any(part in ("", ".", "..") or not part.isprintable() or " " in part for part in parts):
            raise BadZooKeeperAddress(f"ZooKeeper {_short(text)}: {_short(slash + path)} is no plain path")
        if parts and parts[0] == "zookeeper":
            raise BadZooKeeperAddress(f"ZooKeeper {_short(text)}: /zookeeper is ZooKeeper's own; name another root")
        return cls(servers, "".join(f"/{part}" for part in parts))

    def __str__(self) -> str:
        return f"{','.join(self.servers)}{self.root}"


def _server(part: str, text: str) -> str:
    if part.startswith("["):  # an IPv6 address
        host, bracket, rest = part[1:].partition("]")
        port = rest.removeprefix(":")
        is_well_formed = bool(bracket) and (not rest or rest.startswith(":"))
        shown = f"[{host}]"
    else:
        host, _, port = part.partition(":")
        is_well_formed = not part.endswith(":")
        shown = host
    is_number = not port or (port.isascii() and port.isdigit())
    if not is_well_formed or not is_number or not _HOST.fullmatch(host):
        raise BadZooKeeperAddress(f"ZooKeeper {_short(text)}: write {_FORM}; {_short(part)} is not HOST:PORT")
    if len(port) > 5 or not 0 < int(port or ZOOKEEPER_PORT) < 65536:
        raise BadZooKeeperAddress(f"ZooKeeper {_short(text)}: {port[:40]} is no port")
    return f"{shown}:{int(port or ZOOKEEPER_PORT)}"


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…")
