"""What protects the bytes between us and a DataNode after the login. Pure.

Either DIGEST-MD5 wraps them, in frames of `int32 length, message`; or AES in counter mode encrypts the whole stream, without
frames, and HDFS's own checksums alone tell damage.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, Protocol

from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from bmq.hdfs.errors import HandshakeFailed
from bmq.hdfs.sasl.digest_md5 import BadDigest, DigestLayer

FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
_LENGTH: Final = Struct(">i")

Bytes = bytes | bytearray | memoryview


class TransferCodec(Protocol):
    """One for each connection, as both have a state."""

    def encode(self, data: Bytes) -> bytes:
        """What to send for `data`."""

    def decode(self, data: Bytes) -> bytes:
        """The bytes that are whole now. Raises HandshakeFailed."""


class FramedCodec:
    """Signed, and where the layer encrypts, encrypted. Keeps at most one unfinished frame, of at most FRAME_BYTES_MAX."""

    def __init__(self, layer: DigestLayer) -> None:
        self._layer = layer
        self._received = bytearray()

    def encode(self, data: Bytes) -> bytes:
        frames = []
        view = memoryview(data)
        size_bytes = self._layer.bytes_max
        for start in range(0, len(view), size_bytes):
            message = self._layer.wrap(view[start : start + size_bytes])
            frames += [_LENGTH.pack(len(message)), message]
        return b"".join(frames)

    def decode(self, data: Bytes) -> bytes:
        received = self._received
        received += data
        found = []
        at = 0
        while len(received) - at >= _LENGTH.size:
            (length_bytes,) = _LENGTH.unpack_from(received, at)
            if not 0 < length_bytes <= FRAME_BYTES_MAX:
                raise HandshakeFailed(f"it sent a protected message of {length_bytes} bytes")
            end = at + _LENGTH.size + length_bytes
            if end > len(received):
                break
            try:
                found.append(self._layer.unwrap(received[at + _LENGTH.size : end]))
            except BadDigest as error:
                raise HandshakeFailed(str(error)) from error
            at = end
        del received[:at]
        return b"".join(found)


class AesCtrCodec:
    """`out_key`, `out_iv`: for what we send."""

    def __init__(self, *, out_key: bytes, out_iv: bytes, in_key: bytes, in_iv: bytes) -> None:
        self._sealing = _aes(out_key, out_iv)
        self._opening = _aes(in_key, in_iv)

    def encode(self, data: Bytes) -> bytes:
        return self._sealing.update(data)

    def decode(self, data: Bytes) -> bytes:
        return self._opening.update(data)


def _aes(key: bytes, iv: bytes) -> CipherContext:
    """Raises HandshakeFailed."""
    try:
        return Cipher(AES(key), CTR(iv)).encryptor()  # the same both ways
    except ValueError as error:
        raise HandshakeFailed(
            f"it sent a key of {len(key)} bytes, and a starting value of {len(iv)}, for AES"
        ) from error
