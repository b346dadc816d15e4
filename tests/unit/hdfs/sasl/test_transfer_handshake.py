"""The login to a DataNode's port for blocks, and what protects the bytes behind it."""

from __future__ import annotations

import asyncio
from asyncio import StreamReader, StreamWriter
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from bmq.hdfs.delimited import VARINT_BYTES_MAX, delimited, read_delimited
from bmq.hdfs.errors import HandshakeFailed
from bmq.hdfs.proto.hdfs_pb2 import Token
from bmq.hdfs.proto.namenode_pb2 import DataEncryptionKey
from bmq.hdfs.proto.transfer_pb2 import CipherOption, HandshakeMessage
from bmq.hdfs.sasl.digest_md5 import MESSAGE_BYTES_MORE
from bmq.hdfs.sasl.secure_connector import KEY_MARGIN_MS, SecureConnector
from bmq.hdfs.sasl.secured_transport import StreamReceiver
from bmq.hdfs.sasl.transfer_codecs import AesCtrCodec, FramedCodec, TransferCodec
from bmq.hdfs.sasl.transfer_handshake import MAGIC, TransferHandshake, TransferSecret
from bmq.hdfs.security import HadoopSecurity, Protection
from bmq.log.store import StorageUnavailable
from tests.fakes.digest_server import QOPS, DigestServer

pytestmark = [pytest.mark.unit, pytest.mark.timeout(30)]

Handler = Callable[[StreamReader, StreamWriter], Awaitable[None]]

TOKEN = Token(identifier=b"\x8a\x01id", password=b"secret", kind="HDFS_BLOCK_TOKEN", service="")
KEY = DataEncryptionKey(key_id=7, block_pool_id="BP-1", nonce=b"n", encryption_key=b"k", expiry_date=1_000_000)
IN_KEY, IN_IV, OUT_KEY, OUT_IV = (bytes([number]) * 16 for number in range(4))


class DataNodeLogin:
    """The server's side. `codec`: its end of the protection, once the login is complete."""

    def __init__(self, *, qops: str = QOPS, is_aes: bool = True, secret: TransferSecret | None = None) -> None:
        secret = secret or TransferSecret.of_token(TOKEN)
        self.digest = DigestServer(secret.user, secret.password, uri="hdfs/0", qops=qops)
        self.codec: TransferCodec | None = None
        self.options: Sequence[CipherOption] = ()
        self._is_aes = is_aes

    def begin(self, message: HandshakeMessage) -> bytes:
        assert message == HandshakeMessage(status=HandshakeMessage.SUCCESS, payload=b"")
        return delimited(HandshakeMessage(status=HandshakeMessage.SUCCESS, payload=self.digest.challenge()))

    def end(self, message: HandshakeMessage) -> bytes:
        self.options = message.cipher_options
        answer = HandshakeMessage(status=HandshakeMessage.SUCCESS, payload=self.digest.prove(message.payload))
        layer = self.digest.layer
        if layer is not None:
            self.codec = FramedCodec(layer)
        if layer is not None and self.options and self._is_aes:
            answer.cipher_options.add(
                suite=CipherOption.AES_CTR_NOPADDING,
                in_key=layer.wrap(IN_KEY),
                in_iv=IN_IV,
                out_key=layer.wrap(OUT_KEY),
                out_iv=OUT_IV,
            )
            self.codec = AesCtrCodec(out_key=OUT_KEY, out_iv=OUT_IV, in_key=IN_KEY, in_iv=IN_IV)
        return delimited(answer)


def handshake(*wanted: Protection, is_aes: bool = False, secret: TransferSecret | None = None) -> TransferHandshake:
    return TransferHandshake(secret or TransferSecret.of_token(TOKEN), wanted=wanted, is_aes=is_aes, cnonce="c")


def message_in(encoded: bytes) -> HandshakeMessage:
    message, end = read_delimited(encoded, 0)
    assert end == len(encoded)
    return HandshakeMessage.FromString(message)


def carried_out(client: TransferHandshake, server: DataNodeLogin) -> None:
    first = client.first()
    assert first.startswith(MAGIC)
    response = client.take(read_delimited(server.begin(message_in(first[4:])), 0)[0])
    assert client.take(read_delimited(server.end(message_in(response)), 0)[0]) == b""
    assert client.is_complete


def test_authentication_protects_nothing() -> None:
    client, server = handshake(Protection.AUTHENTICATION, is_aes=True), DataNodeLogin()
    carried_out(client, server)
    assert client.codec is None
    assert not server.options


@pytest.mark.parametrize(
    ("protection", "is_aes", "is_aes_served", "kind"),
    [
        (Protection.INTEGRITY, True, True, FramedCodec),
        (Protection.PRIVACY, False, True, FramedCodec),
        (Protection.PRIVACY, True, True, AesCtrCodec),
    ],
)
def test_both_ends_understand_each_other(
    protection: Protection, is_aes: bool, is_aes_served: bool, kind: type[TransferCodec]
) -> None:
    client, server = handshake(protection, is_aes=is_aes), DataNodeLogin(is_aes=is_aes_served)
    carried_out(client, server)
    assert isinstance(client.codec, kind)
    assert server.codec is not None
    for data in (b"x", b"", b"packet" * 30_000):
        sent = b"".join(client.codec.encode((data,)))
        assert (data in sent) is (not data or (protection is Protection.INTEGRITY and len(data) < 65_000))
        assert server.codec.decode(sent) == data
        assert client.codec.decode(b"".join(server.codec.encode((data,)))) == data


@given(
    pieces=st.lists(st.binary(max_size=400), max_size=6),
    protection=st.sampled_from([Protection.INTEGRITY, Protection.PRIVACY]),
    is_aes=st.booleans(),
    message_bytes_max=st.integers(17, 600),
)
def test_pieces_are_sent_as_if_they_were_one(
    pieces: list[bytes], protection: Protection, is_aes: bool, message_bytes_max: int
) -> None:
    sides = []
    for _ in range(2):
        client, server = handshake(protection, is_aes=is_aes), DataNodeLogin(is_aes=is_aes)
        carried_out(client, server)
        assert client.codec is not None and server.codec is not None
        if isinstance(client.codec, FramedCodec):
            client.codec.layer.bytes_max = message_bytes_max - MESSAGE_BYTES_MORE
        sides.append((client.codec, server.codec))
    (client_codec, server_codec), (other_client, _) = sides
    whole = b"".join(pieces)
    sent = b"".join(client_codec.encode([memoryview(bytearray(piece)) for piece in pieces]))
    assert sent == b"".join(other_client.encode((whole,)))
    assert server_codec.decode(sent) == whole


def test_aes_decrypts_into_memory() -> None:
    client, server = handshake(Protection.PRIVACY, is_aes=True), DataNodeLogin(is_aes=True)
    carried_out(client, server)
    assert isinstance(client.codec, AesCtrCodec) and server.codec is not None
    for data in (b"x", b"packet" * 30_000, b"odd" * 7):
        sent = memoryview(b"".join(server.codec.encode((data,))))
        memory = bytearray(len(data) + 2)
        client.codec.decode_into(sent, memoryview(memory)[1:-1])
        assert memory == b"\0" + data + b"\0"


class FullAfter(asyncio.BufferedProtocol):
    """Takes little at a time, and closes the connection when it has had enough."""

    def __init__(self, transport: Closing, size_bytes: int) -> None:
        self.received = b""
        self._transport = transport
        self._size_bytes = size_bytes
        self._buffer = bytearray(3)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self._buffer[:nbytes]
        if len(self.received) >= self._size_bytes:
            self._transport.abort()


class Closing(asyncio.Transport):
    is_aborted = False

    def abort(self) -> None:
        self.is_aborted = True

    def is_closing(self) -> bool:
        return self.is_aborted


def test_one_read_fills_many_buffers_until_the_connection_is_closed() -> None:
    client, server = handshake(Protection.PRIVACY, is_aes=True), DataNodeLogin(is_aes=True)
    carried_out(client, server)
    assert isinstance(client.codec, AesCtrCodec) and server.codec is not None
    transport = Closing()
    protocol = FullAfter(transport, 8)
    receiver = StreamReceiver(transport, client.codec, protocol, memoryview(bytearray(100)))
    for data in (b"01", b"2345678", b"90"):
        sent = b"".join(server.codec.encode((data,)))
        receiver.get_buffer(-1)[: len(sent)] = sent
        receiver.buffer_updated(len(sent))
    assert protocol.received == b"01234567"


@given(st.lists(st.binary(max_size=50), max_size=5), st.data())
def test_frames_may_be_cut_anywhere(messages: list[bytes], data: st.DataObject) -> None:
    client, server = handshake(Protection.INTEGRITY), DataNodeLogin()
    carried_out(client, server)
    assert client.codec is not None and server.codec is not None
    sent = b"".join(piece for message in messages for piece in server.codec.encode((message,)))
    received = b""
    while sent:
        size_bytes = data.draw(st.integers(1, len(sent)))
        received += client.codec.decode(sent[:size_bytes])
        sent = sent[size_bytes:]
    assert received == b"".join(messages)


@pytest.mark.parametrize(
    "sent", [b"\x00\x00\x00\x00", b"\xff\xff\xff\xff", b"\x7f\x00\x00\x00", b"\x00\x00\x00\x03abc"]
)
def test_damage_behind_the_login_is_told(sent: bytes) -> None:
    client, server = handshake(Protection.INTEGRITY), DataNodeLogin()
    carried_out(client, server)
    assert client.codec is not None
    with pytest.raises(HandshakeFailed):
        client.codec.decode(sent)


def test_the_encryption_key_is_a_secret_of_its_own() -> None:
    secret = TransferSecret.of_key(KEY)
    assert secret == TransferSecret(f"7 BP-1 {b64encode(b'n').decode()}", b64encode(b"k").decode())
    carried_out(handshake(Protection.PRIVACY, secret=secret), DataNodeLogin(secret=secret))


@pytest.mark.parametrize(
    ("answer", "sentence", "is_key_unknown", "is_token_expired"),
    [
        (HandshakeMessage(status=HandshakeMessage.ERROR_UNKNOWN_KEY, message="no key"), "no key", True, False),
        (
            HandshakeMessage(status=HandshakeMessage.ERROR, message="expired\n\tat X", is_access_token_error=True),
            "expired$",
            False,
            True,
        ),
        (HandshakeMessage(status=HandshakeMessage.ERROR, message="no\r\x1b[2Jkey"), r"no\?\?\[2Jkey$", False, False),
        (HandshakeMessage(status=HandshakeMessage.ERROR), "no reason given", False, False),
    ],
)
def test_a_refusal_says_what_may_help(
    answer: HandshakeMessage, sentence: str, is_key_unknown: bool, is_token_expired: bool
) -> None:
    client = handshake(Protection.PRIVACY)
    with pytest.raises(HandshakeFailed, match=sentence) as caught:
        client.take(answer.SerializeToString())
    assert (client.is_key_unknown, caught.value.is_token_expired) == (is_key_unknown, is_token_expired)


@given(st.binary(max_size=100))
def test_no_answer_breaks_it(answer: bytes) -> None:
    try:
        handshake(Protection.PRIVACY).take(answer)
    except HandshakeFailed:
        pass


def test_an_empty_list_of_ciphers_is_told() -> None:
    """Neither clear text nor the weaker cipher of DIGEST-MD5 stands in for AES."""
    with pytest.raises(
        HandshakeFailed, match=r"has no cipher for the data: set dfs\.encrypt\.data\.transfer\.cipher\.suites"
    ):
        carried_out(handshake(Protection.PRIVACY, is_aes=True), DataNodeLogin(is_aes=False))


def test_a_key_of_a_wrong_size_is_told() -> None:
    with pytest.raises(HandshakeFailed, match="a key of 3 bytes"):
        AesCtrCodec(out_key=b"abc", out_iv=IN_IV, in_key=IN_KEY, in_iv=IN_IV)


# --- over a socket


class Keys:
    """A NameNode. `asked`: how often it gave its key."""

    def __init__(self, *, is_encrypted: bool = False) -> None:
        self.is_encrypted = is_encrypted
        self.asked = 0

    async def is_data_encrypted(self) -> bool:
        return self.is_encrypted

    async def data_encryption_key(self) -> DataEncryptionKey:
        self.asked += 1
        return KEY


class Collecting(asyncio.Protocol):
    """Takes in what comes. `transport`: to write to."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.transport: Any = None
        self.news = asyncio.Event()
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data
        self.news.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(exc)

    async def until(self, size_bytes: int) -> bytes:
        while len(self.received) < size_bytes:
            self.news.clear()
            await self.news.wait()
        return bytes(self.received)


class BufferedCollecting(asyncio.BufferedProtocol):
    """The same, in small buffers of its own."""

    def __init__(self) -> None:
        self._collecting = Collecting()
        self._buffer = bytearray(7)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._collecting, name)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._collecting.connection_made(transport)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._collecting.data_received(bytes(self._buffer[:nbytes]))

    def connection_lost(self, exc: Exception | None) -> None:
        self._collecting.connection_lost(exc)


@asynccontextmanager
async def served(handler: Handler) -> AsyncIterator[tuple[str, int]]:
    """Its address. At the end nothing is left open."""
    tasks: list[asyncio.Task[None]] = []

    async def handle(reader: StreamReader, writer: StreamWriter) -> None:
        try:
            await handler(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client is gone
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    def accept(reader: StreamReader, writer: StreamWriter) -> None:
        tasks.append(asyncio.ensure_future(handle(reader, writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()
    finally:
        server.close()
        await asyncio.gather(*tasks)


async def echo(login: DataNodeLogin, reader: StreamReader, writer: StreamWriter, *, damage: bytes = b"") -> None:
    """After the login, every byte comes back; with `damage`, that."""

    async def message() -> HandshakeMessage:
        encoded = b""
        for _ in range(VARINT_BYTES_MAX):
            encoded += await reader.readexactly(1)
            if encoded[-1] < 0x80:
                break
        size_bytes = sum((byte & 0x7F) << (7 * index) for index, byte in enumerate(encoded))
        return HandshakeMessage.FromString(await reader.readexactly(size_bytes))

    assert await reader.readexactly(4) == MAGIC
    writer.write(login.begin(await message()))
    writer.write(login.end(await message()))
    while data := await reader.read(1000):
        codec = login.codec
        writer.write(damage or (data if codec is None else b"".join(codec.encode((codec.decode(data),)))))


def run_on(is_uvloop: bool, work: Callable[[], Any]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop if is_uvloop else None) as runner:
        runner.run(work())


@pytest.mark.parametrize("is_uvloop", [False, True])
@pytest.mark.parametrize("collecting", [Collecting, BufferedCollecting])
@pytest.mark.parametrize("protection", list(Protection))
def test_a_connection_goes_on_behind_its_login(is_uvloop: bool, collecting: type[Any], protection: Protection) -> None:
    """Both event loops, both kinds of protocol: they read in different ways."""

    async def work() -> None:
        login = DataNodeLogin()
        connector = SecureConnector(HadoopSecurity(data=(protection,), is_aes=True), Keys())
        protocol = collecting()
        async with served(lambda r, w: echo(login, r, w)) as address:
            await connector.connect(protocol, *address, TOKEN)
            protocol.transport.write(b"abc")
            protocol.transport.writelines([b"def", memoryview(b"ghi")])
            assert await protocol.until(9) == b"abcdefghi"
            protocol.transport.write(bytes(100_000))
            assert await protocol.until(100_009) == b"abcdefghi" + bytes(100_000)
            protocol.transport.abort()
            assert await protocol.lost is None

    run_on(is_uvloop, work)


async def refused(handler: Handler, *data: Protection, sentence: str) -> None:
    connector = SecureConnector(HadoopSecurity(data=data), Keys())
    async with served(handler) as address:
        with pytest.raises(HandshakeFailed, match=sentence):
            await connector.connect(Collecting(), *address, TOKEN)


async def test_a_datanode_that_closes_in_the_middle_of_the_login() -> None:
    async def close(reader: StreamReader, writer: StreamWriter) -> None:
        await reader.readexactly(5)

    sentence = r"closed the connection during the login: is dfs\.data\.transfer"
    await refused(close, Protection.PRIVACY, sentence=sentence)


async def test_what_comes_unasked_is_refused() -> None:
    async def shout(reader: StreamReader, writer: StreamWriter) -> None:
        writer.write(b"\xff" * 100_000)
        await reader.read()

    await refused(shout, Protection.PRIVACY, sentence="its part of the login is too long")


async def test_damage_closes_the_connection() -> None:
    login = DataNodeLogin()
    protocol = Collecting()
    connector = SecureConnector(HadoopSecurity(data=(Protection.INTEGRITY,)), Keys())
    async with served(lambda r, w: echo(login, r, w, damage=b"\x00\x00\x00\x14" + bytes(20))) as address:
        await connector.connect(protocol, *address, TOKEN)
        protocol.transport.write(b"abc")
        lost = await protocol.lost
    assert isinstance(lost, HandshakeFailed)
    assert not protocol.received


@pytest.mark.parametrize(
    ("data", "port", "is_plain"),
    [((), 50_010, True), ((Protection.PRIVACY,), 1_004, True), ((Protection.PRIVACY,), 50_010, False)],
)
async def test_who_logs_in(data: tuple[Protection, ...], port: int, is_plain: bool) -> None:
    """As SaslDataTransferClient decides: privileged ports need no login, nor does a cluster without protection."""
    secret = await SecureConnector(HadoopSecurity(data=data), Keys())._secret(port, TOKEN)
    assert (secret is None) is is_plain


async def test_an_encrypting_cluster_wants_its_key_on_every_port() -> None:
    keys = Keys(is_encrypted=True)
    now_ms = [0]
    connector = SecureConnector(HadoopSecurity(), keys, now_ms=lambda: now_ms[0])
    for _ in range(3):
        assert await connector._secret(1_004, TOKEN) == TransferSecret.of_key(KEY)
    assert keys.asked == 1
    now_ms[0] = KEY.expiry_date - KEY_MARGIN_MS
    await connector._secret(1_004, TOKEN)
    assert keys.asked == 2


async def test_a_key_that_the_datanode_does_not_know_is_fetched_anew() -> None:
    async def refuse(reader: StreamReader, writer: StreamWriter) -> None:
        await reader.readexactly(5)
        writer.write(delimited(HandshakeMessage(status=HandshakeMessage.ERROR_UNKNOWN_KEY, message="rolled")))
        await reader.read()

    keys = Keys(is_encrypted=True)
    connector = SecureConnector(HadoopSecurity(), keys, now_ms=lambda: 0)
    async with served(refuse) as address:
        for asked in (1, 2):
            with pytest.raises(HandshakeFailed, match="rolled"):
                await connector.connect(Collecting(), *address, TOKEN)
            assert keys.asked == asked


async def test_a_namenode_that_does_not_answer_is_the_reason() -> None:
    class Away(Keys):
        async def is_data_encrypted(self) -> bool:
            raise StorageUnavailable("no NameNode answers")

    with pytest.raises(HandshakeFailed, match="no NameNode answers"):
        await SecureConnector(HadoopSecurity(), Away()).connect(Collecting(), "127.0.0.1", 1, TOKEN)
