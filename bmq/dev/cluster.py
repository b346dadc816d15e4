"""A development cluster's interface for its supervisor and for orders, whatever its daemons are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

from bmq.dev.daemon import Daemon
from bmq.hdfs.config import Address

# An order's effect on the daemon it names.
Order = Callable[[Daemon], Awaitable[None]]


class NodePlan(Protocol):
    """One daemon: its name and its addresses, the one for clients first."""

    @property
    def name(self) -> str: ...

    @property
    def addresses(self) -> tuple[Address, ...]: ...


class Plan(Protocol):
    """The daemons and their ports. A dataclass that `asdict` turns into JSON; it outlives the processes."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def nodes(self) -> Sequence[NodePlan]: ...

    @classmethod
    def of_json(cls, found: Any) -> Self:
        """The inverse of `asdict`. Raises ValueError, KeyError, TypeError or AttributeError for anything else."""


class DevCluster(Protocol):
    """Daemons on this machine under one directory, with a Plan."""

    directory: Path

    @property
    def plan(self) -> Plan: ...

    @property
    def daemons(self) -> Sequence[Daemon]: ...

    def daemon(self, name: str) -> Daemon:
        """By its name in the plan. Raises a BmqError that lists the names."""

    async def start(self) -> None:
        """Start everything and wait until it is usable; on failure nothing is left running. Raises a BmqError."""

    async def stop(self) -> None:
        """End all daemons in order; the files stay."""

    async def roles(self) -> Mapping[str, str]:
        """By daemon: its present role in the cluster (`active`, `live`); `?` if unknown."""

    @property
    def special_orders(self) -> Mapping[str, Order]:
        """Orders in addition to those that every daemon takes (start, stop, kill, pause, resume, restart)."""
