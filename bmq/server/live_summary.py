"""Shows a few lines about the server on a terminal, updated once a second. Shows nothing without a terminal."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from bmq.dataclass import dataclass
from bmq.proxy.stats import ProxyStats

if TYPE_CHECKING:  # rich is imported only for a terminal, so that a server without one starts sooner
    from rich.live import Live
    from rich.table import Table

_INTERVAL_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Summary:
    """Totals since the start; the display shows their rates."""

    connections: int
    requests: int
    received_bytes: int
    sent_bytes: int
    topics: int
    partition_states: Mapping[str, int]

    @classmethod
    def of(cls, stats: ProxyStats, topics: int, partition_states: Mapping[str, int]) -> Summary:
        return cls(
            connections=stats.connections,
            requests=stats.requests.total(),
            received_bytes=stats.received_bytes,
            sent_bytes=stats.sent_bytes,
            topics=topics,
            partition_states=partition_states,
        )


class SummarySource(Protocol):
    def summary(self) -> Summary: ...


@contextlib.contextmanager
def live_summary(source: SummarySource) -> Iterator[None]:
    """While inside, keep the summary on the terminal current."""
    if not sys.stdout.isatty():
        yield
        return
    from rich.live import Live

    with Live(render(source.summary(), source.summary(), _INTERVAL_S), auto_refresh=False) as live:
        task = asyncio.get_running_loop().create_task(_refresh(live, source))
        try:
            yield
        finally:
            task.cancel()


async def _refresh(live: Live, source: SummarySource) -> None:
    loop = asyncio.get_running_loop()
    before, then = source.summary(), loop.time()
    while True:
        await asyncio.sleep(_INTERVAL_S)
        now, time = source.summary(), loop.time()
        live.update(render(before, now, time - then), refresh=True)
        before, then = now, time


def render(before: Summary, now: Summary, elapsed_s: float) -> Table:
    """The table shown; rates are between the two summaries."""
    from rich.table import Table

    table = Table("in MB/s", "out MB/s", "requests/s", "connections", "topics", "partitions", box=None)
    states = ", ".join(f"{count} {state}" for state, count in sorted(now.partition_states.items()) if count)
    table.add_row(
        f"{(now.received_bytes - before.received_bytes) / elapsed_s / 1e6:.1f}",
        f"{(now.sent_bytes - before.sent_bytes) / elapsed_s / 1e6:.1f}",
        f"{(now.requests - before.requests) / elapsed_s:.0f}",
        str(now.connections),
        str(now.topics),
        states or "none yet",
    )
    return table
