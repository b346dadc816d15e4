"""Orders of operators over REST, carried out to the end of their tasks."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from testing.cluster import BmqCluster, ClusterNode

REST_WAIT_S: Final = 5.0
ORDER_WAIT_S: Final = 60.0
ORDER_PAUSE_S: Final = 0.3


class OrderFailed(AssertionError):
    """An operator's order was not carried out."""


class Orders:
    """`failures`: of orders that were not carried out in time."""

    def __init__(self, cluster: BmqCluster) -> None:
        self.failures: list[str] = []
        self._cluster = cluster

    def known_controller(self) -> ClusterNode | None:
        """The node with the active controller, as the first one has it that answers. Blocks."""
        for node in self._cluster.healthy:
            status, page = node.get("/v1/cluster")
            if status == 200 and page["controller_id"] in self._cluster.nodes:
                return self._cluster.node(page["controller_id"])
        return None

    async def move(self, topic: str, partition: int, to: int) -> bool:
        return await self._order(f"/v1/topics/{topic}/partitions/{partition}/move", {"to": to})

    async def drain(self, node_id: int) -> bool:
        return await self._order(f"/v1/nodes/{node_id}/drain")

    async def undrain(self, node_id: int) -> bool:
        return await self._order(f"/v1/nodes/{node_id}/undrain")

    async def _order(self, path: str, body: object = None) -> bool:
        """Have it carried out, asking again when something beside it keeps the controller from it; whether it was."""
        reason = "nobody was asked"
        try:
            async with asyncio.timeout(ORDER_WAIT_S):
                while True:
                    try:
                        await self._carried_out(path, body)
                    except OrderFailed as error:
                        reason = str(error)
                        await asyncio.sleep(ORDER_PAUSE_S)
                    else:
                        return True
        except TimeoutError:
            self.failures.append(f"{path}: not within {ORDER_WAIT_S:g} s: {reason}")
            return False

    async def _carried_out(self, path: str, body: object) -> None:
        """One try, to the end of its task. Raises OrderFailed."""
        node = await self._controller()
        status, task = await asyncio.to_thread(node.call, "POST", path, body, REST_WAIT_S)
        if status != 202:
            raise OrderFailed(f"{status} {_reason(task)}")
        while task["state"] == "running":
            await asyncio.sleep(ORDER_PAUSE_S)
            status, task = await asyncio.to_thread(node.call, "GET", f"/v1/tasks/{task['id']}", None, REST_WAIT_S)
            if status != 200:
                raise OrderFailed(f"{status} {_reason(task)}")
        if task["error"]:
            raise OrderFailed(task["error"])

    async def _controller(self) -> ClusterNode:
        while True:
            node = await asyncio.to_thread(self.known_controller)
            if node is not None:
                return node
            await asyncio.sleep(ORDER_PAUSE_S)


def _reason(answer: Any) -> str:
    return str(answer.get("detail", answer)) if isinstance(answer, dict) else str(answer)
