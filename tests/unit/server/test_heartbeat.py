"""What a worker's heartbeat says through a real pipe, also when nobody reads it for a while, or ever again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from multiprocessing import Pipe
from multiprocessing.connection import Connection

import pytest

from bmq.election.zookeeper_wire import SessionKey
from bmq.server.heartbeat import Heartbeat
from bmq.server.worker_messages import BEAT, PASSWORD_BYTES_MAX, session_message

pytestmark = pytest.mark.unit

FIRST, SECOND = SessionKey(1, b"one"), SessionKey(2, b"two")


@pytest.fixture
def pipe() -> Iterator[tuple[Connection, Connection]]:
    supervisor, worker = Pipe(duplex=False)
    yield supervisor, worker
    for end in (supervisor, worker):
        if not end.closed:
            end.close()


def never() -> None:
    raise AssertionError("the supervisor is there")


def waiting(supervisor: Connection) -> list[bytes]:
    found = []
    while supervisor.poll():
        found.append(supervisor.recv_bytes())
    return found


async def test_a_session_is_told_at_once_and_is_no_beat(pipe: tuple[Connection, Connection]) -> None:
    supervisor, worker = pipe
    with closing(Heartbeat(worker, on_alone=never)) as heartbeat:
        heartbeat.send_session(FIRST)
        assert waiting(supervisor) == [session_message(FIRST)]
        heartbeat.start()
        heartbeat.send_session(SECOND)
        assert waiting(supervisor) == [BEAT, session_message(SECOND)]


async def test_a_session_for_which_there_was_no_room_is_told_with_a_later_beat(
    pipe: tuple[Connection, Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bmq.server.heartbeat.BEAT_INTERVAL_S", 0.001)
    supervisor, worker = pipe
    with closing(Heartbeat(worker, on_alone=never)) as heartbeat:
        while True:
            try:
                worker.send_bytes(BEAT)
            except BlockingIOError:
                break
        heartbeat.send_session(FIRST)
        heartbeat.send_session(SECOND)
        heartbeat.start()
        assert set(waiting(supervisor)) == {BEAT}
        told: list[bytes] = []
        while told.count(BEAT) < 3:
            await asyncio.sleep(0.001)
            told += waiting(supervisor)
        assert told[0] == session_message(SECOND) and told[1:] == [BEAT] * (len(told) - 1)


async def test_a_password_that_is_none_of_zookeepers_is_not_told(pipe: tuple[Connection, Connection]) -> None:
    supervisor, worker = pipe
    with closing(Heartbeat(worker, on_alone=never)) as heartbeat:
        heartbeat.send_session(SessionKey(1, b"p" * (PASSWORD_BYTES_MAX + 1)))
        heartbeat.start()
        assert waiting(supervisor) == [BEAT]


async def test_without_a_supervisor_the_next_beat_says_so_once(pipe: tuple[Connection, Connection]) -> None:
    supervisor, worker = pipe
    alone: list[None] = []
    with closing(Heartbeat(worker, on_alone=lambda: alone.append(None))) as heartbeat:
        supervisor.close()
        heartbeat.send_session(FIRST)
        assert not alone
        heartbeat.start()
        assert len(alone) == 1
