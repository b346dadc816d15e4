"""The gRPC door over a real server: one request or a stream, refusals as statuses or answers, bounds of bytes and time."""

from __future__ import annotations

import ast
import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from bmq.databus.doors import grpc_door
from bmq.databus.doors.grpc_calls import GrpcCalls, TooManyCalls
from bmq.databus.doors.grpc_door import PUSHBACK, GrpcDoor, _Late
from bmq.databus.doors.unix_path import SocketUnusable
from bmq.databus.settings import AgentSettings
from bmq.databus.v1 import databus_pb2 as databus
from tests.fakes.loop_time import LoopTime
from tests.support.waiting import until
from tests.unit.databus.agents import Agent, channel, channels

pytestmark = pytest.mark.unit

SERVICE = "/bmq.databus.v1.Databus/"
ANSWER_S = 30.0
"""Only a test that fails waits so long."""


class Served:
    """The door on a free port, an agent behind it and a client."""

    def __init__(self, directory: Path, **more: Any) -> None:
        self.agent = Agent(
            directory / "spool",
            channel(max_record_bytes=100),
            channel("slow", rate_limit_records_per_s=1),
            channel("off", enabled=False),
        )
        given = {"agent_id": "a", "frame_bytes_max": 2_000, "grpc": "127.0.0.1:0", **more}
        self.door = GrpcDoor(self.agent.intake, AgentSettings.model_validate(given))
        self.address = ""
        self.channel: Any = None

    async def open(self) -> None:
        self.address = await self.door.open()
        self.channel = grpc.aio.insecure_channel(self.address)

    async def close(self) -> None:
        await self.channel.close()
        await self.door.close()

    async def produce(self, request: databus.ProduceRequest, metadata: Any = ()) -> databus.ProduceResponse:
        call = self.channel.unary_unary(
            f"{SERVICE}Produce", databus.ProduceRequest.SerializeToString, databus.ProduceResponse.FromString
        )
        return await call(request, timeout=ANSWER_S, metadata=metadata)

    def stream(self, metadata: Any = ()) -> Any:
        open_stream = self.channel.stream_stream(
            f"{SERVICE}ProduceStream", databus.ProduceRequest.SerializeToString, databus.ProduceResponse.FromString
        )
        return open_stream(timeout=ANSWER_S, metadata=metadata)

    async def refusal(self, request: databus.ProduceRequest, metadata: Any = ()) -> tuple[str, str, dict[str, Any]]:
        """The status, its sentence and the trailing metadata."""
        with pytest.raises(grpc.aio.AioRpcError) as found:
            await self.produce(request, metadata)
        error = found.value
        return error.code().name, error.details() or "", dict(error.trailing_metadata() or ())


@contextlib.asynccontextmanager
async def serving(directory: Path, **more: Any) -> AsyncIterator[Served]:
    served = Served(directory, **more)
    await served.open()
    try:
        yield served
    finally:
        await served.close()


def request(*values: bytes, name: str = "c") -> databus.ProduceRequest:
    return databus.ProduceRequest(channel=name, records=[databus.Record(value=value) for value in values])


async def test_one_request_with_keys_and_headers(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        first = databus.Record(key=b"k", value=b"\x00\xff", headers=[databus.Header(name="n")], timestamp_ms=5)
        response = await served.produce(databus.ProduceRequest(channel="c", records=[first, databus.Record()]))
        assert (response.code, response.accepted) == (databus.CODE_ACCEPTED, 2)
        assert (response.first_number, response.last_number) == (1_000, 1_001)
        one, other = served.agent.records()
        assert (one.key, one.value, one.headers, one.timestamp_ms) == (b"k", b"\x00\xff", [("n", None)], 5)
        assert (other.key, other.value, other.headers) == (None, None, [])


async def test_a_stream_is_answered_in_order_and_goes_on_behind_refusals(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        stream = served.stream()
        sent = [request(b"1"), request(b"2", name="none"), request(), request(b"3", b"4"), request(b"x" * 101)]
        for one in sent:
            await stream.write(one)
        await stream.done_writing()
        answers = [answer async for answer in stream]
        assert [databus.Code.Name(answer.code) for answer in answers] == [
            "CODE_ACCEPTED", "CODE_UNKNOWN_CHANNEL", "CODE_BAD_REQUEST", "CODE_ACCEPTED", "CODE_RECORD_TOO_LARGE"
        ]  # fmt: skip
        assert answers[1].message == "there is no channel 'none' in version 1"
        assert not answers[1].HasField("first_number")
        assert (answers[3].first_number, answers[3].last_number) == (1_001, 1_002)
        assert await stream.code() is grpc.StatusCode.OK
        assert served.agent.values() == [b"1", b"3", b"4"]


@pytest.mark.parametrize(
    ("given", "status", "sentence", "code"),
    [
        (request(b"x", name="none"), "NOT_FOUND", "there is no channel 'none'", "UNKNOWN_CHANNEL"),
        (request(b"x", name="off"), "FAILED_PRECONDITION", "the channel off is disabled", "CHANNEL_DISABLED"),
        (request(b"1", b"x" * 101), "INVALID_ARGUMENT", "record 2: the record has 101 bytes", "RECORD_TOO_LARGE"),
        (request(), "INVALID_ARGUMENT", "the request has no record", "BAD_REQUEST"),
        (
            databus.ProduceRequest(channel="c", records=[databus.Record(timestamp_ms=-2)]),
            "INVALID_ARGUMENT", "record 1 has the time -2 ms", "BAD_REQUEST",
        ),
    ],
)  # fmt: skip
async def test_what_is_wrong_has_a_status_and_takes_nothing(
    tmp_path: Path, given: databus.ProduceRequest, status: str, sentence: str, code: str
) -> None:
    async with serving(tmp_path) as served:
        found, why, trailing = await served.refusal(given)
        assert found == status
        assert why.startswith(sentence)
        assert trailing.get("databus-code", "") == code
        assert PUSHBACK not in trailing
        assert served.agent.records() == []


async def test_too_many_headers_are_a_bad_request(tmp_path: Path) -> None:
    async with serving(tmp_path, frame_bytes_max=10_000) as served:
        headers = [databus.Header()] * 1_001
        given = databus.ProduceRequest(channel="c", records=[databus.Record(headers=headers)])
        found = await served.refusal(given)
        assert found[:2] == ("INVALID_ARGUMENT", "record 1: a record has 1001 headers, 1000 are allowed")


async def test_bytes_that_are_no_request_end_the_call_alone(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        call = served.channel.unary_unary(f"{SERVICE}Produce")
        with pytest.raises(grpc.aio.AioRpcError):
            await call(b"\xff\xff", timeout=ANSWER_S)
        assert (await served.produce(request(b"1"))).accepted == 1


async def test_back_pressure_is_an_answer_with_a_time(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        assert (await served.produce(request(b"1", name="slow"))).accepted == 1
        status, sentence, trailing = await served.refusal(request(b"2", name="slow"))
        assert (status, sentence) == ("RESOURCE_EXHAUSTED", "the channel slow is at its rate limit")
        assert trailing["databus-code"] == "RETRY"
        assert 0 < int(trailing[PUSHBACK]) <= 1_000
        stream = served.stream()
        await stream.write(request(b"3", name="slow"))
        answer = await stream.read()
        assert (answer.code, 0 < answer.retry_after_ms <= 1_000) == (databus.CODE_RETRY, True)
        await stream.write(request(b"4"))
        assert (await stream.read()).accepted == 1
        await stream.done_writing()
        assert await stream.code() is grpc.StatusCode.OK
        counts = served.agent.intake.counts["slow"]
        assert (counts.accepted_records, sum(counts.refused.values())) == (1, 2)


async def test_dropped_records_are_no_failure(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        served.agent.intake.use(channels(channel(spool_full="drop_newest")))
        served.agent.budget.bytes_max = 10
        response = await served.produce(request(b"1", b"2"))
        assert (response.code, response.dropped, response.accepted) == (databus.CODE_DROPPED, 2, 0)


async def test_an_agent_that_stops_says_when_to_come_again(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        served.agent.intake.is_stopping = True
        status, sentence, trailing = await served.refusal(request(b"1"))
        assert (status, sentence, int(trailing[PUSHBACK]) > 0) == ("RESOURCE_EXHAUSTED", "the agent is stopping", True)


async def test_a_token_is_demanded_before_the_request_is_read(tmp_path: Path) -> None:
    token_file = tmp_path / "token"
    token_file.write_text("right\n")
    token_file.chmod(0o600)
    async with serving(tmp_path, grpc_token_file=str(token_file)) as served:
        for metadata, sentence in (
            ((), "the agent demands a bearer token"),
            ((("authorization", "Bearer wrong"),), "the bearer token is wrong"),
        ):
            assert (await served.refusal(request(b"1"), metadata))[:2] == ("UNAUTHENTICATED", sentence)
            assert await served.stream(metadata).code() is grpc.StatusCode.UNAUTHENTICATED
        assert (await served.produce(request(b"1"), (("authorization", "Bearer right"),))).accepted == 1
        token_file.chmod(0o644)
        refused = await served.refusal(request(b"1"), (("authorization", "Bearer right"),))
        assert refused[0] == "UNAUTHENTICATED"
        assert "right" not in refused[1]


async def test_a_request_that_is_too_long_is_refused_by_grpc(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        status, _, trailing = await served.refusal(request(b"x" * 2_001))
        assert (status, PUSHBACK in trailing) == ("RESOURCE_EXHAUSTED", False)
        assert served.agent.records() == []


async def test_a_client_that_sends_half_and_stays_is_ended(tmp_path: Path) -> None:
    """A unary call whose request does not come: a stream-unary client that sends nothing looks the same on the wire."""
    async with serving(tmp_path, frame_timeout_s=5, grpc_idle_timeout_s=7) as served:
        calls = served.door.calls
        start = served.channel.stream_unary(
            f"{SERVICE}Produce", databus.ProduceRequest.SerializeToString, databus.ProduceResponse.FromString
        )
        with LoopTime.stopped() as loop_time:
            half = start(timeout=ANSWER_S)
            await until(lambda: calls.open_calls == 1)
            await loop_time.pass_s(5)
            await until(lambda: calls.ended_late == 1)
        assert await half.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert await half.details() == "the rest of the request did not come in 5 s"
        with LoopTime.stopped() as loop_time:
            idle = served.stream()
            await idle.write(request(b"1"))
            assert (await idle.read()).accepted == 1
            await loop_time.pass_s(7)
            await until(lambda: calls.ended_late == 2)
        assert await idle.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert await idle.details() == "a whole request did not come in 7 s"
        await until(lambda: calls.open_calls == 0)


async def test_a_call_past_the_limit_is_told_when_to_come_again(tmp_path: Path) -> None:
    async with serving(tmp_path, grpc_calls_max=1) as served:
        stream = served.stream()
        await stream.write(request(b"1"))
        assert (await stream.read()).accepted == 1
        status, sentence, trailing = await served.refusal(request(b"2"))
        assert (status, sentence) == ("RESOURCE_EXHAUSTED", "the agent has 1 calls open, which is its limit")
        assert trailing[PUSHBACK] == "1000"
        await stream.done_writing()
        assert await stream.code() is grpc.StatusCode.OK
        assert (await served.produce(request(b"3"))).accepted == 1
        assert served.door.calls.refused_calls == 1


class TakesNothing:
    """The context of a call whose client takes no answer."""

    async def write(self, _: Any) -> None:
        await asyncio.Event().wait()


async def test_a_client_that_takes_no_answers_is_late(tmp_path: Path) -> None:
    async with serving(tmp_path, frame_timeout_s=0.05) as served:
        with pytest.raises(_Late, match="the client took no answer for"):
            await served.door._write(TakesNothing(), databus.ProduceResponse())


async def test_a_client_that_goes_away_leaves_nothing_open(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        stream = served.stream()
        await stream.write(request(b"1"))
        await stream.read()
        stream.cancel()
        async with asyncio.timeout(ANSWER_S):
            while served.door.calls.open_calls:  # noqa: ASYNC110 the server tells nobody
                await asyncio.sleep(0)
        assert served.agent.values() == [b"1"]


async def test_a_unix_socket_has_the_mode_that_is_set(tmp_path: Path) -> None:
    path = tmp_path / "run" / "g"
    async with serving(tmp_path, grpc=f"unix:{path}", socket_mode="0600") as served:
        assert path.stat().st_mode & 0o777 == 0o600
        assert (await served.produce(request(b"1"))).accepted == 1
        assert [one.name for one in path.parent.iterdir()] == ["g"]
        other = Served(tmp_path / "other", grpc=f"unix:{path}")
        with pytest.raises(SocketUnusable, match="another process listens"):
            await other.door.open()
        await other.door._server.stop(0)
    assert not path.exists()


async def test_a_port_in_use_is_one_sentence(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        other = Served(tmp_path / "other", grpc=served.address)
        with pytest.raises(SocketUnusable, match="cannot be opened: name a free address"):
            await other.door.open()


def test_grpc_is_imported_by_its_door_alone() -> None:
    """An agent without the door needs no grpcio."""
    directory = Path(grpc_door.__file__).parents[1]
    importing = set()
    for path in directory.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name == "grpc" or name.startswith(("grpc.", grpc_door.__name__)) for name in names):
                importing.add(path.name)
    assert importing == {"grpc_door.py"}


def test_calls_are_counted_while_they_are_open() -> None:
    calls = GrpcCalls(1)
    with calls.opened(), pytest.raises(TooManyCalls), calls.opened():
        raise AssertionError
    with calls.opened():
        assert calls.open_calls == 1
    assert (calls.open_calls, calls.refused_calls) == (0, 1)
