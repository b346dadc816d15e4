"""Reads all segments of a topic and verifies them, alternately, in one process without Spark.

    python -m bench.spark.decode_job STORE TOPIC ROUNDS

Both use the same function of the same store, piece by piece, with HDFS's checksums on; verifying is what an executor
runs per segment in `bmq spark verify --no-replicas`. A first round warms both up. Prints one line of JSON: a list of
rounds, {"read": {"bytes": B, "seconds": S, "cpu_s": C}, "verify": {…}}; `cpu_s` is of this process only.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from bmq.log.store import SegmentStore
from bmq.spark.jobs.stored_segments import PIECE_BYTES, SegmentTask, all_segments, read_anywhere
from bmq.spark.jobs.stores import StoreAddress
from bmq.spark.jobs.verify import check_segment

Pass = Callable[[StoreAddress, SegmentTask], int]
"""Processes a segment; returns how many bytes of it."""


class NotVerified(Exception):
    """A segment has findings, so the measurement is not representative."""


def read(store: StoreAddress, task: SegmentTask) -> int:
    async def pieces(opened: SegmentStore) -> int:
        size_bytes = 0
        for at in range(0, task.valid_bytes, PIECE_BYTES):
            length_bytes = min(PIECE_BYTES, task.valid_bytes - at)
            size_bytes += len(await read_anywhere(opened, task, at, length_bytes))
        return size_bytes

    return store.run(pieces)


def verify(store: StoreAddress, task: SegmentTask) -> int:
    """Raises NotVerified."""
    found = check_segment(store, task, has_replicas=False)
    if found["finding_count"] or found["is_gone"]:
        raise NotVerified(f"{task.path}: {found['findings']}")
    return int(found["bytes"])


def measured(one: Pass, store: StoreAddress, tasks: Sequence[SegmentTask]) -> dict[str, Any]:
    began, cpu_began_s = time.monotonic(), time.process_time()
    size_bytes = sum(one(store, task) for task in tasks)
    seconds, cpu_s = time.monotonic() - began, time.process_time() - cpu_began_s
    return {"bytes": size_bytes, "seconds": round(seconds, 4), "cpu_s": round(cpu_s, 4)}


def main() -> None:
    store, topic, rounds = StoreAddress(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    tasks = all_segments(store, [topic])
    passes: list[tuple[str, Pass]] = [("read", read), ("verify", verify)]
    found = [
        {name: measured(one, store, tasks) for name, one in passes[:: 1 if number % 2 == 0 else -1]}
        for number in range(rounds + 1)
    ]
    print(json.dumps(found[1:]))


if __name__ == "__main__":
    main()
