"""A connection to a DataNode as its protocol sees it, with a codec between the two."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from bmq.hdfs.errors import HandshakeFailed
from bmq.hdfs.sasl.transfer_codecs import AesCtrCodec, TransferCodec


class SecuredTransport(asyncio.Transport):
    """Encodes what is written."""

    def __init__(self, transport: asyncio.Transport, codec: TransferCodec) -> None:
        super().__init__()
        self._transport = transport
        self._codec = codec

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._transport.is_closing():
            self._transport.writelines(self._codec.encode((data,)))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        if not self._transport.is_closing():
            self._transport.writelines(self._codec.encode(tuple(list_of_data)))

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def close(self) -> None:
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)


class SecuredReceiver(asyncio.Protocol):
    """Decodes what comes, for `protocol`: an asyncio.Protocol or BufferedProtocol."""

    def __init__(self, transport: asyncio.Transport, codec: TransferCodec, protocol: asyncio.BaseProtocol) -> None:
        self._transport = transport
        self._codec = codec
        self._protocol = protocol
        self._damage: HandshakeFailed | None = None

    def data_received(self, data: bytes) -> None:
        if self._transport.is_closing():
            return
        try:
            decoded = self._codec.decode(data)
        except HandshakeFailed as error:
            self._damage = error
            self._transport.abort()
            return
        if not decoded:
            return
        if isinstance(self._protocol, asyncio.BufferedProtocol):
            self._fill(self._protocol, memoryview(decoded))
        elif isinstance(self._protocol, asyncio.Protocol):
            self._protocol.data_received(decoded)

    def connection_lost(self, exc: Exception | None) -> None:
        self._protocol.connection_lost(self._damage or exc)

    def _fill(self, protocol: asyncio.BufferedProtocol, data: memoryview) -> None:
        while data and not self._transport.is_closing():
            buffer = memoryview(protocol.get_buffer(len(data)))
            size_bytes = min(len(buffer), len(data))
            buffer[:size_bytes] = data[:size_bytes]
            protocol.buffer_updated(size_bytes)
            data = data[size_bytes:]


class InPlaceReceiver(asyncio.BufferedProtocol):
    """Decrypts what comes where `protocol` wants it: no byte is copied. For a cipher without frames."""

    def __init__(self, codec: AesCtrCodec, protocol: asyncio.BufferedProtocol) -> None:
        self._codec = codec
        self._protocol = protocol
        self._buffer = memoryview(b"")

    def get_buffer(self, sizehint: int) -> memoryview:
        self._buffer = memoryview(self._protocol.get_buffer(sizehint))
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        received, self._buffer = self._buffer[:nbytes], memoryview(b"")
        self._codec.decode_in_place(received)
        self._protocol.buffer_updated(nbytes)

    def eof_received(self) -> bool | None:
        return self._protocol.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._protocol.connection_lost(exc)


def receiver_of(
    transport: asyncio.Transport, codec: TransferCodec, protocol: asyncio.BaseProtocol
) -> asyncio.BaseProtocol:
    """What decodes for `protocol`, in the quickest way."""
    if isinstance(codec, AesCtrCodec) and isinstance(protocol, asyncio.BufferedProtocol):
        return InPlaceReceiver(codec, protocol)
    return SecuredReceiver(transport, codec, protocol)
