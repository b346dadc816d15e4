"""Ctrl-C while Spark's JVM starts waits until the JVM can end."""

from __future__ import annotations

import signal
import threading

import pytest

pytest.importorskip("pyspark")

from bmq.spark.jvm import deferred_interrupt

pytestmark = pytest.mark.unit


def test_an_interrupt_takes_effect_at_the_end() -> None:
    steps = []
    with pytest.raises(KeyboardInterrupt), deferred_interrupt():
        signal.raise_signal(signal.SIGINT)
        steps.append("the JVM has started")
    assert steps
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_one_takes_effect_at_once() -> None:
    with pytest.raises(KeyboardInterrupt), deferred_interrupt():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        pytest.fail("it waits no longer")


def test_an_interrupt_counts_more_than_a_failure() -> None:
    with pytest.raises(KeyboardInterrupt), deferred_interrupt():
        signal.raise_signal(signal.SIGINT)
        raise ValueError("no Java")


def test_without_an_interrupt_nothing_happens() -> None:
    with deferred_interrupt():
        pass
    with pytest.raises(ValueError, match="no Java"), deferred_interrupt():
        raise ValueError("no Java")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_handlers_of_others_and_other_threads_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []

    def handler(*_: object) -> None:
        found.append("theirs")

    before = signal.signal(signal.SIGINT, handler)
    try:
        with deferred_interrupt():
            signal.raise_signal(signal.SIGINT)
            assert found == ["theirs"]
    finally:
        signal.signal(signal.SIGINT, before)

    def elsewhere() -> None:
        with deferred_interrupt():
            found.append("ran")

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert found == ["theirs", "ran"]
