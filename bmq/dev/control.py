"""Orders to a running development cluster, from another process on this machine: a line of JSON each way.

A daemon dies with the process that started it, so only that process can start one again; the others ask it to.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Final

from bmq.dataclass import dataclass
from bmq.dev.cluster import DevCluster, Order
from bmq.dev.ports import HOST
from bmq.hdfs.config import Address
from bmq.protocol.errors import BmqError

LINE_BYTES_MAX: Final = 256 * 1024
REQUEST_WAIT_S: Final = 5.0
# Longer than the longest order: a stop and a start, each with its own bound.
ORDER_WAIT_S: Final = 240.0


class OrderFailed(BmqError):
    """The cluster did not carry the order out; the message is its reason."""


class ClusterSilent(BmqError):
    """Nothing takes orders at the cluster's address."""


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """`role`: its role in the cluster (for HDFS: `active`, `standby`, `live`, `not live`); `?` if unknown."""

    name: str
    state: str
    role: str
    pid: int | None
    address: str
    log: str


async def node_statuses(cluster: DevCluster) -> list[NodeStatus]:
    """One for each node of the plan."""
    roles = await cluster.roles()
    found = []
    for node in cluster.plan.nodes:
        daemon = cluster.daemon(node.name)
        address, log = str(node.addresses[0]), str(daemon.log_file)
        found.append(NodeStatus(node.name, daemon.state, roles[node.name], daemon.pid, address, log))
    return found


class ControlServer:
    """Takes orders one after the other. `on_down` is called once the cluster was told to end."""

    def __init__(self, cluster: DevCluster, on_down: Callable[[], None]) -> None:
        self._cluster = cluster
        self._on_down = on_down
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._orders: Mapping[str, Order] = {
            "start": lambda daemon: daemon.start(),
            "stop": lambda daemon: daemon.stop(),
            "kill": lambda daemon: daemon.kill(),
            "pause": lambda daemon: daemon.pause(),
            "resume": lambda daemon: daemon.resume(),
            "restart": lambda daemon: daemon.restart(),
            **cluster.special_orders,
        }

    async def open(self) -> Address:
        """Listen; returns the address."""
        self._server = await asyncio.start_server(self._accept, HOST, 0, limit=LINE_BYTES_MAX)
        return Address(*self._server.sockets[0].getsockname()[:2])

    async def close(self) -> None:
        """Take no more orders; the one under way is cancelled, so that it cannot start anything after this."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._serve_one(reader, writer)
        finally:
            writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_WAIT_S):
                request = json.loads(await reader.readline())
            answer = await self._answer(str(request["order"]), str(request.get("node", "")))
        except (TimeoutError, ValueError, KeyError, TypeError, AttributeError):
            answer = {"error": "that is not an order"}
        except BmqError as error:
            answer = {"error": str(error)}
        except OSError:
            return  # the caller is gone
        writer.write(json.dumps(answer).encode() + b"\n")

    async def _answer(self, order: str, node: str) -> dict[str, Any]:
        if order == "down":
            self._on_down()
            return {"nodes": []}
        async with self._turn:
            if order != "status":
                if order not in self._orders:
                    raise OrderFailed(f"there is no order {order!r}")
                await self._orders[order](self._cluster.daemon(node))
            return {"nodes": [asdict(status) for status in await node_statuses(self._cluster)]}


async def give_order(control: Address, order: str, node: str = "") -> list[NodeStatus]:
    """Have the order carried out; returns the nodes' states after it. Raises OrderFailed, ClusterSilent."""
    try:
        async with asyncio.timeout(ORDER_WAIT_S):
            reader, writer = await asyncio.open_connection(control.host, control.port, limit=LINE_BYTES_MAX)
            try:
                writer.write(json.dumps({"order": order, "node": node}).encode() + b"\n")
                line = await reader.readline()
            finally:
                writer.transport.abort()
        answer = json.loads(line)
        if "error" in answer:
            raise OrderFailed(str(answer["error"]))
        return [NodeStatus(**node_status) for node_status in answer["nodes"]]
    except TimeoutError:
        raise ClusterSilent(f"the cluster did not carry out {order!r} within {ORDER_WAIT_S:g} s") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ClusterSilent(f"the cluster takes no orders at {control}: {error}") from None
