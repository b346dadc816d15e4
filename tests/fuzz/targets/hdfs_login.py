"""What a NameNode or a DataNode says during a login: offers, challenges of DIGEST-MD5, and protected bytes behind it."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator, Sequence
from random import Random
from typing import Any, Final
from unittest import mock

from google.protobuf.message import DecodeError, Message

from bmq.hdfs.authentication import MessageLayer
from bmq.hdfs.delimited import read_delimited, varint
from bmq.hdfs.errors import AuthenticationRequired, HandshakeFailed
from bmq.hdfs.proto.hdfs_pb2 import Token
from bmq.hdfs.proto.rpc_pb2 import RpcSasl
from bmq.hdfs.proto.transfer_pb2 import CipherOption, HandshakeMessage
from bmq.hdfs.sasl import logins
from bmq.hdfs.sasl.digest_md5 import DigestMd5
from bmq.hdfs.sasl.logins import TokenAuthentication
from bmq.hdfs.sasl.negotiation import TOKEN, TURNS_MAX
from bmq.hdfs.sasl.security_layer import chosen_layer
from bmq.hdfs.sasl.transfer_handshake import TransferHandshake, TransferSecret
from bmq.hdfs.security import Protection
from tests.fuzz.mutation import changed
from tests.fuzz.random_protobuf import changed_protobuf, random_protobuf
from tests.fuzz.target import Target

_RPC, _TRANSFER, _LAYER = range(3)
_CNONCE: Final = "cnonce"
_PROOF: Final = b"rspauth=PROOF"
"""Becomes the proof that a server which knows the password would send."""
_TOKEN: Final = Token(identifier=b"id", password=b"password", kind="HDFS_BLOCK_TOKEN", service="")
_WANTED: Final = tuple(Protection)
_CHALLENGE: Final = (
    b'realm="0",nonce="bm9uY2U=",qop="auth,auth-int,auth-conf",charset=utf-8,algorithm=md5-sess,cipher="rc4"'
)
_MESSAGES_MAX: Final = TURNS_MAX + 4


def check(data: bytes) -> bool:
    """The first byte says which of the three, and which protection is wanted; then messages behind their lengths."""
    if not data:
        return False
    kind, wanted = data[0] % 3, (_WANTED[data[0] // 3 % len(_WANTED)],)
    if kind == _LAYER:
        try:
            chosen_layer(data[1:], wanted, "server")
        except AuthenticationRequired:
            return False
        return True
    messages = _messages(data[1:])
    with mock.patch.object(DigestMd5, "step", _with_proof(DigestMd5.step)):
        return _login(messages, wanted) if kind == _RPC else _transfer(messages, wanted)


def _with_proof(step: Any) -> Any:
    def stepped(digest: DigestMd5, challenge: bytes) -> bytes:
        right = b"rspauth=" + digest._expected_proof
        answer: bytes = step(digest, right if challenge == _PROOF else challenge)
        return answer

    return stepped


class _Scripted:
    """Implements Negotiation: the server's messages, one after another."""

    host = "server"

    def __init__(self, messages: Sequence[bytes]) -> None:
        self._messages = iter(messages)

    async def exchange(self, message: RpcSasl) -> RpcSasl:
        assert message.IsInitialized()
        answer = next(self._messages, None)
        if answer is None:
            raise AuthenticationRequired("the server has gone")
        try:
            return RpcSasl.FromString(answer)
        except DecodeError:
            raise AuthenticationRequired("it cannot be read") from None


def _login(messages: Sequence[bytes], wanted: tuple[Protection, ...]) -> bool:
    authentication = TokenAuthentication(_TOKEN, wanted)
    with mock.patch.object(logins, "token_urlsafe", lambda _: _CNONCE):
        try:
            layer = _driven(authentication.negotiate(_Scripted(messages)))
        except AuthenticationRequired as error:
            assert str(error).isprintable(), "it is no line for a log"
            return False
    assert any(_PROOF in one for one in messages), "a server is believed that has no proof"
    assert (layer is None) == (wanted[0] is Protection.AUTHENTICATION), "it is less protected than wanted"
    return True


def _driven(work: Coroutine[Any, Any, MessageLayer | None]) -> MessageLayer | None:
    """The scripted server never lets anybody wait."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("the login waits")


def _transfer(messages: Sequence[bytes], wanted: tuple[Protection, ...]) -> bool:
    secret = TransferSecret.of_token(_TOKEN)
    handshake = TransferHandshake(secret, wanted=wanted, is_aes=True, cnonce=_CNONCE)
    handshake.first()
    try:
        for place, message in enumerate(messages):
            if not handshake.is_complete:
                handshake.take(message)
                continue
            if handshake.codec is not None:
                for piece in messages[place:]:
                    handshake.codec.decode(piece)
            break
    except HandshakeFailed as error:
        assert str(error).isprintable(), "it is no line for a log"
        return False
    if handshake.is_complete:
        assert (handshake.codec is None) == (wanted[0] is Protection.AUTHENTICATION), "it is less protected than wanted"
    return handshake.is_complete


def _messages(data: bytes) -> list[bytes]:
    found: list[bytes] = []
    place = 0
    while place < len(data) and len(found) < _MESSAGES_MAX:
        try:
            message, place = read_delimited(data, place)
        except ValueError:
            break
        found.append(message)
    return found


def _joined(kind: int, wanted: int, messages: Sequence[Message | bytes]) -> bytes:
    encoded = [one if isinstance(one, bytes) else one.SerializePartialToString() for one in messages]
    return bytes([kind + 3 * wanted]) + b"".join(varint(len(one)) + one for one in encoded)


def _rpc_script(challenge: bytes = _CHALLENGE, proof: bytes = _PROOF) -> list[Any]:
    auth = RpcSasl.Auth(method=TOKEN, mechanism="DIGEST-MD5", protocol="", server_id="default", challenge=challenge)
    simple = RpcSasl.Auth(method="KERBEROS", mechanism="GSSAPI", protocol="nn", server_id="host")
    return [
        RpcSasl(state=RpcSasl.NEGOTIATE, auths=[simple, auth]),
        RpcSasl(state=RpcSasl.SUCCESS, token=proof),
    ]


def _transfer_script(challenge: bytes = _CHALLENGE, proof: bytes = _PROOF, *, is_aes: bool = False) -> list[Any]:
    last = HandshakeMessage(status=HandshakeMessage.SUCCESS, payload=proof)
    if is_aes:
        last.cipher_options.add(
            suite=CipherOption.AES_CTR_NOPADDING, in_key=bytes(32), in_iv=bytes(16), out_key=bytes(32), out_iv=bytes(16)
        )
    return [HandshakeMessage(status=HandshakeMessage.SUCCESS, payload=challenge), last, b"\0\0\0\x20" + bytes(32)]


def seeds() -> Iterator[bytes]:
    for wanted in range(len(_WANTED)):
        yield _joined(_RPC, wanted, _rpc_script())
        yield _joined(_RPC, wanted, _rpc_script(proof=b"rspauth=0"))
        yield _joined(_TRANSFER, wanted, _transfer_script())
        yield _joined(_TRANSFER, wanted, _transfer_script(is_aes=True))
        yield bytes([_LAYER + 3 * wanted, 7, 0, 255, 255])
    yield _joined(_RPC, 0, [RpcSasl(state=RpcSasl.SUCCESS)])
    yield _joined(_TRANSFER, 0, [HandshakeMessage(status=HandshakeMessage.ERROR_UNKNOWN_KEY, message="a\nb")])


_DIRECTIVES: Final = (
    b"maxbuf=1",
    b"maxbuf=99999999999",
    b"maxbuf=-1",
    b'nonce=""',
    b'realm="\\""',
    b"qop=auth",
    b'qop="auth-conf"',
    b"cipher=des",
    b"algorithm=md5",
    b"charset=x",
    b',,="',
    b"\xff=\xff",
    b"stale=true",
)


def mutate(data: bytes, dice: Random) -> bytes:
    """A field of a message drawn anew, a directive more or less, a message more or less; or bytes of the challenge."""
    directives = _CHALLENGE.split(b",") if dice.randrange(2) else [_CHALLENGE]
    for _ in range(dice.randrange(3)):
        directives.insert(dice.randrange(len(directives) + 1), dice.choice(_DIRECTIVES))
    challenge = b",".join(directives)
    if not dice.randrange(3):
        challenge = changed(challenge, dice, _DIRECTIVES)
    proof = _PROOF if dice.randrange(4) else changed(_PROOF, dice, _DIRECTIVES)
    is_rpc = bool(dice.randrange(2))
    script = (
        _rpc_script(challenge, proof) if is_rpc else _transfer_script(challenge, proof, is_aes=bool(dice.randrange(2)))
    )
    place = dice.randrange(len(script))
    match dice.randrange(5):
        case 0 if isinstance(script[place], Message):
            script[place] = changed_protobuf(script[place], dice)
        case 1:
            script.insert(place, random_protobuf(RpcSasl if is_rpc else HandshakeMessage, dice))
        case 2:
            del script[place]
        case _:
            script.append(dice.randbytes(dice.randrange(40)))
    return _joined(_RPC if is_rpc else _TRANSFER, dice.randrange(len(_WANTED)), script)


TARGET: Final = Target("hdfs_login", seeds, check, ("bmq.hdfs.sasl", "bmq.hdfs.delimited"), mutate)
