"""What probes ask of this machine: its clocks, its resolver, its limits. Tests hand in others."""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bmq.dataclass import dataclass

_TIMEX_BYTES: Final = 512
"""More than struct timex of adjtimex(2) has on any machine."""
_TIME_ERROR: Final = 5


def _now_ms() -> float:
    return time.time() * 1000


def system_addresses(name: str) -> tuple[str, ...]:
    """The addresses of a name, as getaddrinfo(3) orders them. Raises OSError."""
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(each[4][0]) for each in found))


def is_own_address(address: str) -> bool:
    """Whether this machine has the address: only then a socket may be bound to it."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError as error:
        return error.errno != errno.EADDRNOTAVAIL
    return True


def is_clock_synchronized() -> bool | None:
    """What the kernel says by adjtimex(2); None: it cannot be asked."""
    try:
        state = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    except (OSError, AttributeError):
        return None
    return None if state < 0 else state != _TIME_ERROR


def open_files_hard_limit() -> int | None:
    """Of this process; None: no limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if hard == resource.RLIM_INFINITY else hard


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """`root`: where /proc and /sys are below. `now_ms`: time of day. `elapsed_s`: time that no clock change moves."""

    root: Path = Path("/")
    now_ms: Callable[[], float] = _now_ms
    elapsed_s: Callable[[], float] = time.monotonic
    resolve: Callable[[str], tuple[str, ...]] = system_addresses
    is_own_address: Callable[[str], bool] = is_own_address
    is_clock_synchronized: Callable[[], bool | None] = is_clock_synchronized
    open_files_hard_limit: Callable[[], int | None] = open_files_hard_limit
    disk: Callable[[Path], os.statvfs_result] = os.statvfs
