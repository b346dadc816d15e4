"""A real ZooKeeper for tests: one for all tests that only use it, and one of its own for a test that hurts it.

from testing.zookeeper import own_zookeeper, zookeeper  # noqa: F401  (fixtures, named in a conftest.py)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from bmq.dev.zookeeper import ZooKeeperServer
from testing.free_ports import started_on_free_ports
from testing.hdfs import outside_any_loop
from testing.processes import JARS
from testing.shared_daemons import shared_zookeeper

ZOOKEEPER_JARS = JARS / "zookeeper"


def new_zookeeper(directory: Path) -> ZooKeeperServer:
    """A server that is not started."""
    return ZooKeeperServer(directory, ZOOKEEPER_JARS)


@contextmanager
def running_zookeeper(server: ZooKeeperServer) -> Iterator[ZooKeeperServer]:
    """Start it from the main thread, with which it dies, and end it however the tests ended."""
    outside_any_loop(server.start())
    try:
        yield server
    finally:
        outside_any_loop(server.stop())


def fresh_chroot(test_name: str, random: Random | None = None) -> str:
    """A root in ZooKeeper nobody else uses, to be put behind an address; it does not exist yet."""
    name = re.sub(r"[^a-z0-9_]+", "-", test_name.lower()).strip("-")[:60]
    return f"/{name}-{(random or Random()).randrange(16**8):08x}"


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """One server for all tests of the session, or of the run: it is not to be hurt."""
    if there := shared_zookeeper():
        yield there
        return
    server = started_on_free_ports(lambda: new_zookeeper(tmp_path_factory.mktemp("zookeeper")), outside_any_loop)
    try:
        yield server
    finally:
        outside_any_loop(server.stop())


@pytest.fixture
def own_zookeeper(tmp_path: Path) -> Iterator[ZooKeeperServer]:
    """A server of the test's own: kill, pause and restart it. It costs a second."""
    with running_zookeeper(new_zookeeper(tmp_path / "zookeeper")) as server:
        yield server
