"""A job is stopped by signals, and not by the thread that waits for it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from bmq.spark.tables.stop_signals import receive_interrupts, stop_at_signals

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_main_thread_is_not_the_one_that_stops(number: signal.Signals) -> None:
    """It waits for the JVM then, on the one connection that it has."""
    stopped_by: list[threading.Thread] = []
    is_stopped = threading.Event()

    def stop() -> None:
        stopped_by.append(threading.current_thread())
        is_stopped.set()

    stop_at_signals(stop)
    os.kill(os.getpid(), number)
    assert is_stopped.wait(20)
    assert stopped_by != [threading.main_thread()]


def test_a_job_whose_parent_ignored_ctrl_c_is_interrupted() -> None:
    """As a shell starts a command in background: Python then installs no handler."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    receive_interrupts()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_another_handler_stays() -> None:
    def handler(*_: object) -> None: ...

    signal.signal(signal.SIGINT, handler)
    receive_interrupts()
    assert signal.getsignal(signal.SIGINT) is handler
