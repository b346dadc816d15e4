"""The port that Operations starts and stops nodes through."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from bmq.dataclass import dataclass
from bmq.protocol.errors import BmqError


class DriverFailed(BmqError):
    """The driver could not do what it was asked for; one sentence says why."""


class DriverRefused(DriverFailed):
    """The request is impossible in the present state; nothing has broken."""


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """A node to start. `roles`: as `bmq node --roles` takes them, separated by commas."""

    node_id: int
    roles: str


@dataclass(frozen=True, slots=True)
class NodeHandle:
    """A node the driver started. `detail`: a few words, such as its pid or how it ended."""

    node_id: int
    is_running: bool
    detail: str = ""


class Driver(Protocol):
    """A driver in another process finds the same nodes. Every method has a time limit and may raise DriverFailed."""

    @property
    def stops_in_order(self) -> bool:
        """Whether only the node with the highest id can be stopped."""

    async def next_node_ids(self, count: int, taken: Collection[int]) -> Sequence[int]:
        """The ids that the next `count` nodes would have, none of them in `taken`. DriverRefused: there are too few."""

    async def start_node(self, spec: NodeSpec) -> NodeHandle:
        """Start it and return; it registers itself later. Fine when it runs already."""

    async def stop_node(self, node_id: int) -> None:
        """Stop it in order and wait until it is gone. Fine when it does not run."""

    async def list_nodes(self) -> Sequence[NodeHandle]:
        """All nodes it started and did not stop, by id, including those that ended by themselves."""


def first_free(node_ids: range, count: int, taken: Iterable[int]) -> tuple[int, ...]:
    """The lowest ids of the range that are not taken. Raises DriverRefused when there are fewer than `count`."""
    used = set(taken)
    free = [node_id for node_id in node_ids if node_id not in used][:count]
    if len(free) < count:
        raise DriverRefused(
            f"{count} node ids are needed and {len(free)} of {node_ids.start} to {node_ids.stop - 1} are free; "
            f"widen scale.first_node_id and scale.last_node_id"
        )
    return tuple(free)
