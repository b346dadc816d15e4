"""CPU of the owner while records come at a fixed rate: without readers, and with readers of a view at the end of the log."""

from __future__ import annotations

import threading
import time
from typing import Any, Final

import psutil

from bench.cluster.admin import Connection
from bench.groups.target import Target
from bench.queues.views.tagged import ONE_IN, Reader, batch_of, make_base, make_view, produce

BATCH_RECORDS: Final = 100
BATCHES_PER_S: Final = 50
READERS: Final = 10


def measure(target: Target, seconds: float, number: int) -> dict[str, Any]:
    """One round. Raises LoadFailed, AdminFailed."""
    base, view = f"tail-{number}", f"tail-view-{number}"
    make_base(target.addresses, base)
    make_view(target.addresses, view, base, "tag = 'a'")
    server = psutil.Process(next(iter(target.processes.values())))
    batch = batch_of(0, BATCH_RECORDS)
    found: dict[str, Any] = {"wrong": 0}
    ends = 0

    def put(topic: str, readers: int) -> float:
        """CPU microseconds of the server for a record, with so many readers of the topic."""
        nonlocal ends
        crowd = [_Following(target.bootstrap, topic, ends) for _ in range(readers)]
        try:
            with Connection(target.addresses[0]) as connection:
                count = max(1, int(seconds * BATCHES_PER_S))
                produce(connection, base, [batch] * 10)
                began = server.cpu_times()
                due_s = time.monotonic()
                for _ in range(count):
                    due_s += 1 / BATCHES_PER_S
                    time.sleep(max(0.0, due_s - time.monotonic()))
                    produce(connection, base, [batch])
                ended = server.cpu_times()
            records = (count + 10) * BATCH_RECORDS
            ends += records
            for one in crowd:
                found["wrong"] += abs(one.finished(records if topic == base else records // ONE_IN))
        finally:
            for one in crowd:
                one.close()
        used_s = ended.user + ended.system - began.user - began.system
        return 1e6 * used_s / (count * BATCH_RECORDS)

    put(base, 0)
    alone_us = put(base, 0)
    found["alone_us"] = alone_us
    for name, topic, readers in (
        ("one_reader_us", view, 1),
        ("ten_readers_us", view, READERS),
        ("plain_reader_us", base, 1),
    ):
        found[name] = put(topic, readers) - alone_us
    return found


class _Following:
    """A reader in a thread of its own."""

    def __init__(self, bootstrap: str, topic: str, offset: int) -> None:
        self._reader = Reader(bootstrap, topic, offset)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def finished(self, wanted: int, wait_s: float = 10.0) -> int:
        """How many records it has more or less than it should, once it has had time for all."""
        give_up_s = time.monotonic() + wait_s
        while self._reader.records < wanted and time.monotonic() < give_up_s:
            time.sleep(0.05)
        return self._reader.records - wanted

    def close(self) -> None:
        self._is_over.set()
        self._thread.join()
        self._reader.close()

    def _follow(self) -> None:
        while not self._is_over.is_set():
            self._reader.poll(0.1)
