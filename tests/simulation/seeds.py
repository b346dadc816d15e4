"""One seed: a history of owners against each other, then whole servers under clients, then a cluster of nodes."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable

from tests.simulation.cluster import Cluster
from tests.simulation.outcome import Outcome
from tests.simulation.owners import Owners
from tests.simulation.servers import Servers

History = Owners | Servers | Cluster
HISTORIES: dict[str, Callable[[int], History]] = {"owners": Owners, "servers": Servers, "cluster": Cluster}


def run_seed(seed: int, names: tuple[str, ...] = ()) -> Outcome:
    """Ends with the first history that breaks a rule; a deadlock or an endless wait is one too.

    `names`: default: all, but the cluster, which costs as much as the others together, with even seeds only.
    """
    total = Outcome(seed)
    for name in names or [name for name in HISTORIES if name != "cluster" or seed % 2 == 0]:
        outcome = _run(HISTORIES[name](seed))
        for count in Outcome.__slots__:
            if count not in ("seed", "violation"):
                setattr(total, count, getattr(total, count) + getattr(outcome, count))
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
    outcome.acknowledged_batches, outcome.commits = seen.acknowledged_batches, seen.commits
    outcome.records, outcome.shortages = len(seen.acknowledged), seen.shortages
    outcome.simulated_s, outcome.callbacks = loop.time(), loop.callback_count
    return outcome
