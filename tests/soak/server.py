"""The server under a soak: `bmq standalone` on HDFS, watched over all its incarnations."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from bmq.hdfs.config import Address
from testing.servers import REST_WAIT_S, BmqServer, without_listen
from tests.soak.logins import Secured

MIB: Final = 1024 * 1024
# As long as the server itself waits for a store that does not answer (start_wait_ms), and its own start.
READY_TIMEOUT_S: Final = 75.0
METRICS_TRIES: Final = 3
COUNTERS: Final = (
    "bmq_segment_rolls",
    "bmq_segment_mends",
    "bmq_file_takeovers",
    "bmq_duplicate_batches",
    "bmq_partitions_lost_data",
)
CACHES: Final = ("bmq_read_cache_bytes", "bmq_tail_cache_bytes", "bmq_view_cache_bytes")
"""Metrics of what they hold."""


class HdfsBmqServer(BmqServer):
    """`counters`: sums over the incarnations that were asked before they ended; `memory_mib`: resident size over time;
    `own_memory_mib`: without its caches.
    """

    ready_timeout_s = READY_TIMEOUT_S
    # Within pytest, too: a server that is paused and goes on is to do what it does in production.
    patience: Mapping[str, str] = {}

    def __init__(
        self,
        directory: Path,
        namenode: Address,
        root: str,
        environment: Mapping[str, str] | None = None,
        secured: Secured | None = None,
        *,
        has_extras: bool = False,
    ) -> None:
        super().__init__(directory, environment, store=f"hdfs://{namenode}{root}", has_extras=has_extras)
        self._secured = secured
        self.counters = dict.fromkeys(COUNTERS, 0)
        self.memory_mib: list[float] = []
        self.own_memory_mib: list[float] = []

    def get(self, path: str) -> tuple[int, str]:
        """As without logins; as the administrator where there are any."""
        if self._secured is None:
            return super().get(path)
        context, headers = self._secured.context, self._secured.rest_headers
        request = urllib.request.Request(f"https://127.0.0.1:{self.rest_port}{path}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=REST_WAIT_S, context=context) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.reason
        except OSError as error:
            return 0, str(error)

    def _arguments(self) -> list[str]:
        arguments = super()._arguments()
        return arguments if self._secured is None else without_listen(arguments)

    def sample_memory(self) -> None:
        """Add the resident size of now; nothing while it is not running."""
        self.memory_mib += self._resident_mib()

    def sample_own_memory(self) -> None:
        """Add the resident size without what the caches hold by their own count; nothing while it does not answer."""
        status, text = self.get("/metrics")
        cached_mib = cached_mib_of(text) if status == 200 else None
        if cached_mib is not None:
            self.own_memory_mib += [resident_mib - cached_mib for resident_mib in self._resident_mib()]

    def _resident_mib(self) -> list[float]:
        """From /proc; empty while it is not running."""
        try:
            lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        except OSError:
            return []
        return [int(line.split()[1]) * 1024 / MIB for line in lines if line.startswith("VmRSS")]

    def add_counters(self) -> None:
        """Take the counters of this incarnation into the sums; to be called once, before it ends."""
        for name, count in counters_told(lambda: self.get("/metrics")).items():
            self.counters[name] += count


def counters_told(ask: Callable[[], tuple[int, Any]]) -> dict[str, int]:
    """The counters that a report shows; none when a server that is asked (status, text) tells nothing in a few tries."""
    for _ in range(METRICS_TRIES):
        status, text = ask()
        if status == 200:
            return counters_of(text)
    return {}


def counters_of(metrics: str) -> dict[str, int]:
    """The counters that a report shows, out of the Prometheus text of one server."""
    return {name: int(_value_of(f"{name}_total", metrics) or 0) for name in COUNTERS}


def cached_mib_of(metrics: str) -> float | None:
    """What the caches of one server hold, which have budgets of their own. None: it does not say so, as while it starts."""
    sizes = [_value_of(name, metrics) for name in CACHES]
    found = [size for size in sizes if size is not None]
    return sum(found) / MIB if len(found) == len(sizes) else None


def _value_of(name: str, metrics: str) -> float | None:
    """None: there is no such metric."""
    line = re.search(rf"^{name} ([0-9.e+]+)$", metrics, re.MULTILINE)
    return float(line[1]) if line else None
