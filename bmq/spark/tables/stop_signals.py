"""SIGTERM and Ctrl-C end a job between two commits."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable


def stop_at_signals(stop: Callable[[], object]) -> None:
    """Call `stop` when either comes, in a thread of its own.

    Handlers run in the main thread, which waits for an answer of the JVM then: its connection takes no second question.
    """

    def on_signal(*_: object) -> None:
        threading.Thread(target=stop, name="stop", daemon=True).start()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
