"""Starts Spark's JVM so that Ctrl-C leaves no JVM behind.

pyspark's JVM ends with its parent only once it has reported its port. Until then it ignores Ctrl-C. If pyspark is interrupted
meanwhile, the JVM cannot report its port, and never ends.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from bmq.spark.source.driver_login import share_login


def start_session(name: str, settings: Mapping[str, str]) -> SparkSession:
    """A new session with these settings, or the present one. Raises pyspark's errors, KeyboardInterrupt."""
    conf = SparkConf().setAppName(name).setAll(list(settings.items()))
    with deferred_interrupt():
        SparkContext._ensure_initialized(conf=conf)
    with remembered_interrupt():
        session = SparkSession.builder.config(conf=conf).getOrCreate()
    share_login(session)
    return session


@contextmanager
def deferred_interrupt() -> Iterator[None]:
    """Delays Ctrl-C to the end of the block; a second one takes effect at once. Only in the main thread, as for all Python
    signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:
        yield
        return
    is_interrupted = False

    def defer(number: int, frame: FrameType | None) -> None:
        nonlocal is_interrupted
        if is_interrupted:
            signal.default_int_handler(number, frame)
        is_interrupted = True

    signal.signal(signal.SIGINT, defer)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if is_interrupted:
            raise KeyboardInterrupt


@contextmanager
def remembered_interrupt() -> Iterator[None]:
    """Ctrl-C takes effect at once, and again at the end of the block. Only in the main thread.

    Its exception can be raised where it is dropped: Python ignores what a finalizer raises, and pyspark has an
    `except BaseException`. A handler that the block installs stays.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    is_interrupted = False

    def remember(number: int, frame: FrameType | None) -> None:
        nonlocal is_interrupted
        is_interrupted = True
        before(number, frame)

    signal.signal(signal.SIGINT, remember)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is remember:
            signal.signal(signal.SIGINT, before)
        if is_interrupted:
            raise KeyboardInterrupt
