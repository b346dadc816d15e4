"""A call is made again after errors that may pass, and after no others."""

from __future__ import annotations

import pytest

from bmq.aio.retries import until_done
from tests.simulation.loop import VirtualTimeLoop

pytestmark = pytest.mark.unit


class Away(Exception):
    """May pass."""


class Calls:
    """Each takes a second and fails with the next error; without one left it succeeds."""

    def __init__(self, loop: VirtualTimeLoop, *errors: Exception) -> None:
        self.loop = loop
        self.errors = list(errors)
        self.at_s: list[float] = []

    async def __call__(self) -> str:
        self.at_s.append(self.loop.time())
        waited = self.loop.create_future()
        self.loop.call_later(1.0, waited.set_result, None)
        await waited
        if self.errors:
            raise self.errors.pop(0)
        return "done"


def test_each_pause_is_the_one_that_is_named() -> None:
    loop = VirtualTimeLoop()
    calls = Calls(loop, Away("first"), Away("second"))
    asked: list[tuple[str, float]] = []
    pauses_s = iter([2.0, 0.0])

    def pause_s(error: Away, took_s: float) -> float:
        asked.append((str(error), took_s))
        return next(pauses_s)

    begun_s = loop.time()
    assert loop.run_until_complete(until_done(calls, Away, pause_s)) == "done"
    assert asked == [("first", 1.0), ("second", 1.0)]
    assert [at_s - begun_s for at_s in calls.at_s] == [0.0, 3.0, 4.0]
    loop.close()


def test_an_error_without_a_pause_is_raised() -> None:
    loop = VirtualTimeLoop()
    error = Away("for good")
    calls = Calls(loop, Away("once"), error)
    with pytest.raises(Away) as raised:
        loop.run_until_complete(
            until_done(calls, Away, lambda error, _took_s: None if str(error) == "for good" else 1.0)
        )
    assert raised.value is error and len(calls.at_s) == 2
    loop.close()


def test_an_error_of_another_type_is_raised_at_once() -> None:
    loop = VirtualTimeLoop()
    calls = Calls(loop, ValueError("a bug"))
    with pytest.raises(ValueError, match="a bug"):
        loop.run_until_complete(until_done(calls, Away, lambda _error, _took_s: 1.0))
    assert len(calls.at_s) == 1
    loop.close()
