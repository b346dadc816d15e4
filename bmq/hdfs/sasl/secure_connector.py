"""Connects to DataNodes of a secure cluster, with a login on each connection if the cluster demands one."""

from __future__ import annotations

import asyncio
import time
from asyncio import Future
from collections.abc import Callable, Sequence
from secrets import token_urlsafe
from typing import Any, Final, Protocol, cast

from bmq.hdfs.delimited import read_delimited
from bmq.hdfs.errors import HandshakeFailed
from bmq.hdfs.proto.hdfs_pb2 import Token
from bmq.hdfs.proto.namenode_pb2 import DataEncryptionKey
from bmq.hdfs.sasl.secured_transport import RECEIVED_BYTES, SecuredTransport, receiver_of, write_alike
from bmq.hdfs.sasl.transfer_handshake import MESSAGE_BYTES_MAX, TransferHandshake, TransferSecret
from bmq.hdfs.security import PRIVILEGED_PORTS, HadoopSecurity, Protection
from bmq.hdfs.transfer_connector import PROTECTION_ADVICE
from bmq.log.store import Buffer, StoreError

CNONCE_BYTES: Final = 24
KEY_MARGIN_MS: Final = 60_000  # a new encryption key is fetched this long before the present one expires


class EncryptionKeys(Protocol):
    """The NameNode calls that give the encryption key of the cluster's data transfers."""

    async def is_data_encrypted(self) -> bool: ...

    async def data_encryption_key(self) -> DataEncryptionKey: ...


class SecureConnector:
    """Implements bmq.hdfs.transfer_connector.TransferConnector. `now_ms`: the wall clock, which keys' expiry refers to."""

    def __init__(
        self,
        security: HadoopSecurity,
        keys: EncryptionKeys,
        *,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._security = security
        self._keys = keys
        self._now_ms = now_ms
        self._is_encrypted: bool | None = None  # dfs.encrypt.data.transfer, by the NameNode; None: not asked yet
        self._key: DataEncryptionKey | None = None
        self._memory = memoryview(bytearray(RECEIVED_BYTES))

    async def connect(self, protocol: Any, host: str, port: int, token: Token) -> None:
        secret = await self._secret(port, token)
        if secret is None:
            await asyncio.get_running_loop().create_connection(lambda: protocol, host, port)
            return
        handshake = TransferHandshake(
            secret,
            wanted=(Protection.PRIVACY,) if self._is_encrypted else self._security.data,
            is_aes=self._security.is_aes,
            cnonce=token_urlsafe(CNONCE_BYTES),
        )
        try:
            await _connect(protocol, host, port, handshake, self._memory)
        except HandshakeFailed:
            if handshake.is_key_unknown:
                self._key = None  # the NameNode has new keys: the next connection asks for one
            raise

    def write_to_all(self, transports: Sequence[asyncio.Transport], pieces: Sequence[Buffer]) -> None:
        write_alike(transports, pieces)

    async def _secret(self, port: int, token: Token) -> TransferSecret | None:
        """The secret for a login to this port; None if the connection has no login. Raises HandshakeFailed.

        The conditions and their order are those of Hadoop's SaslDataTransferClient.send.
        """
        try:
            if self._is_encrypted is None:
                self._is_encrypted = await self._keys.is_data_encrypted()
            if self._is_encrypted:
                if self._key is None or self._key.expiry_date - KEY_MARGIN_MS <= self._now_ms():
                    self._key = await self._keys.data_encryption_key()
                return TransferSecret.of_key(self._key)
        except StoreError as error:
            raise HandshakeFailed(str(error)) from error
        if port < PRIVILEGED_PORTS or not self._security.data:
            return None
        return TransferSecret.of_token(token)


async def _connect(
    protocol: asyncio.BaseProtocol, host: str, port: int, handshake: TransferHandshake, memory: memoryview
) -> None:
    loop = asyncio.get_running_loop()
    exchange = _Exchange(handshake, loop.create_future())
    transport, _ = await loop.create_connection(lambda: exchange, host, port)
    is_done = False
    try:
        await exchange.done
        if transport.is_closing():
            raise HandshakeFailed("it closed the connection after the login")
        # The event loop chooses how to read by the protocol that it knows: pause, so that it chooses anew.
        transport.pause_reading()
        receiver: asyncio.BaseProtocol = protocol
        sender: asyncio.Transport = transport
        if handshake.codec is not None:
            receiver = receiver_of(transport, handshake.codec, protocol, memory)
            sender = SecuredTransport(transport, handshake.codec)
        transport.set_protocol(receiver)
        protocol.connection_made(sender)
        if not transport.is_closing():
            transport.resume_reading()
        is_done = True
    finally:
        if not is_done:
            transport.abort()


class _Exchange(asyncio.Protocol):
    """The protocol of a connection during its login. `done` ends with the login, or with its error."""

    def __init__(self, handshake: TransferHandshake, done: Future[None]) -> None:
        self.done = done
        self._handshake = handshake
        self._transport: asyncio.Transport | None = None
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._handshake.first())

    def data_received(self, data: bytes) -> None:
        self._received += data
        try:
            while not self._handshake.is_complete:
                message = self._message()
                if message is None:
                    return
                assert self._transport is not None
                self._transport.write(self._handshake.take(message))
            if self._received:
                raise HandshakeFailed("it sent bytes behind the end of the login")
        except HandshakeFailed as error:
            self._fail(error)
            return
        if not self.done.done():
            self.done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(HandshakeFailed(f"it closed the connection during the login: {PROTECTION_ADVICE}"))

    def _message(self) -> bytes | None:
        """The next message, taken from the received bytes; None until it is whole. Raises HandshakeFailed if it is too long."""
        if len(self._received) > MESSAGE_BYTES_MAX:
            raise HandshakeFailed("its part of the login is too long")
        try:
            message, end = read_delimited(self._received, 0)
        except ValueError:
            return None
        self._received = self._received[end:]
        return message

    def _fail(self, error: HandshakeFailed) -> None:
        if not self.done.done():
            self.done.set_exception(error)
            self.done.exception()  # marks the error as retrieved: the caller may have been cancelled
