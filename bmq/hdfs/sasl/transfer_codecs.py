"""What protects the bytes between us and a DataNode after the login. Pure.

Either DIGEST-MD5 wraps them, in frames of `int32 length, message`; or AES in counter mode encrypts the whole stream, without
frames, and HDFS's own checksums alone tell damage.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, Protocol

from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from bmq.hdfs.errors import HandshakeFailed
from bmq.hdfs.pieces import parts_of
from bmq.hdfs.sasl.digest_md5 import MESSAGE_BYTES_MORE, BadDigest, DigestLayer, wrap_alike
from bmq.log.store import Buffer

FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
_LENGTH: Final = Struct(">i")


class TransferCodec(Protocol):
    """One for each connection, as both have a state."""

    def encode(self, pieces: Sequence[Buffer]) -> Sequence[Buffer]:
        """What to send for data in several pieces."""

    def decode(self, data: bytes) -> bytes:
        """The bytes that are whole now. Raises HandshakeFailed."""


class FramedCodec:
    """Signed, and where the layer encrypts, encrypted. Keeps at most one unfinished frame, of at most FRAME_BYTES_MAX."""

    def __init__(self, layer: DigestLayer) -> None:
        self.layer = layer
        self._received = bytearray()

    def encode(self, pieces: Sequence[Buffer]) -> Sequence[Buffer]:
        size_bytes = sum(map(len, pieces))
        if size_bytes <= self.layer.bytes_max:
            return self._frame(pieces, size_bytes) if size_bytes else ()
        frames: list[Buffer] = []
        for part, part_bytes in parts_of(pieces, self.layer.bytes_max):
            frames += self._frame(part, part_bytes)
        return frames

    def decode(self, data: bytes) -> bytes:
        received = self._received
        if not received and len(data) > _LENGTH.size and _LENGTH.unpack_from(data)[0] == len(data) - _LENGTH.size:
            return self._unwrap(memoryview(data)[_LENGTH.size :])  # an acknowledgement, as they mostly come
        received += data
        found = []
        at = 0
        with memoryview(received) as view:
            while len(received) - at >= _LENGTH.size:
                (length_bytes,) = _LENGTH.unpack_from(received, at)
                if not 0 < length_bytes <= FRAME_BYTES_MAX:
                    raise HandshakeFailed(f"it sent a protected message of {length_bytes} bytes")
                end = at + _LENGTH.size + length_bytes
                if end > len(received):
                    break
                with view[at + _LENGTH.size : end] as message:
                    found.append(self._unwrap(message))
                at = end
        del received[:at]
        return b"".join(found)

    @staticmethod
    def encode_alike(codecs: Sequence[FramedCodec], pieces: Sequence[Buffer]) -> Sequence[Sequence[Buffer]]:
        """As `encode` of each codec, for the same data: its parts are joined, and signed for all of them at once."""
        layers = [codec.layer for codec in codecs]
        found: list[list[Buffer]] = [[] for _ in codecs]
        size_bytes, bytes_max = sum(map(len, pieces)), min(layer.bytes_max for layer in layers)
        parts = parts_of(pieces, bytes_max) if size_bytes > bytes_max else ((pieces, size_bytes),)
        for part, part_bytes in parts if size_bytes else ():
            length = _LENGTH.pack(part_bytes + MESSAGE_BYTES_MORE)
            data = part[0] if len(part) == 1 else b"".join(part)
            for frames, message in zip(found, wrap_alike(layers, data), strict=True):
                frames += (length, *message)
        return found

    def _frame(self, pieces: Sequence[Buffer], size_bytes: int) -> list[Buffer]:
        return [_LENGTH.pack(size_bytes + MESSAGE_BYTES_MORE), *self.layer.wrap_pieces(pieces)]

    def _unwrap(self, message: memoryview) -> bytes:
        try:
            return self.layer.unwrap(message)
        except BadDigest as error:
            raise HandshakeFailed(str(error)) from error


class AesCtrCodec:
    """`out_key`, `out_iv`: for what we send."""

    def __init__(self, *, out_key: bytes, out_iv: bytes, in_key: bytes, in_iv: bytes) -> None:
        self._sealing = _aes(out_key, out_iv)
        self._opening = _aes(in_key, in_iv)

    def encode(self, pieces: Sequence[Buffer]) -> Sequence[Buffer]:
        return [self._sealing.update(piece) for piece in pieces]

    def decode(self, data: bytes) -> bytes:
        return self._opening.update(data)

    def decode_into(self, data: memoryview, target: memoryview) -> None:
        """`target`: as long as the data, and may be the same memory."""
        self._opening.update_into(data, target)


def _aes(key: bytes, iv: bytes) -> CipherContext:
    """Raises HandshakeFailed."""
    try:
        return Cipher(AES(key), CTR(iv)).encryptor()  # the same both ways
    except ValueError as error:
        raise HandshakeFailed(
            f"it sent a key of {len(key)} bytes, and a starting value of {len(iv)}, for AES"
        ) from error
