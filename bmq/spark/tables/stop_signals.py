"""Lets SIGTERM and Ctrl-C end a job between two commits."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable


def stop_at_signals(stop: Callable[[], object]) -> None:
    """Call `stop` on either signal, in a separate thread.

    Handlers run in the main thread, which is waiting for an answer of the JVM: that connection takes no second request.
    """

    def on_signal(*_: object) -> None:
        threading.Thread(target=stop, name="stop", daemon=True).start()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)


def receive_interrupts() -> None:
    """Let Ctrl-C interrupt this process though its parent ignored it, as a shell does for a command in background.

    Python installs no handler for a signal that is ignored when it starts.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
