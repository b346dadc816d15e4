"""How long each server of ZooKeeper takes to give a session, which the ensemble has to agree on."""

from __future__ import annotations

import asyncio
from typing import Final

from bmq.cli.doctor.machine import Machine
from bmq.cli.doctor.verdicts.zookeeper import ZooKeeperServer
from bmq.dev.zookeeper_probe import zookeeper_trouble
from bmq.election.zookeeper_address import ZooKeeperAddress
from bmq.hdfs.config import Address
from bmq.server.settings import split_address

SESSIONS: Final = 5
SESSION_MAX_S: Final = 3.0


async def zookeeper_servers(hosts: str, machine: Machine) -> list[ZooKeeperServer]:
    """Each server of `HOST:PORT[,HOST:PORT][/CHROOT]`, all asked at once. Raises BadZooKeeperAddress."""
    servers = ZooKeeperAddress.parse(hosts).servers
    return await asyncio.gather(*(_server(address, machine) for address in servers))


async def _server(address: str, machine: Machine) -> ZooKeeperServer:
    sessions_ms = []
    for _ in range(SESSIONS):
        began_s = machine.elapsed_s()
        trouble = await zookeeper_trouble(Address(*split_address(address)), SESSION_MAX_S)
        if trouble is not None:
            return ZooKeeperServer(address, trouble=trouble)
        sessions_ms.append((machine.elapsed_s() - began_s) * 1000)
    return ZooKeeperServer(address, tuple(sessions_ms))
