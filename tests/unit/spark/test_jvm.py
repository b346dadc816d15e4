"""Ctrl-C while Spark's JVM starts waits until the JVM can end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

pytest.importorskip("pyspark")

from bmq.spark.jvm import deferred_interrupt, remembered_interrupt, start_session

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def interrupts_arrive() -> Iterator[None]:
    """Also where the tests were started with SIGINT ignored, as a shell does with what it starts in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


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


def swallow_an_interrupt(*_: object, **__: object) -> None:
    class Finalized:
        def __del__(self) -> None:
            try:
                signal.raise_signal(signal.SIGINT)
            except BaseException:
                pass

    Finalized()


def test_an_interrupt_that_the_start_of_a_session_swallows_takes_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.SparkContext._ensure_initialized", lambda **_: None)
    monkeypatch.setattr("pyspark.SparkConf.__init__", lambda *_: None)
    monkeypatch.setattr("pyspark.SparkConf.setAppName", lambda conf, _: conf)
    monkeypatch.setattr("pyspark.SparkConf.setAll", lambda conf, _: conf)
    monkeypatch.setattr("pyspark.sql.SparkSession.Builder.config", lambda builder, **_: builder)
    monkeypatch.setattr("pyspark.sql.SparkSession.Builder.getOrCreate", swallow_an_interrupt)
    with pytest.raises(KeyboardInterrupt):
        start_session("a job", {})
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_that_the_block_installs_stays() -> None:
    def handler(*_: object) -> None: ...

    before = signal.getsignal(signal.SIGINT)
    try:
        with remembered_interrupt():
            signal.signal(signal.SIGINT, handler)
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)
