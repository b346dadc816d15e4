"""What operations need of the active controller; bmq.controller.runtime.Controller is one. And what REST needs of the proxy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar
from uuid import UUID

from bmq.controller.decision import Decision
from bmq.controller.moves import Move
from bmq.metadata.history import StateChange
from bmq.metadata.image import MetadataImage
from bmq.protocol.apis import ApiKey

R = TypeVar("R")


class StateChanges(Protocol):
    def of(self, topic_id: UUID, partition: int) -> Sequence[StateChange]:
        """Newest last; bounded."""


class NodeLoad(Protocol):
    """A node's load, measured over the last reports."""

    @property
    def partitions(self) -> int: ...
    @property
    def bytes_in_s(self) -> float: ...
    @property
    def bytes_out_s(self) -> float: ...
    @property
    def requests_s(self) -> float: ...


class ClusterController(Protocol):
    """What operations need of bmq.controller.runtime.Controller."""

    @property
    def image(self) -> MetadataImage: ...

    @property
    def history(self) -> StateChanges: ...

    def loads(self) -> Mapping[int, NodeLoad]: ...

    async def set_draining(self, node_id: int, is_draining: bool, reason: str) -> None:
        """From then on the controller moves a draining node's partitions away by itself."""

    def drain_plan(self, node_id: int) -> Sequence[Move]: ...

    def rebalance_plan(self) -> Sequence[Move]: ...

    async def apply_moves(self, moves: Sequence[Move], reason: str) -> None:
        """Returns when the new owners serve, or the wait for them is over."""

    async def keep_task(self, task_id: str, text: str, forgotten: Sequence[str]) -> None:
        """Write a task into the metadata log, and take the forgotten ones out. Raises KafkaError."""


class TableController(Protocol):
    """What tables need of the active controller."""

    @property
    def image(self) -> MetadataImage: ...

    def now_ms(self) -> int: ...

    async def decide_with_id(self, decide: Callable[[MetadataImage, UUID, int], Decision[R]]) -> R:
        """Decide in turn, with an unused id and the present time; returns the answer once its records are applied.

        Raises KafkaError, and whatever `decide` raises.
        """

    def end_offset(self, topic_id: UUID, number: int) -> int:
        """The least end offset a partition is known to have, from its owner's last report; 0 when unknown."""


class KafkaRequests(Protocol):
    """Answers Kafka requests of REST's clients (bmq.proxy.local_requests.LocalRequests)."""

    def now_ms(self) -> int:
        """Wall time, which records without a time get."""

    async def ask(self, api_key: ApiKey, request: Any, *, principal: str, host: str) -> Any:
        """The response to a request, both messages of bmq.protocol.messages. Raises BmqError."""
