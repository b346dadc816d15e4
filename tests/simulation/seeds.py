"""One seed: a history of owners against each other, then whole servers under clients, then a cluster under one kind of clients."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable

from tests.simulation.cluster import Cluster
from tests.simulation.compaction import Compaction
from tests.simulation.consumers import Consumers
from tests.simulation.delays import Delays
from tests.simulation.delegated import Delegated
from tests.simulation.fault_rates import FaultRates
from tests.simulation.halves import Halves
from tests.simulation.lanes import Lanes
from tests.simulation.merging import Merging
from tests.simulation.outcome import Outcome
from tests.simulation.owners import Owners
from tests.simulation.servers import Servers
from tests.simulation.shares import Shares
from tests.simulation.transactions import Transactions
from tests.simulation.views import Views

History = Owners | Servers | Cluster
HISTORIES: dict[str, Callable[[int, FaultRates, bool], History]] = {
    "owners": Owners,
    "servers": Servers,
    "cluster": Cluster,
    "transactions": Transactions,
    "consumers": Consumers,
    "compaction": Compaction,
    "delegated": Delegated,
    "share": Shares,
    "delay": Delays,
    "lanes": Lanes,
    "half": Halves,
    "views": Views,
    "merging": Merging,
}
# Those that cost as much as the others together take turns: (every so many seeds, beginning with which).
TURNS = {
    "cluster": (2, 0),
    "transactions": (4, 1),
    "consumers": (4, 3),
    "compaction": (20, 5),
    "delegated": (40, 15),
    "share": (8, 2),
    "delay": (8, 6),
    "lanes": (8, 4),
    "half": (8, 7),
    "views": (16, 3),
    "merging": (20, 12),
}


def usual_names(seed: int) -> list[str]:
    """The kinds of history of a seed, when none are asked for."""
    return [name for name in HISTORIES if name not in TURNS or seed % TURNS[name][0] == TURNS[name][1]]


def run_seed(
    seed: int, names: tuple[str, ...] = (), rates: FaultRates | None = None, is_looking_inside: bool = True
) -> Outcome:
    """Ends with the first history that breaks a rule; a deadlock or an endless wait is one too.

    `is_looking_inside`: what only the processes themselves know is judged too, not just what clients see.
    `names`: default: owners and servers, and one kind of cluster, which costs as much as both.
    """
    total = Outcome(seed)
    for name in names or usual_names(seed):
        outcome = _run(HISTORIES[name](seed, rates or FaultRates(), is_looking_inside))
        total.add(name, outcome)
        if outcome.violation:
            total.violation = f"({name}) {outcome.violation}"
            break
    return total


def _run(history: History) -> Outcome:
    loop, outcome = history.loop, history.outcome
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(history.run())
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        outcome.violation = f"{type(error).__name__}: {error} [{place.name}:{place.lineno}]"
    finally:
        asyncio.set_event_loop(None)
        loop.discard()
    seen = history.history
    outcome.acknowledged_batches += seen.acknowledged_batches
    outcome.commits += seen.commits
    outcome.records, outcome.shortages = len(seen.acknowledged), seen.shortages
    outcome.plain_batches = seen.plain_batches
    counts = history.store.counts
    outcome.late_calls, outcome.stale_answers = counts.late_calls, counts.stale_answers
    outcome.damaged_reads, outcome.rotten_tails = counts.damaged_reads, counts.rotten_tails
    outcome.committed_files, outcome.raised_appends = counts.committed_files, counts.raised_appends
    outcome.full_appends = counts.full_appends
    outcome.simulated_s, outcome.callbacks = loop.time(), loop.callback_count
    return outcome
