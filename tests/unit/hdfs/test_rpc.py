"""One connection, against a server that does what no NameNode should."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable

import pytest

from bmq.hdfs.authentication import SASL_NEGOTIATION, Authentication, Negotiation, SimpleAuthentication
from bmq.hdfs.config import Address
from bmq.hdfs.errors import AuthenticationRequired, CallTimedOut, ConnectionLost, PermissionRefused, RemoteError
from bmq.hdfs.proto.namenode_pb2 import DeleteRequest, DeleteResponse
from bmq.hdfs.proto.rpc_pb2 import RpcResponseHeader, RpcSasl, UserInformation
from bmq.hdfs.rpc import CALLS_IN_FLIGHT_MAX, RpcConnection
from bmq.log.store import StorageUnavailable, StoreError
from tests.fakes.hadoop_ipc import Peer, ReceivedCall, ScriptedServer, frame
from tests.fakes.loop_time import LoopTime

pytestmark = [pytest.mark.unit, pytest.mark.timeout(20), pytest.mark.usefixtures("loop_time")]

PROTOCOL = "a.b.ClientProtocol"
CLIENT_ID = bytes(range(16))
LONG_S = 10.0


async def opened(server: ScriptedServer, authentication: Authentication | None = None) -> RpcConnection:
    return await RpcConnection.open(
        server.address,
        PROTOCOL,
        authentication or SimpleAuthentication("ann"),
        client_id=CLIENT_ID,
        timeout_s=LONG_S,
    )


async def delete(connection: RpcConnection, call_id: int = 1, *, path: str = "/a", timeout_s: float = LONG_S) -> bool:
    request = DeleteRequest(src=path, recursive=False)
    response = await connection.call(
        "delete", request, DeleteResponse, call_id=call_id, retry_count=0, timeout_s=timeout_s
    )
    return response.result


def done(call: ReceivedCall) -> None:
    call.answer(DeleteResponse(result=True))


async def test_a_call_is_answered() -> None:
    async with ScriptedServer(done) as server:
        connection = await opened(server)
        assert await delete(connection, 7, path="/" + "a" * 300)
        (call,) = server.calls
        assert (call.method, call.protocol_name, call.identity) == ("delete", PROTOCOL, (CLIENT_ID, 7))
        assert call.request(DeleteRequest).src == "/" + "a" * 300
        assert call.peer.preamble == b"hrpc\x09\x00\x00"
        assert call.peer.context is not None
        assert call.peer.context.user_info == UserInformation(effective_user="ann")
        assert call.peer.context.protocol == PROTOCOL
        connection.close()


async def test_answers_come_in_any_order() -> None:
    def backwards(call: ReceivedCall) -> None:
        if len(server.calls) == 3:
            for waiting in reversed(server.calls):
                waiting.answer(DeleteResponse(result=waiting.call_id == 2))

    async with ScriptedServer(backwards) as server:
        connection = await opened(server)
        assert await asyncio.gather(*(delete(connection, call_id) for call_id in (1, 2, 3))) == [False, True, False]
        assert len(server.peers) == 1
        connection.close()


async def test_a_refusal_is_the_calls_own() -> None:
    async with ScriptedServer(lambda call: call.refuse("java.io.IOException", "no\n\tat Some.java")) as server:
        connection = await opened(server)
        with pytest.raises(RemoteError) as caught:
            await delete(connection)
        assert (caught.value.exception_class, caught.value.message) == ("java.io.IOException", "no")
        assert not connection.is_closed
        server.script = done
        assert await delete(connection, 2)
        connection.close()


async def test_a_call_whose_time_is_up_leaves_nothing_behind_and_its_late_answer_is_dropped(
    loop_time: LoopTime,
) -> None:
    def second_answers_both(call: ReceivedCall) -> None:
        if len(server.calls) == 2:
            server.calls[0].answer(DeleteResponse(result=False))
            done(call)

    async with ScriptedServer(second_answers_both) as server:
        connection = await opened(server)
        calling = asyncio.create_task(delete(connection, 1, timeout_s=3))
        await server.received(1)
        await loop_time.pass_s(2.9)
        assert not calling.done()
        await loop_time.pass_s(0.1)
        with pytest.raises(CallTimedOut, match=f"{server.address}: delete unanswered for 3 s"):
            await calling
        assert connection.calls_in_flight == 0
        assert connection.silent_s() == pytest.approx(3)
        assert await delete(connection, 2)
        assert connection.silent_s() == 0
        connection.close()


async def test_no_timer_outlives_its_call(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    call_later = loop.call_later
    timers: list[asyncio.TimerHandle] = []

    def noted(delay: float, callback: Callable[..., object], *arguments: object) -> asyncio.TimerHandle:
        timers.append(call_later(delay, callback, *arguments))
        return timers[-1]

    async with ScriptedServer(done) as server:
        connection = await opened(server)
        monkeypatch.setattr(loop, "call_later", noted)
        await delete(connection)
        monkeypatch.undo()
        assert [timer.cancelled() for timer in timers] == [True]
        connection.close()


async def test_a_cancelled_call_leaves_nothing_behind() -> None:
    async with ScriptedServer() as server:
        connection = await opened(server)
        task = asyncio.create_task(delete(connection, 1))
        (call,) = await server.received(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert connection.calls_in_flight == 0
        done(call)
        server.script = done
        assert await delete(connection, 2)
        connection.close()


async def test_calls_under_way_are_bounded() -> None:
    async with ScriptedServer() as server:
        connection = await opened(server)
        tasks = [asyncio.create_task(delete(connection, call_id)) for call_id in range(CALLS_IN_FLIGHT_MAX)]
        await server.received(CALLS_IN_FLIGHT_MAX)
        with pytest.raises(StorageUnavailable, match="1024 calls are under way already"):
            await delete(connection, CALLS_IN_FLIGHT_MAX)
        connection.close()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(result) for result in results} == {ConnectionLost}


def http(call: ReceivedCall) -> None:
    call.peer.send(
        b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\n\r\nIt looks like you are making an HTTP req"
    )


def too_long(call: ReceivedCall) -> None:
    call.peer.send(struct.pack(">i", 1 << 30) + bytes(1000))


def no_length(call: ReceivedCall) -> None:
    call.peer.send(bytes(8))


def no_header(call: ReceivedCall) -> None:
    call.peer.send(struct.pack(">i", 5) + b"\xff" * 5)


def no_body(call: ReceivedCall) -> None:
    header = RpcResponseHeader(call_id=call.call_id, status=RpcResponseHeader.SUCCESS)
    call.peer.send(frame(header))


def body_too_short(call: ReceivedCall) -> None:
    header = RpcResponseHeader(call_id=call.call_id, status=RpcResponseHeader.SUCCESS)
    encoded = bytearray(frame(header, DeleteResponse(result=True)))
    encoded[-3] = 100
    call.peer.send(bytes(encoded))


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        (http, "HTTP: this is a web port, not the port of Hadoop's RPC"),
        (too_long, "an answer of 1073741824 bytes, where 1 to 16777216 are possible"),
        (no_length, "an answer of 0 bytes, where 1 to 16777216 are possible"),
        (no_header, "an answer of 5 bytes that cannot be read"),
        (no_body, "an answer that is no DeleteResponse"),
        (body_too_short, r"an answer of \d+ bytes that cannot be read \(a message of 100 bytes in 2\)"),
    ],
)
async def test_rubbish_ends_the_connection_with_a_sentence(
    script: Callable[[ReceivedCall], None], sentence: str
) -> None:
    async with ScriptedServer() as server:
        connection = await opened(server)
        other = asyncio.create_task(delete(connection, 1))
        await server.received(1)
        server.script = script
        with pytest.raises(StorageUnavailable, match=f"^{server.address} sent {sentence}"):
            await delete(connection, 2)
        assert connection.is_closed
        with pytest.raises(ConnectionLost, match=sentence):
            await other
        with pytest.raises(StorageUnavailable, match=sentence):
            await delete(connection, 3)
        await server.peers[0].closed.wait()


async def test_a_lost_connection_fails_every_call() -> None:
    async with ScriptedServer() as server:
        connection = await opened(server)
        tasks = [asyncio.create_task(delete(connection, call_id)) for call_id in (1, 2)]
        calls = await server.received(2)
        calls[0].peer.drop()
        for task in tasks:
            with pytest.raises(ConnectionLost, match=f"{server.address}: the server closed the connection"):
                await task
        assert connection.is_closed


async def test_a_fatal_answer_is_its_calls_and_the_end_for_the_others() -> None:
    async with ScriptedServer() as server:
        connection = await opened(server)
        other = asyncio.create_task(delete(connection, 1))
        await server.received(1)
        server.script = lambda call: call.refuse("a.RpcServerException", "cannot read it", is_fatal=True, detail=14)
        with pytest.raises(RemoteError, match="RpcServerException: cannot read it"):
            await delete(connection, 2)
        with pytest.raises(ConnectionLost, match="ended the connection: RpcServerException: cannot read it"):
            await other
        assert connection.is_closed
        await server.peers[0].closed.wait()


async def test_a_fatal_answer_to_nobody_reaches_every_call() -> None:
    def mismatch(call: ReceivedCall) -> None:
        call.header.call_id = -1
        answer = RpcResponseHeader(
            call_id=(1 << 32) - 1,
            status=RpcResponseHeader.FATAL,
            exception_class_name="org.apache.hadoop.ipc.RPC$VersionMismatch",
            error_message="Server IPC version 12 cannot communicate with client version 9",
            error_detail=12,
        )
        call.peer.send_frame(answer)

    async with ScriptedServer(mismatch) as server:
        connection = await opened(server)
        with pytest.raises(ConnectionLost, match="ended the connection: VersionMismatch: Server IPC version 12 cannot"):
            await delete(connection)


# --- who we are


def refused(exception_class: str, message: str) -> Callable[[ReceivedCall], None]:
    def script(call: ReceivedCall) -> None:
        header = RpcResponseHeader(
            call_id=(1 << 32) - 1,
            status=RpcResponseHeader.FATAL,
            exception_class_name=exception_class,
            error_message=message,
            error_detail=15,
        )
        call.peer.send_frame(header)
        call.peer.drop()

    return script


async def test_a_server_that_refuses_simple_authentication_is_named() -> None:
    script = refused(
        "org.apache.hadoop.security.AccessControlException",
        "SIMPLE authentication is not enabled.  Available:[TOKEN, KERBEROS]",
    )
    async with ScriptedServer(script) as server:
        connection = await opened(server)
        with pytest.raises(AuthenticationRequired) as caught:
            await delete(connection)
        assert str(caught.value) == (
            f"{server.address} demands Kerberos (SASL): name the directory of the cluster's core-site.xml and "
            "hdfs-site.xml in HADOOP_CONF_DIR: SIMPLE authentication "
            "is not enabled.  Available:[TOKEN, KERBEROS] (AccessControlException)"
        )
        assert connection.is_closed


async def test_a_server_that_does_not_let_the_user_in_is_named() -> None:
    script = refused(
        "org.apache.hadoop.security.authorize.AuthorizationException",
        "User ann (auth:SIMPLE) is not authorized for protocol interface org.apache.hadoop.hdfs.protocol.ClientProtocol",
    )
    async with ScriptedServer(script) as server:
        connection = await opened(server)
        with pytest.raises(PermissionRefused, match=r"does not let this user in: User ann .* is not authorized"):
            await delete(connection)


KERBEROS_NAMENODE = (
    b"\x00\x00\x00\x89\x87\x01\x08\xff\xff\xff\xff\x0f\x10\x02\x18\t"
    b'"1org.apache.hadoop.security.AccessControlException'
    b"*BSIMPLE authentication is not enabled.  Available:[TOKEN, KERBEROS]0\x0f:\x00@\x01"
)
SERVICE_ACL_NAMENODE = (
    b"\x00\x00\x00\xda\xd8\x01\x08\xfd\xff\xff\xff\x0f\x10\x02\x18\t"
    b'";org.apache.hadoop.security.authorize.AuthorizationException'
    b"*\x88\x01User eve (auth:SIMPLE) is not authorized for protocol interface "
    b"org.apache.hadoop.hdfs.protocol.ClientProtocol: denied by configured ACL0\x0f:\x00@\x01"
)


@pytest.mark.parametrize(
    ("recorded", "expected", "sentence"),
    [
        (KERBEROS_NAMENODE, AuthenticationRequired, r"demands Kerberos \(SASL\).*Available:\[TOKEN, KERBEROS\]"),
        (SERVICE_ACL_NAMENODE, PermissionRefused, r"does not let this user in: User eve .*denied by configured ACL"),
    ],
)
async def test_refusals_as_hadoop_3_5_0_sends_them(recorded: bytes, expected: type[StoreError], sentence: str) -> None:
    def refuse(call: ReceivedCall) -> None:
        call.peer.send(recorded)
        call.peer.drop()

    async with ScriptedServer(refuse) as server:
        connection = await opened(server)
        with pytest.raises(expected, match=sentence):
            await delete(connection)


async def test_a_server_that_begins_to_negotiate_is_named() -> None:
    def negotiate(call: ReceivedCall) -> None:
        header = RpcResponseHeader(call_id=(1 << 32) - 33, status=RpcResponseHeader.SUCCESS)
        methods = [RpcSasl.Auth(method=method, mechanism="M") for method in ("TOKEN", "KERBEROS", "TOKEN")]
        call.peer.send_frame(header, RpcSasl(state=RpcSasl.NEGOTIATE, auths=methods))

    async with ScriptedServer(negotiate) as server:
        connection = await opened(server)
        with pytest.raises(
            AuthenticationRequired,
            match=r"demands Kerberos \(SASL\): name the directory of .* in HADOOP_CONF_DIR "
            r"\(the server sent NEGOTIATE: TOKEN, KERBEROS\)",
        ):
            await delete(connection)
        assert connection.is_closed
        await server.peers[0].closed.wait()


class Negotiating:
    """Offers to negotiate and goes on with whatever the server answers."""

    first_byte = SASL_NEGOTIATION
    user_information = UserInformation(effective_user="ann")

    def __init__(self) -> None:
        self.answer: RpcSasl | None = None

    async def negotiate(self, negotiation: Negotiation) -> None:
        self.answer = await negotiation.exchange(RpcSasl(state=RpcSasl.NEGOTIATE))


async def test_a_negotiation_comes_before_the_context() -> None:
    def agree(peer: Peer, message: RpcSasl) -> None:
        assert (peer.preamble, peer.context) == (b"hrpc\x09\x00\xdf", None)
        assert message.state == RpcSasl.NEGOTIATE
        header = RpcResponseHeader(call_id=(1 << 32) - 33, status=RpcResponseHeader.SUCCESS)
        peer.send_frame(header, RpcSasl(state=RpcSasl.SUCCESS, token=b"t"))

    async with ScriptedServer(done, on_sasl=agree) as server:
        authentication = Negotiating()
        connection = await opened(server, authentication)
        assert authentication.answer == RpcSasl(state=RpcSasl.SUCCESS, token=b"t")
        assert await delete(connection)
        connection.close()


async def test_a_negotiation_that_is_dropped_ends() -> None:
    async with ScriptedServer(on_sasl=lambda peer, _: peer.drop()) as server:
        with pytest.raises(StorageUnavailable, match=f"{server.address}: the server closed the connection"):
            await opened(server, Negotiating())
        await server.peers[0].closed.wait()


async def test_a_negotiation_that_is_not_answered_ends(loop_time: LoopTime) -> None:
    asked = asyncio.Event()
    async with ScriptedServer(on_sasl=lambda *_: asked.set()) as server:
        opening = asyncio.create_task(opened(server, Negotiating()))
        await asked.wait()
        await loop_time.pass_s(LONG_S)
        with pytest.raises(StorageUnavailable, match=f"{server.address}: no answer to the login within {LONG_S:g} s"):
            await opening
        await server.peers[0].closed.wait()


async def test_a_negotiation_answered_with_rubbish_ends() -> None:
    def rubbish(peer: Peer, _: RpcSasl) -> None:
        peer.send_frame(RpcResponseHeader(call_id=(1 << 32) - 33, status=RpcResponseHeader.SUCCESS))

    async with ScriptedServer(on_sasl=rubbish) as server:
        with pytest.raises(StorageUnavailable, match="sent an answer that is no RpcSasl"):
            await opened(server, Negotiating())
        await server.peers[0].closed.wait()


# --- connecting


async def test_a_port_where_nobody_listens() -> None:
    async with ScriptedServer() as server:
        address = server.address
    with pytest.raises(StorageUnavailable, match=f"^{address}: .*[Cc]onnect"):
        await RpcConnection.open(address, PROTOCOL, SimpleAuthentication("a"), client_id=CLIENT_ID, timeout_s=LONG_S)


async def test_a_name_nobody_knows() -> None:
    with pytest.raises(StorageUnavailable, match=r"^no\.such\.name\.invalid:8020: \w+"):
        await RpcConnection.open(
            Address("no.such.name.invalid", 8020),
            PROTOCOL,
            SimpleAuthentication("a"),
            client_id=CLIENT_ID,
            timeout_s=LONG_S,
        )


async def test_a_connection_the_server_drops_at_once_is_an_error_of_the_store() -> None:
    async with ScriptedServer(on_connect=lambda peer: peer.writer.transport.abort()) as server:
        with pytest.raises(StoreError, match=str(server.address)):
            await delete(await opened(server))


async def test_closing_fails_what_is_under_way_and_later_calls() -> None:
    async with ScriptedServer() as server:
        connection = await opened(server)
        task = asyncio.create_task(delete(connection, 1))
        await server.received(1)
        connection.close()
        connection.close()
        for call in (task, delete(connection, 2)):
            with pytest.raises(ConnectionLost, match="the connection was closed here"):
                await call
        await server.peers[0].closed.wait()


async def test_one_call_id_is_not_under_way_twice() -> None:
    async with ScriptedServer() as server:
        connection = await opened(server)
        task = asyncio.create_task(delete(connection, 1))
        await server.received(1)
        with pytest.raises(ValueError, match=r"call 1 \(delete\) is under way already"):
            await delete(connection, 1)
        done(server.calls[0])
        assert await task
        connection.close()
