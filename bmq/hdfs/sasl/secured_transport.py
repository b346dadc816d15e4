"""Transport and receivers that put a codec between a connection to a DataNode and its protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Final

from bmq.hdfs.errors import HandshakeFailed
from bmq.hdfs.packets import JOIN_BYTES_MAX
from bmq.hdfs.sasl.transfer_codecs import AesCtrCodec, FramedCodec, TransferCodec
from bmq.log.store import Buffer

RECEIVED_BYTES: Final = 256 * 1024


class SecuredTransport(asyncio.Transport):
    """A transport that encodes what is written to it."""

    def __init__(self, transport: asyncio.Transport, codec: TransferCodec) -> None:
        super().__init__()
        self._transport = transport
        self.codec = codec

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._transport.is_closing():
            self.send(self.codec.encode((data,)))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        if not self._transport.is_closing():
            self.send(self.codec.encode(tuple(list_of_data)))

    def send(self, pieces: Sequence[Buffer]) -> None:
        """Write pieces that the codec has encoded already."""
        if len(pieces) == 1:
            self._transport.write(pieces[0])
        elif sum(map(len, pieces)) <= JOIN_BYTES_MAX:
            self._transport.write(b"".join(pieces))
        else:
            self._transport.writelines(pieces)

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def close(self) -> None:
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)


def write_alike(transports: Sequence[asyncio.Transport], pieces: Sequence[Buffer]) -> None:
    """Write the same data to each transport. Signatures of all signed connections are computed in one call."""
    signing: list[tuple[SecuredTransport, FramedCodec]] = []
    for transport in transports:
        if isinstance(transport, SecuredTransport) and isinstance(codec := transport.codec, FramedCodec):
            if not transport.is_closing():
                signing.append((transport, codec))
        else:
            transport.writelines(pieces)
    if signing:
        encoded = FramedCodec.encode_alike([codec for _, codec in signing], pieces)
        for (transport, _), frames in zip(signing, encoded, strict=True):
            transport.send(frames)


class SecuredReceiver(asyncio.Protocol):
    """Decodes received bytes and gives them to `protocol`, an asyncio.Protocol or BufferedProtocol."""

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


class StreamReceiver(asyncio.BufferedProtocol):
    """Decrypts received bytes right into the buffers of `protocol`, many buffers per read; for a cipher without frames.

    `memory`: RECEIVED_BYTES to receive into. It is empty again when `buffer_updated` returns, so all connections of an event
    loop may share it.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        codec: AesCtrCodec,
        protocol: asyncio.BufferedProtocol,
        memory: memoryview,
    ) -> None:
        self._transport = transport
        self._codec = codec
        self._protocol = protocol
        self._memory = memory

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._memory

    def buffer_updated(self, nbytes: int) -> None:
        protocol, memory = self._protocol, self._memory
        at = 0
        while at < nbytes and not self._transport.is_closing():
            buffer = memoryview(protocol.get_buffer(nbytes - at))
            size_bytes = min(len(buffer), nbytes - at)
            self._codec.decode_into(memory[at : at + size_bytes], buffer[:size_bytes])
            at += size_bytes
            protocol.buffer_updated(size_bytes)

    def eof_received(self) -> bool | None:
        return self._protocol.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._protocol.connection_lost(exc)


def receiver_of(
    transport: asyncio.Transport, codec: TransferCodec, protocol: asyncio.BaseProtocol, memory: memoryview
) -> asyncio.BaseProtocol:
    """The fastest receiver that decodes for `protocol` with this codec. `memory`: as in StreamReceiver."""
    if isinstance(codec, AesCtrCodec) and isinstance(protocol, asyncio.BufferedProtocol):
        return StreamReceiver(transport, codec, protocol, memory)
    return SecuredReceiver(transport, codec, protocol)
