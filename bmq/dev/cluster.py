"""A development cluster as seen by whoever keeps it up and passes orders on to it, whatever its daemons are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

from bmq.dev.daemon import Daemon
from bmq.hdfs.config import Address

# What an order does to the daemon it names.
Order = Callable[[Daemon], Awaitable[None]]


class NodePlan(Protocol):
    """One daemon: its name, and where it listens; the address that clients use comes first."""

    @property
    def name(self) -> str: ...

    @property
    def addresses(self) -> tuple[Address, ...]: ...


class Plan(Protocol):
    """Which daemons there are, on which ports. A dataclass that `asdict` turns into JSON; it outlives the processes."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def nodes(self) -> Sequence[NodePlan]: ...

    @classmethod
    def of_json(cls, found: Any) -> Self:
        """From what `asdict` gave. Raises ValueError, KeyError, TypeError or AttributeError when it is anything else."""


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
        """By daemon: what it is in the cluster just now (`active`, `live`); `?` when nobody can say."""

    @property
    def special_orders(self) -> Mapping[str, Order]:
        """Beyond those that every daemon takes (start, stop, kill, pause, resume, restart)."""
