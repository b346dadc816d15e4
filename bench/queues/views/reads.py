"""Reads of a backlog: the whole topic, a view of 1 % by its first reader and the next one, and a view of everything."""

from __future__ import annotations

from typing import Any, Final

from bench.cluster.admin import Connection
from bench.groups.target import Target
from bench.queues.views.criteria import ALL, BASE, FIRST, NEXT
from bench.queues.views.tagged import ONE_IN, batch_of, make_base, make_view, produce, read

BATCH_RECORDS: Final = 500
TOPIC: Final = "tagged"


def fill(target: Target, records: int) -> int:
    """Make the topic; how many records it has. Raises AdminFailed."""
    make_base(target.addresses, TOPIC)
    batches = -(-records // BATCH_RECORDS)
    with Connection(target.addresses[0]) as connection:
        produce(connection, TOPIC, [batch_of(0, BATCH_RECORDS)] * batches)
    return batches * BATCH_RECORDS


def measure(target: Target, records: int, number: int, pair: dict[str, Any]) -> None:
    """One pair: its views are new, so nothing of them is remembered. Raises LoadFailed, AdminFailed."""
    sparse, every = f"sparse-{number}", f"every-{number}"
    make_view(target.addresses, sparse, TOPIC, "tag = 'a'")
    make_view(target.addresses, every, TOPIC, "tag IN ('a', 'b')")
    wanted = {
        BASE: (TOPIC, records),
        FIRST: (sparse, records // ONE_IN),
        NEXT: (sparse, records // ONE_IN),
        ALL: (every, records),
    }
    order = [BASE, FIRST, NEXT, ALL] if number % 2 == 0 else [ALL, FIRST, NEXT, BASE]
    if not number:
        read(target.bootstrap, TOPIC, records)  # the files come into the page cache
    for name in order:
        topic, count = wanted[name]
        pair[name] = read(target.bootstrap, topic, count)
