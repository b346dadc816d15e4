"""Batches are written at once while little comes in, and together when much does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from bmq.broker.append_batcher import BUSY_GAP_S_MAX, BUSY_TURN_BYTES_MIN, AppendBatcher

pytestmark = pytest.mark.unit


class Recorder(asyncio.AbstractEventLoop):
    """Keeps what is scheduled; the test is the clock and runs turn after turn."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.scheduled: list[Callable[[], object]] = []

    def time(self) -> float:
        return self.now_s

    def call_soon(self, callback: Callable[..., object], *args: object, context: object = None) -> None:  # type: ignore[override]
        self.scheduled.append(partial(callback, *args))

    def turn(self) -> None:
        due, self.scheduled = self.scheduled, []
        for callback in due:
            callback()


def test_what_one_turn_queued_is_written_in_the_next() -> None:
    loop, written = Recorder(), []  # type: ignore[abstract,var-annotated]
    turns = AppendBatcher(loop)
    for name in ("a", "b"):
        turns.took(1000)
        turns.schedule(partial(written.append, name))
    assert len(loop.scheduled) == 1
    loop.turn()
    assert written == ["a", "b"]


def busy(loop: Recorder, turns: AppendBatcher) -> None:
    turns.took(BUSY_TURN_BYTES_MIN)
    turns.schedule(lambda: None)
    loop.turn()


def test_after_a_busy_turn_what_comes_in_the_next_one_is_taken_along() -> None:
    loop, written = Recorder(), []  # type: ignore[abstract]
    turns = AppendBatcher(loop)
    busy(loop, turns)
    turns.took(10)
    turns.schedule(lambda: written.append("first"))
    loop.turn()
    assert written == []
    turns.schedule(lambda: written.append("along"))
    loop.turn()
    assert written == ["first", "along"]
    turns.schedule(lambda: written.append("later"))
    loop.turn()
    assert written == ["first", "along", "later"]  # that turn was not busy


def test_after_a_pause_nothing_waits() -> None:
    loop, written = Recorder(), []  # type: ignore[abstract]
    turns = AppendBatcher(loop)
    busy(loop, turns)
    loop.now_s += BUSY_GAP_S_MAX
    turns.schedule(lambda: written.append("now"))
    loop.turn()
    assert written == ["now"]


def test_what_is_scheduled_while_writing_comes_in_a_turn_of_its_own() -> None:
    loop, written = Recorder(), []  # type: ignore[abstract]
    turns = AppendBatcher(loop)
    turns.schedule(lambda: turns.schedule(lambda: written.append("later")))
    loop.turn()
    assert written == []
    loop.turn()
    assert written == ["later"]
