"""Codecs that protect the bytes between us and a DataNode after the login. Pure.

Either DIGEST-MD5 wraps the data in frames of `int32 length, message`; or AES in counter mode encrypts the whole stream, without
frames or signatures, so that only HDFS's own checksums detect damage.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, Protocol

from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from bmq.hdfs.buffer_slices import parts_of
from bmq.hdfs.errors import HandshakeFailed
from bmq.hdfs.sasl.digest_md5 import MESSAGE_BYTES_MORE, BadDigest, DigestLayer, wrap_alike
from bmq.log.store import Buffer

FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
_LENGTH: Final = Struct(">i")


class TransferCodec(Protocol):
    """Encodes and decodes one connection's bytes. It has state, so each connection needs its own."""

    def encode(self, pieces: Sequence[Buffer]) -> Sequence[Buffer]:
        """The bytes to send for this data, as pieces."""

    def decode(self, data: bytes) -> bytes:
        """The data that can be decoded so far, with these received bytes. Raises HandshakeFailed."""


class FramedCodec:
    """Frames that are signed, and encrypted if the layer encrypts. Keeps one unfinished frame of at most FRAME_BYTES_MAX."""

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
            return self._unwrap(memoryview(data)[_LENGTH.size :])  # most reads are one acknowledgement, a whole frame
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
        """The frames of each codec for the same data, as `encode` makes them; one call computes all signatures of a frame."""
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
    """AES-CTR without frames. `out_key`, `out_iv`: for bytes that we send; `in_key`, `in_iv`: for received ones."""

    def __init__(self, *, out_key: bytes, out_iv: bytes, in_key: bytes, in_iv: bytes) -> None:
        self._sealing = _aes(out_key, out_iv)
        self._opening = _aes(in_key, in_iv)

    def encode(self, pieces: Sequence[Buffer]) -> Sequence[Buffer]:
        return [self._sealing.update(piece) for piece in pieces]

    def decode(self, data: bytes) -> bytes:
        return self._opening.update(data)

    def decode_into(self, data: memoryview, target: memoryview) -> None:
        """Decrypt `data` into `target`, which has the same length and may be the same memory."""
        self._opening.update_into(data, target)


def _aes(key: bytes, iv: bytes) -> CipherContext:
    """A context that encrypts and decrypts. Raises HandshakeFailed for a key or an initial value of a wrong length."""
    try:
        return Cipher(AES(key), CTR(iv)).encryptor()  # counter mode decrypts as it encrypts
    except ValueError as error:
        raise HandshakeFailed(
            f"it sent a key of {len(key)} bytes and an initial value of {len(iv)} bytes for AES"
        ) from error
