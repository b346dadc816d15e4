"""Start daemons that tests share, on other ports when theirs were taken between the pick and the start.

A port that was free when it was picked may be taken by a process that knows nothing of our picks. One daemon that all tests
of a stage share would then fail all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine
from typing import Final, Protocol, TypeVar

from bmq.dev.daemon import DaemonFailed
from bmq.dev.ports import PortTaken

TRIES_MAX: Final = 3
_TAKEN: Final = re.compile(r"BindException|Address already in use")


class Startable(Protocol):
    def start(self) -> Coroutine[None, None, None]: ...


S = TypeVar("S", bound=Startable)


def started_on_free_ports(make: Callable[[], S], run: Callable[[Coroutine[None, None, None]], None]) -> S:
    """What `make` makes, started by `run`. Each try is a new one, in a directory and on ports of its own.

    Raises what the start raises, PortTaken and a daemon's BindException only after TRIES_MAX tries.
    """
    for left in reversed(range(TRIES_MAX)):
        made = make()
        try:
            run(made.start())
        except (PortTaken, DaemonFailed) as error:
            is_taken = isinstance(error, PortTaken) or _TAKEN.search(str(error))
            if not left or not is_taken:
                raise
        else:
            return made
    raise AssertionError("TRIES_MAX is zero")
