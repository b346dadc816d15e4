"""Resolves the names of this node and of what it needs, each in a thread: a name server that hangs is told, not waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from bmq.cli.doctor.machine import Machine
from bmq.cli.doctor.verdicts.names import ResolvedName
from bmq.dataclass import dataclass
from bmq.election.zookeeper_address import BadZooKeeperAddress, ZooKeeperAddress
from bmq.hdfs.config import HdfsConfig
from bmq.security.listeners import WrongListeners, listeners_of
from bmq.server.setting_checks import is_any_address
from bmq.server.settings import Settings, split_address

RESOLVE_MAX_S: Final = 3.0
NAMES_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class NameInUse:
    """`purpose`: whose name it is, the subject of a sentence. `is_own`: others are told to reach this node by it."""

    name: str
    purpose: str
    is_own: bool = False


def names_in_use(settings: Settings, hdfs: HdfsConfig | None, *, is_node: bool) -> list[NameInUse]:
    """Those that the settings have. `is_node`: other nodes are told addresses of this one, too."""
    found = []
    try:
        told = split_address(settings.advertised) if settings.advertised else None
        for listener in listeners_of(settings.kafka, split_address(settings.listen), told):
            host, port = listener.advertised or listener.address
            if not is_any_address(f"{host}:{port}"):
                found.append(NameInUse(host, f"the address that clients of {listener.name} are told", is_own=True))
    except WrongListeners:
        pass  # the check of settings tells it
    if is_node:
        for name in ("internal", "rest"):
            address = getattr(settings, f"{name}_advertised") or getattr(settings, name)
            if not is_any_address(address):
                found.append(NameInUse(split_address(address)[0], f"the address {name} of this node", is_own=True))
        try:
            servers = ZooKeeperAddress.parse(settings.zookeeper).servers
            found += [NameInUse(split_address(server)[0], "a server of ZooKeeper") for server in servers]
        except BadZooKeeperAddress:
            pass
    if hdfs is not None:
        found += [NameInUse(address.host, "a NameNode") for address in hdfs.namenodes]
    return found


async def resolved(names: Sequence[NameInUse], machine: Machine) -> list[ResolvedName]:
    """Each name as the resolver sees it, all at once, RESOLVE_MAX_S for each."""
    return await asyncio.gather(*(_resolved(name, machine) for name in dict.fromkeys(names[:NAMES_MAX])))


async def _resolved(asked: NameInUse, machine: Machine) -> ResolvedName:
    began_s = machine.elapsed_s()
    try:
        async with asyncio.timeout(RESOLVE_MAX_S):
            addresses = await asyncio.to_thread(lambda: machine.resolve(asked.name))
    except TimeoutError:
        return ResolvedName(asked.name, asked.purpose, reason=f"no answer within {RESOLVE_MAX_S:g} s")
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return ResolvedName(asked.name, asked.purpose, reason=reason)
    return ResolvedName(
        asked.name,
        asked.purpose,
        addresses,
        took_s=machine.elapsed_s() - began_s,
        is_own=asked.is_own,
        is_own_address=any(machine.is_own_address(address) for address in addresses),
    )
