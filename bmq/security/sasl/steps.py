"""What a mechanism says to a client's message.

Reasons are for the server's log and say nothing secret. Messages go to the client and never tell whether a user exists.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import field
from typing import Protocol, Union

from bmq.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Challenge:
    """The exchange goes on: `data` is for the client."""

    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Accepted:
    """The client is who it says. `data`: the last message for it. `expires_at_ms`: wall time; None: no end."""

    user: str
    data: bytes = field(default=b"", repr=False)
    is_token: bool = False
    expires_at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Rejected:
    """Final. `message`: for the client; empty: the usual one."""

    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Not final: what decides cannot be reached now. The connection is closed, and clients try again."""

    reason: str


@dataclass(frozen=True, slots=True)
class Deferred:
    """`work` takes milliseconds of a processor: it has to run in another thread, and returns the real step."""

    work: Callable[[], Step] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Awaited:
    """`work` may wait for others, and returns the real step."""

    work: Callable[[], Awaitable[Step]] = field(repr=False)


Step = Union[Challenge, Accepted, Rejected, Unavailable, Deferred, Awaited]  # noqa: UP007  # it refers to itself


class Mechanism(Protocol):
    """One exchange of one client."""

    def step(self, message: bytes) -> Step:
        """The answer to the client's next message."""
