"""A partition moves to another broker while it is written to: how long its producer waits, and what is copied for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from bench.cluster.admin import AdminFailed, create_topic, create_topics_request, reassign, wait_for_leaders
from bench.cluster.sides import Side, wait_for_owner
from bench.cluster.steady import SteadyLoad

Stored = Callable[[], Mapping[str, int]]
"""What lies on the servers' disks now: bytes by file."""

MIB: Final = 1024 * 1024
SIZES: Final = {"10mib": 10 * MIB, "1gib": 1024 * MIB, "5gib": 5 * 1024 * MIB}
TOPIC: Final = "moving"
RATE: Final = 100.0
RECORD_BYTES: Final = 100
FILL_RECORD_BYTES: Final = 64 * 1024
CALM_S: Final = 1.0
WATCH_S: Final = 1.0
MOVE_WAIT_S: Final = 120.0
BOOKKEEPING_BYTES: Final = 64 * 1024
"""What a move may write for itself on each replica (owner, manifest, index, a record of the metadata log): no data."""


def prepare(side: Side) -> None:
    """One partition of one replica, so that a reassignment leaves nothing where it was."""
    create_topic(side.addresses, create_topics_request(TOPIC, 0, 0, assignments={0: side.broker_ids[:1]}))
    wait_for_leaders(side.addresses, TOPIC, 1)


def move_under_load(side: Side, count: int, stored: Stored) -> list[dict[str, Any]]:
    """Move it `count` times, each time to the next broker; the gap at its producer around each move."""
    found = []
    with SteadyLoad(side.bootstrap, TOPIC, 1, RATE, RECORD_BYTES) as load:
        for _ in range(count):
            load.wait_until_flowing()
            time.sleep(CALM_S)
            source = side.owners(TOPIC)[0]
            target = next_broker(side.broker_ids, source)
            before = stored()
            calm = load.seen.gaps(time.monotonic() - CALM_S, time.monotonic())["gap_s"]
            began = time.monotonic()
            reassign(side.live_addresses, TOPIC, 0, [target])
            answered = time.monotonic()
            moved_s = answered - began + wait_for_owner(side, TOPIC, 0, target, MOVE_WAIT_S)
            load.wait_until_flowing()
            time.sleep(WATCH_S)
            ended = time.monotonic()
            found.append(
                {
                    "from": source,
                    "to": target,
                    "answered_s": round(answered - began, 4),
                    "moved_s": round(moved_s, 4),
                    "calm_gap_s": calm,
                    **load.seen.gaps(began, ended),
                    "written_bytes": written_bytes(before, stored()),
                    "load_bytes": round(RATE * RECORD_BYTES * (ended - began)),
                }
            )
        load.finish()
        if load.failed:
            raise AdminFailed(f"{len(load.failed)} records were refused while the partition moved: {load.failed[:3]}")
    return found


def move_in_peace(side: Side, count: int, stored: Stored, replicas: int) -> list[dict[str, Any]]:
    """Move it while nobody writes: what is written then is written for the move. Raises AdminFailed."""
    found = []
    for _ in range(count):
        target = next_broker(side.broker_ids, side.owners(TOPIC)[0])
        before = stored()
        reassign(side.live_addresses, TOPIC, 0, [target])
        wait_for_owner(side, TOPIC, 0, target, MOVE_WAIT_S)
        time.sleep(WATCH_S)
        written = written_bytes(before, stored())
        found.append({"written_bytes": written, "copied_bytes": copied(written, replicas)})
    return found


def written_bytes(before: Mapping[str, int], after: Mapping[str, int]) -> int:
    """What was added to files, and what new files hold; what is gone meanwhile counts for nothing."""
    return sum(max(0, size_bytes - before.get(name, 0)) for name, size_bytes in after.items())


def copied(written_bytes: int, replicas: int) -> int:
    """What was written beyond a move's own bookkeeping."""
    return max(0, written_bytes - BOOKKEEPING_BYTES * replicas)


def next_broker(broker_ids: Sequence[int], node_id: int) -> int:
    """The one behind it, in a ring."""
    return broker_ids[(list(broker_ids).index(node_id) + 1) % len(broker_ids)]
