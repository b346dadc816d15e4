"""The client's side of DIGEST-MD5 (RFC 2831), as Hadoop uses it for tokens. Pure.

The token's identifier is the user name, and its password the password. The server sends a challenge, the client a response, and
the server a proof that it knows the password, too. Then messages are signed (auth-int), or signed and encrypted with RC4
(auth-conf). 3DES and DES are not supported.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Sequence
from struct import Struct
from typing import TYPE_CHECKING, Final

from bmq.hdfs.errors import AuthenticationRequired, peers_words
from bmq.hdfs.sasl.signatures import SIGNATURE_BYTES, signatures
from bmq.hdfs.security import Protection
from bmq.log.store import Buffer

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import CipherContext

CHALLENGE_BYTES_MAX: Final = 4096
BUFFER_BYTES: Final = 65536  # the longest message that we accept: `maxbuf`, as Java's default
CIPHER: Final = "rc4"

_DIRECTIVE: Final = re.compile(rb'\s*([!#$%&\'*+.^_`|~0-9A-Za-z-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]*))\s*(,|$)')
_NONCE_COUNT: Final = b"00000001"
_NO_BODY: Final = b":00000000000000000000000000000000"
_MAC_BYTES: Final = 10
_VERSION: Final = b"\x00\x01"
_SEQUENCE: Final = Struct(">I")
_SEQUENCES: Final = 1 << 32
_TAIL_BYTES: Final = len(_VERSION) + _SEQUENCE.size
MESSAGE_BYTES_MORE: Final = _MAC_BYTES + _TAIL_BYTES
"""Bytes of a protected message besides its data: signature, version and sequence number."""


class BadDigest(AuthenticationRequired):
    """A challenge or message that violates the protocol, or was changed in transit."""


class DigestMd5:
    """The client's state of one login.

    `user`, `password`: the token's, as text. `service`, `host`: the server's, for digest-uri. `wanted`: protections, in order of
    preference. `cnonce`: random text. `protection` is set after the first step, `layer` after the last (None without protection).
    """

    def __init__(
        self,
        user: str,
        password: str,
        *,
        service: str,
        host: str,
        wanted: Sequence[Protection],
        cnonce: str,
    ) -> None:
        self._user = user.encode()
        self._password = password.encode()
        self._uri = f"{service}/{host}".encode()
        self._wanted = tuple(wanted)
        self._cnonce = cnonce.encode()
        self._expected_proof = b""
        self._secret = b""
        self._peer_bytes_max = BUFFER_BYTES
        self.protection: Protection | None = None
        self.layer: DigestLayer | None = None
        self.is_complete = False

    def step(self, challenge: bytes) -> bytes:
        """The response to the server's message; empty to its last one. Raises BadDigest, AuthenticationRequired."""
        if self.is_complete:
            raise BadDigest("the server sent another DIGEST-MD5 message after the last one")
        directives = _directives(challenge)
        if self.protection is not None:
            self._end(directives)
            return b""
        return self._respond(directives)

    def _respond(self, directives: dict[bytes, bytes]) -> bytes:
        if directives.get(b"algorithm") != b"md5-sess" or not directives.get(b"nonce"):
            raise BadDigest("the server's challenge is none of DIGEST-MD5")
        offered = {word.strip() for word in directives.get(b"qop", b"auth").split(b",")}
        protection = next((one for one in self._wanted if one.qop.encode() in offered), None)
        if protection is None:
            raise AuthenticationRequired(
                f"the server offers {_names(offered)}, the configuration here demands"
                f" {' or '.join(self._wanted)}: set dfs.data.transfer.protection and hadoop.rpc.protection alike on both"
                " sides"
            )
        ciphers = {word.strip() for word in directives.get(b"cipher", b"").split(b",")}
        if protection is Protection.PRIVACY and CIPHER.encode() not in ciphers:
            raise AuthenticationRequired(
                f"the server offers the ciphers {_names(ciphers)} for privacy: set"
                " dfs.encrypt.data.transfer.algorithm to rc4, and dfs.encrypt.data.transfer.cipher.suites to"
                " AES/CTR/NoPadding for the data"
            )
        realm, nonce = directives.get(b"realm", b""), directives[b"nonce"]
        identity = hashlib.md5(b":".join((self._user, realm, self._password)), usedforsecurity=False).digest()
        self._secret = _md5(b":".join((identity, nonce, self._cnonce)))
        suffix = b"" if protection is Protection.AUTHENTICATION else _NO_BODY

        def proof(method: bytes) -> bytes:
            qop = protection.qop.encode()
            parts = (
                _hex(self._secret),
                nonce,
                _NONCE_COUNT,
                self._cnonce,
                qop,
                _hex(_md5(method + self._uri + suffix)),
            )
            return _hex(_md5(b":".join(parts)))

        self._expected_proof = proof(b":")
        self.protection = protection
        answer = [
            b"charset=utf-8",
            b'username="' + _quoted(self._user) + b'"',
            b'realm="' + _quoted(realm) + b'"',
            b'nonce="' + _quoted(nonce) + b'"',
            b"nc=" + _NONCE_COUNT,
            b'cnonce="' + _quoted(self._cnonce) + b'"',
            b'digest-uri="' + self._uri + b'"',
            b"maxbuf=%d" % BUFFER_BYTES,
            b"response=" + proof(b"AUTHENTICATE:"),
            b"qop=" + protection.qop.encode(),
        ]
        if protection is Protection.PRIVACY:
            answer.append(b'cipher="' + CIPHER.encode() + b'"')
        self._peer_bytes_max = _size(directives.get(b"maxbuf", b"%d" % BUFFER_BYTES))
        return b",".join(answer)

    def _end(self, directives: dict[bytes, bytes]) -> None:
        if not hmac.compare_digest(directives.get(b"rspauth", b""), self._expected_proof):
            raise BadDigest("the server does not know the token's password")
        self.is_complete = True
        if self.protection is not Protection.AUTHENTICATION:
            is_sealed = self.protection is Protection.PRIVACY
            self.layer = DigestLayer(self._secret, is_sealed=is_sealed, peer_bytes_max=self._peer_bytes_max)


class DigestLayer:
    """Signs, and with `is_sealed` also encrypts, the messages after the login (RFC 2831, sections 2.3 and 2.4).

    Messages are numbered: send them in the order in which they were wrapped, and unwrap them in the order in which they came.
    `bytes_max`: most bytes of data in one message. `signing_key`: the key of outgoing messages.
    """

    def __init__(self, secret: bytes, *, is_sealed: bool, peer_bytes_max: int, is_client: bool = True) -> None:
        out, into = (b"client-to-server", b"server-to-client")[:: 1 if is_client else -1]
        signing = _md5(secret + b"Digest session key to " + out + b" signing key magic constant")
        checking = _md5(secret + b"Digest session key to " + into + b" signing key magic constant")
        self.signing_key = signing
        # HMAC objects that have hashed their key already: copying one costs half as much as making a new one.
        self._signing = hmac.new(signing, digestmod="md5")
        self._checking = hmac.new(checking, digestmod="md5")
        self._sealing: CipherContext | None = None
        self._opening: CipherContext | None = None
        if is_sealed:
            self._sealing = _rc4(_md5(secret + b"Digest H(A1) to " + out + b" sealing key magic constant"))
            self._opening = _rc4(_md5(secret + b"Digest H(A1) to " + into + b" sealing key magic constant"))
        self._sent = 0
        self._received = 0
        self.bytes_max = max(1, peer_bytes_max - MESSAGE_BYTES_MORE)

    def wrap(self, data: Buffer) -> bytes:
        """The message for `data`, which has at most `bytes_max` bytes."""
        return b"".join(self.wrap_pieces((data,)))

    def wrap_pieces(self, pieces: Sequence[Buffer]) -> list[Buffer]:
        """The message for data in several pieces, as pieces. Without encryption they are the same objects, not copies."""
        sequence = self.next_sequence()
        return self.message(pieces, _mac(self._signing, sequence, pieces), sequence)

    def next_sequence(self) -> bytes:
        """Take the next message's sequence number (4 bytes), which is signed in front of the data."""
        sequence = _SEQUENCE.pack(self._sent)
        self._sent = (self._sent + 1) % _SEQUENCES
        return sequence

    def message(self, pieces: Sequence[Buffer], mac: bytes, sequence: bytes) -> list[Buffer]:
        """The message, in pieces. `mac`: the first _MAC_BYTES of its signature. `sequence`: from `next_sequence`."""
        tail = _VERSION + sequence
        if self._sealing is None:
            return [*pieces, mac + tail]
        return [*map(self._sealing.update, pieces), self._sealing.update(mac) + tail]

    def unwrap(self, message: Buffer) -> bytes:
        """The data of the next message from the server. Raises BadDigest."""
        body, tail = message[:-_TAIL_BYTES], message[-_TAIL_BYTES:]
        sequence = _SEQUENCE.pack(self._received)
        if len(body) < _MAC_BYTES or tail != _VERSION + sequence:
            raise BadDigest("a message of the protected connection is out of order")
        self._received = (self._received + 1) % _SEQUENCES
        if self._opening is not None:
            body = self._opening.update(body)
        data = bytes(body[:-_MAC_BYTES])
        if not hmac.compare_digest(body[-_MAC_BYTES:], _mac(self._checking, sequence, (data,))):
            raise BadDigest("a message of the protected connection was changed under way")
        return data


def wrap_alike(layers: Sequence[DigestLayer], data: Buffer) -> list[list[Buffer]]:
    """One message of each layer for the same data, in one call of the kernel, which is faster than a call per layer.

    The data has at most as many bytes as the smallest `bytes_max`.
    """
    sequences = [layer.next_sequence() for layer in layers]
    macs = signatures(b"".join(layer.signing_key for layer in layers), b"".join(sequences), data)
    return [
        layer.message((data,), macs[at : at + _MAC_BYTES], sequence)
        for layer, sequence, at in zip(layers, sequences, range(0, len(macs), SIGNATURE_BYTES), strict=True)
    ]


def _directives(challenge: bytes) -> dict[bytes, bytes]:
    """The challenge's directives by lower-case name; of a repeated one the first. Raises BadDigest."""
    if len(challenge) > CHALLENGE_BYTES_MAX:
        raise BadDigest(f"the server's challenge has {len(challenge)} bytes")
    found: dict[bytes, bytes] = {}
    position = 0
    while position < len(challenge):
        match = _DIRECTIVE.match(challenge, position)
        if match is None or match.end() == position:
            raise BadDigest("the server's challenge is none of DIGEST-MD5")
        quoted, plain = match[2], match[3]
        found.setdefault(match[1].lower(), plain if quoted is None else re.sub(rb"\\(.)", rb"\1", quoted))
        position = match.end()
    return found


def _size(text: bytes) -> int:
    if not text.isdigit() or not 0 < int(text) < 1 << 24:
        raise BadDigest("the server's maxbuf is not a size from 1 to 16777215")
    return int(text)


def _names(words: set[bytes]) -> str:
    return peers_words(", ".join(sorted(word.decode("ascii", "replace") for word in words if word))) or "nothing"


def _quoted(text: bytes) -> bytes:
    return text.replace(b"\\", b"\\\\").replace(b'"', b'\\"')


def _md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()


def _hex(data: bytes) -> bytes:
    return data.hex().encode()


def _mac(keyed: hmac.HMAC, sequence: bytes, pieces: Iterable[Buffer]) -> bytes:
    made = keyed.copy()
    made.update(sequence)
    for piece in pieces:
        made.update(piece)
    return made.digest()[:_MAC_BYTES]


def _rc4(key: bytes) -> CipherContext:
    # The package cryptography comes with an extra, which clusters without protection do not need.
    from cryptography.hazmat.decrepit.ciphers.algorithms import ARC4
    from cryptography.hazmat.primitives.ciphers import Cipher

    return Cipher(ARC4(key), mode=None).encryptor()  # RC4 decrypts as it encrypts
