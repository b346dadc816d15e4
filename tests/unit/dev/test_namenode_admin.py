"""Orders to a NameNode, against one that answers by a script."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from bmq.dev.namenode_admin import TransitionFailed, become_standby
from bmq.hdfs.proto.namenode_pb2 import TransitionToActiveResponse
from tests.fakes.hadoop_ipc import ReceivedCall, ScriptedServer

pytestmark = [pytest.mark.unit, pytest.mark.timeout(20)]

RETRIABLE = "org.apache.hadoop.ipc.RetriableException"


async def test_a_namenode_that_is_still_starting_is_asked_again() -> None:
    asked = 0

    def ready_at_the_third(call: ReceivedCall) -> None:
        nonlocal asked
        asked += 1
        if asked < 3:
            call.refuse(RETRIABLE, "NameNode still not started")
        else:
            call.answer(TransitionToActiveResponse())

    async with ScriptedServer(ready_at_the_third) as server:
        await become_standby(server.address, 10.0)
    assert asked == 3


class Clock:
    """Moved by the pauses between orders alone, so that no machine is too slow for an order's time."""

    def __init__(self, pause_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
        self._pause_s = pause_s
        self._now_s = 0.0
        monkeypatch.setattr("bmq.dev.namenode_admin.time", SimpleNamespace(monotonic=lambda: self._now_s))
        monkeypatch.setattr("bmq.dev.namenode_admin.asyncio", SimpleNamespace(sleep=self._sleep))

    async def _sleep(self, seconds: float) -> None:
        self._now_s += self._pause_s


async def test_one_that_never_ends_its_start_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(call: ReceivedCall) -> None:
        call.refuse(RETRIABLE, "NameNode still not started")

    Clock(20.0, monkeypatch)
    async with ScriptedServer(never) as server:
        with pytest.raises(TransitionFailed, match="still not started"):
            await become_standby(server.address, 60.0)
        assert len(server.calls) == 4


async def test_one_that_falls_silent_is_named_by_its_last_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def once(call: ReceivedCall) -> None:
        if len(server.calls) == 1:
            call.refuse(RETRIABLE, "NameNode still not started")

    Clock(59.9, monkeypatch)
    async with ScriptedServer(once) as server:
        with pytest.raises(TransitionFailed, match="still not started"):
            await become_standby(server.address, 60.0)
        assert len(server.calls) == 2


async def test_any_other_refusal_is_final() -> None:
    def refuse(call: ReceivedCall) -> None:
        call.refuse("org.apache.hadoop.ha.ServiceFailedException", "it cannot step back")

    async with ScriptedServer(refuse) as server:
        with pytest.raises(TransitionFailed, match="it cannot step back"):
            await become_standby(server.address, 10.0)
        assert len(server.calls) == 1
