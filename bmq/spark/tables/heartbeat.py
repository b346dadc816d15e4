"""Calls a function at an interval in a thread, for as long as a block runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def heartbeat(beat: Callable[[], object], every_s: float) -> Iterator[None]:
    """Call `beat` at once and then every `every_s` seconds, until the block ends. Waits for the last call."""
    has_ended = threading.Event()

    def run() -> None:
        beat()
        while not has_ended.wait(every_s):
            beat()

    thread = threading.Thread(target=run, name="bmq-table-heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        has_ended.set()
        thread.join()
