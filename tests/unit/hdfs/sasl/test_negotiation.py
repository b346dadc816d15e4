"""Logins to RPC servers, and servers that want less than a login."""

from __future__ import annotations

from base64 import b64encode

import pytest

from bmq.hdfs.authentication import MessageLayer
from bmq.hdfs.config import Address
from bmq.hdfs.errors import AuthenticationRequired, ConnectionLost
from bmq.hdfs.proto.hdfs_pb2 import Token
from bmq.hdfs.proto.namenode_pb2 import DeleteRequest, DeleteResponse
from bmq.hdfs.proto.rpc_pb2 import IpcConnectionContext, RpcResponseHeader, RpcSasl
from bmq.hdfs.rpc import RpcConnection
from bmq.hdfs.sasl.logins import TokenAuthentication
from bmq.hdfs.sasl.negotiation import KERBEROS, TOKEN, TURNS_MAX, RpcNegotiation
from bmq.hdfs.sasl.security_layer import chosen_layer, layer_answer
from bmq.hdfs.security import Protection
from bmq.log.store import StorageUnavailable
from tests.fakes.digest_server import DigestServer
from tests.fakes.hadoop_ipc import Peer, ScriptedServer, frame

pytestmark = [pytest.mark.unit, pytest.mark.timeout(20)]

BLOCK_TOKEN = Token(identifier=b"\x00\x01\xff", password=b"secret", kind="HDFS_BLOCK_TOKEN", service="")
KERBEROS_OFFER = RpcSasl.Auth(method=KERBEROS, mechanism="GSSAPI", protocol="nn", server_id="host")
TOKEN_OFFER = RpcSasl.Auth(method=TOKEN, mechanism="DIGEST-MD5", protocol="", server_id="default", challenge=b"c")


def offer(*auths: RpcSasl.Auth) -> RpcSasl:
    return RpcSasl(state=RpcSasl.NEGOTIATE, auths=auths)


def test_a_login_by_kerberos() -> None:
    login = RpcNegotiation("nn", KERBEROS)
    assert login.first() == RpcSasl(state=RpcSasl.NEGOTIATE)
    assert login.take(offer(TOKEN_OFFER, KERBEROS_OFFER)) == b""
    assert (login.protocol, login.server_id) == ("nn", "host")
    assert login.reply(b"1") == RpcSasl(state=RpcSasl.INITIATE, token=b"1", auths=[KERBEROS_OFFER])
    assert login.take(RpcSasl(state=RpcSasl.CHALLENGE, token=b"2")) == b"2"
    assert login.reply(b"3") == RpcSasl(state=RpcSasl.RESPONSE, token=b"3")
    assert not login.is_content
    assert login.take(RpcSasl(state=RpcSasl.SUCCESS, token=b"4")) == b"4"
    assert login.is_content
    login.check_end(is_mechanism_complete=True)


def test_the_challenge_in_an_offer_is_not_sent_back() -> None:
    login = RpcNegotiation("dn", TOKEN)
    assert login.take(offer(KERBEROS_OFFER, TOKEN_OFFER)) == b"c"
    (auth,) = login.reply(b"1").auths
    assert not auth.HasField("challenge")


def test_a_server_without_a_login_is_refused() -> None:
    with pytest.raises(AuthenticationRequired, match=r"demands no login, .* does not fall back to clear text, also if"):
        RpcNegotiation("nn", KERBEROS).take(RpcSasl(state=RpcSasl.SUCCESS))


@pytest.mark.parametrize(
    ("auths", "told"),
    [
        ((), "offers nothing, bmq needs KERBEROS"),
        ((TOKEN_OFFER, RpcSasl.Auth(method="SIMPLE", mechanism="")), "demands no login"),
        ((TOKEN_OFFER,), r"offers TOKEN \(DIGEST-MD5\), bmq needs KERBEROS \(GSSAPI\)"),
        ((RpcSasl.Auth(method=KERBEROS, mechanism="SCRAM"),), r"offers KERBEROS \(SCRAM\)"),
        ((RpcSasl.Auth(method="A\rB", mechanism="C"),), r"offers A\?B \(C\)"),
    ],
)
def test_only_the_own_method_is_taken(auths: tuple[RpcSasl.Auth, ...], told: str) -> None:
    with pytest.raises(AuthenticationRequired, match=told):
        RpcNegotiation("nn", KERBEROS).take(offer(*auths))


def test_a_server_that_is_content_too_early_is_refused() -> None:
    login = RpcNegotiation("nn", KERBEROS)
    login.take(offer(KERBEROS_OFFER))
    login.reply(b"1")
    login.take(RpcSasl(state=RpcSasl.SUCCESS))
    with pytest.raises(AuthenticationRequired, match="before it had proven who it is"):
        login.check_end(is_mechanism_complete=False)


@pytest.mark.parametrize("state", [RpcSasl.NEGOTIATE, RpcSasl.INITIATE, RpcSasl.WRAP, RpcSasl.RESPONSE])
def test_messages_out_of_turn(state: RpcSasl.State) -> None:
    login = RpcNegotiation("nn", KERBEROS)
    login.take(offer(KERBEROS_OFFER))
    login.reply(b"1")
    with pytest.raises(AuthenticationRequired, match="out of turn"):
        login.take(RpcSasl(state=state))


def test_a_login_has_an_end() -> None:
    login = RpcNegotiation("nn", KERBEROS)
    login.take(offer(KERBEROS_OFFER))
    login.reply(b"1")
    with pytest.raises(AuthenticationRequired, match="does not come to an end"):
        for _ in range(TURNS_MAX):
            login.take(RpcSasl(state=RpcSasl.CHALLENGE, token=b"2"))


def test_the_security_layer_is_the_first_wanted_one() -> None:
    wanted = (Protection.PRIVACY, Protection.AUTHENTICATION)
    assert chosen_layer(b"\x07\x00\x40\x00", wanted, "nn") == (Protection.PRIVACY, 0x4000)
    assert chosen_layer(b"\x01\x00\x00\x00", wanted, "nn") == (Protection.AUTHENTICATION, 0)
    assert layer_answer(Protection.AUTHENTICATION) == b"\x01\x00\x00\x00"
    assert layer_answer(Protection.PRIVACY) == b"\x04\xff\xff\xff"


def test_never_less_protection_than_the_configuration_demands() -> None:
    with pytest.raises(AuthenticationRequired, match=r"offers authentication, and hadoop\.rpc.protection here demands"):
        chosen_layer(b"\x01\x00\x40\x00", (Protection.INTEGRITY, Protection.PRIVACY), "nn")
    with pytest.raises(AuthenticationRequired, match="in 3 bytes"):
        chosen_layer(b"\x01\x00\x40", (Protection.PRIVACY,), "nn")


class TokenServer:
    """Lets one token in, and protects what follows. `received`: the bytes of frames, unwrapped."""

    def __init__(self, qops: str) -> None:
        self.digest = DigestServer(
            b64encode(BLOCK_TOKEN.identifier).decode(), b64encode(BLOCK_TOKEN.password).decode(), uri="/default",
            qops=qops,
        )  # fmt: skip
        self.received = bytearray()
        self.is_answer_wrapped = True

    def __call__(self, peer: Peer, message: RpcSasl) -> None:
        if message.state == RpcSasl.NEGOTIATE:
            auth = RpcSasl.Auth(
                method=TOKEN, mechanism="DIGEST-MD5", server_id="default", challenge=self.digest.challenge()
            )
            self._send(peer, offer(KERBEROS_OFFER, auth))
        elif message.state == RpcSasl.INITIATE:
            self._send(peer, RpcSasl(state=RpcSasl.SUCCESS, token=self.digest.prove(message.token)))
        else:
            assert message.state == RpcSasl.WRAP
            assert self.digest.layer is not None
            self.received += self.digest.layer.unwrap(message.token)
            if self.received.count(b"delete"):
                self._answer(peer, self.digest.layer)

    def _answer(self, peer: Peer, layer: MessageLayer) -> None:
        header = RpcResponseHeader(call_id=1, status=RpcResponseHeader.SUCCESS, client_id=bytes(16))
        answer = frame(header, DeleteResponse(result=True))
        if not self.is_answer_wrapped:
            peer.send(answer)
            return
        for part in (answer[:5], answer[5:]):  # frames are a stream, however it is cut into messages
            self._send(peer, RpcSasl(state=RpcSasl.WRAP, token=layer.wrap(part)))

    @staticmethod
    def _send(peer: Peer, message: RpcSasl) -> None:
        header = RpcResponseHeader(call_id=(1 << 32) - 33, status=RpcResponseHeader.SUCCESS)
        peer.send_frame(header, message)


async def opened(address: Address, *wanted: Protection) -> RpcConnection:
    return await RpcConnection.open(
        address, "a.b.P", TokenAuthentication(BLOCK_TOKEN, wanted), client_id=bytes(16), timeout_s=10.0
    )


async def deleted(connection: RpcConnection) -> bool:
    request = DeleteRequest(src="/a", recursive=False)
    answer = await connection.call("delete", request, DeleteResponse, call_id=1, retry_count=0, timeout_s=10.0)
    return answer.result


@pytest.mark.parametrize("protection", list(Protection))
async def test_a_login_by_token(protection: Protection) -> None:
    login = TokenServer(protection.qop)
    async with ScriptedServer(lambda call: call.answer(DeleteResponse(result=True)), on_sasl=login) as server:
        connection = await opened(server.address, protection)
        assert await deleted(connection)
        assert server.peers[0].preamble == b"hrpc\x09\x00\xdf"
        if protection is Protection.AUTHENTICATION:
            assert server.peers[0].context == IpcConnectionContext(user_info={}, protocol="a.b.P")
        else:
            assert b"a.b.P" in login.received
            assert not server.calls
        connection.close()


async def test_an_unprotected_answer_over_a_protected_connection_is_refused() -> None:
    login = TokenServer("auth-conf")
    login.is_answer_wrapped = False
    async with ScriptedServer(on_sasl=login) as server:
        connection = await opened(server.address, Protection.PRIVACY)
        with pytest.raises(ConnectionLost, match="an unprotected answer over a protected connection"):
            await deleted(connection)


async def test_a_server_that_refuses_the_login_is_named() -> None:
    def refuse(peer: Peer, message: RpcSasl) -> None:
        header = RpcResponseHeader(
            call_id=(1 << 32) - 33,
            status=RpcResponseHeader.FATAL,
            exception_class_name="org.apache.hadoop.security.token.SecretManager$InvalidToken",
            error_message="Block token is expired.",
            error_detail=15,
        )
        peer.send_frame(header)
        peer.drop()

    async with ScriptedServer(on_sasl=refuse) as server:
        with pytest.raises(AuthenticationRequired, match=r"does not accept the login: Block token is expired\."):
            await opened(server.address, Protection.PRIVACY)


async def test_a_server_that_closes_in_the_middle_of_a_login() -> None:
    async with ScriptedServer(on_sasl=lambda peer, _: peer.drop()) as server:
        with pytest.raises(StorageUnavailable, match="the server closed the connection"):
            await opened(server.address, Protection.PRIVACY)
