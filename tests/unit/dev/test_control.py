"""Orders over the control connection: carried out one by one, refused with a sentence, and bounded."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bmq.dev.control import LINE_BYTES_MAX, ClusterSilent, ControlServer, OrderFailed, give_order
from bmq.dev.ports import pick_ports
from bmq.hdfs.config import Address
from tests.unit.dev.plans import cluster_without_java

pytestmark = pytest.mark.unit


class Control:
    """A server over a cluster of which nothing runs. `is_ended`: it was told to go down."""

    def __init__(self, server: ControlServer, address: Address) -> None:
        self.server = server
        self.address = address
        self.is_ended = False


@pytest.fixture
async def control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Control]:
    def end() -> None:
        made.is_ended = True

    server = ControlServer(cluster_without_java(tmp_path, monkeypatch), end)
    made = Control(server, await server.open())
    yield made
    await server.close()


async def sent(address: Address, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        writer.write(data)
        return await reader.read()
    finally:
        writer.transport.abort()


async def test_status_lists_every_node(control: Control) -> None:
    nodes = await give_order(control.address, "status")
    assert [(node.name, node.state, node.role) for node in nodes] == [
        ("nn0", "stopped", "?"),
        ("dn0", "stopped", "?"),
        ("dn1", "stopped", "?"),
        ("dn2", "stopped", "?"),
    ]
    assert {node.pid for node in nodes} == {None}


@pytest.mark.parametrize(
    ("order", "node", "reason"),
    [
        ("dance", "dn0", "there is no order 'dance'"),
        ("kill", "dn7", "there is no node 'dn7'; this cluster has nn0, dn0, dn1, dn2"),
        ("pause", "dn0", "dn0 is not running, so it cannot pause"),
        ("resume", "dn0", "dn0 is not running, so it cannot resume"),
        ("activate", "nn0", "this cluster has a single NameNode"),
        ("activate", "dn0", "dn0 is no NameNode"),
    ],
)
async def test_an_order_that_does_not_fit_is_refused_with_a_sentence(
    control: Control, order: str, node: str, reason: str
) -> None:
    with pytest.raises(OrderFailed, match=reason):
        await give_order(control.address, order, node)


async def test_a_daemon_that_dies_at_its_start_answers_with_its_last_words(control: Control) -> None:
    with pytest.raises(OrderFailed, match=r"(?s)dn1 ended with exit code 3 while it started.*no JVM today"):
        await give_order(control.address, "start", "dn1")


async def test_down_is_answered_and_told(control: Control) -> None:
    assert await give_order(control.address, "down") == []
    assert control.is_ended


@pytest.mark.parametrize(
    "data", [b"\n", b"nonsense\n", b"[]\n", b"{}\n", b"\xff\n", b"x" * (LINE_BYTES_MAX + 1) + b"\n"]
)
async def test_what_is_no_order_is_answered_as_such(control: Control, data: bytes) -> None:
    assert json.loads(await sent(control.address, data)) == {"error": "that is not an order"}


async def test_closing_gives_up_the_order_under_way(control: Control) -> None:
    reader, writer = await asyncio.open_connection(*control.address)
    await give_order(control.address, "status")  # the first connection has been accepted by then
    await control.server.close()
    assert await reader.read() == b""
    writer.transport.abort()


async def test_nobody_there_is_a_sentence() -> None:
    from random import Random

    (port,) = pick_ports("127.0.0.1", 1, Random())
    with pytest.raises(ClusterSilent, match=f"takes no orders at 127.0.0.1:{port}"):
        await give_order(Address("127.0.0.1", port), "status")
