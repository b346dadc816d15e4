"""The login to a DataNode's data transfer port, by DIGEST-MD5. Pure. Source: Hadoop's SaslDataTransferClient.

    -> magic number, empty message       <- challenge
    -> response, ciphers we know         <- proof, the cipher to use

The password is a block's token, or the cluster's encryption key.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Final

from google.protobuf.message import DecodeError

from bmq.dataclass import dataclass
from bmq.hdfs.delimited import delimited
from bmq.hdfs.errors import AuthenticationRequired, HandshakeFailed, peers_words
from bmq.hdfs.proto.hdfs_pb2 import Token
from bmq.hdfs.proto.namenode_pb2 import DataEncryptionKey
from bmq.hdfs.proto.transfer_pb2 import CipherOption, HandshakeMessage
from bmq.hdfs.sasl.digest_md5 import DigestMd5
from bmq.hdfs.sasl.transfer_codecs import AesCtrCodec, FramedCodec, TransferCodec
from bmq.hdfs.security import AES_SUITE, Protection

MAGIC: Final = b"\xde\xad\xbe\xef"
MESSAGE_BYTES_MAX: Final = 64 * 1024
_SERVICE: Final = "hdfs"
_HOST: Final = "0"


@dataclass(frozen=True, slots=True)
class TransferSecret:
    """The secret that both sides know, as a user name and password for DIGEST-MD5."""

    user: str
    password: str

    @classmethod
    def of_token(cls, token: Token) -> TransferSecret:
        return cls(b64encode(token.identifier).decode(), b64encode(token.password).decode())

    @classmethod
    def of_key(cls, key: DataEncryptionKey) -> TransferSecret:
        user = f"{key.key_id} {key.block_pool_id} {b64encode(key.nonce).decode()}"
        return cls(user, b64encode(key.encryption_key).decode())


class TransferHandshake:
    """One login. Send `first()`, then give each message of the server to `take` and send its result, until `is_complete`.

    `wanted`: protections, in order of preference. `is_aes`: offer AES-CTR, which is used with privacy alone. `codec`: protects
    the bytes after the login; None if they are not protected. `is_key_unknown`: the login failed because the DataNode does not
    know the encryption key, so a new one may help.
    """

    def __init__(self, secret: TransferSecret, *, wanted: Sequence[Protection], is_aes: bool, cnonce: str) -> None:
        self._digest = DigestMd5(
            secret.user, secret.password, service=_SERVICE, host=_HOST, wanted=wanted, cnonce=cnonce
        )
        self._is_aes = is_aes
        self.codec: TransferCodec | None = None
        self.is_complete = False
        self.is_key_unknown = False

    def first(self) -> bytes:
        return MAGIC + delimited(HandshakeMessage(status=HandshakeMessage.SUCCESS, payload=b""))

    def take(self, encoded: bytes) -> bytes:
        """The reply to the server's message; b"" to its last. Raises HandshakeFailed."""
        message = self._parsed(encoded)
        is_first = self._digest.protection is None
        try:
            payload = self._digest.step(message.payload)
        except AuthenticationRequired as error:
            raise HandshakeFailed(str(error)) from error
        if is_first:
            answer = HandshakeMessage(status=HandshakeMessage.SUCCESS, payload=payload)
            if self._is_aes and self._digest.protection is Protection.PRIVACY:
                answer.cipher_options.add(suite=CipherOption.AES_CTR_NOPADDING)
            return delimited(answer)
        self._choose_codec(message)
        self.is_complete = True
        return b""

    def _parsed(self, encoded: bytes) -> HandshakeMessage:
        try:
            message = HandshakeMessage.FromString(encoded)
        except DecodeError as error:
            raise HandshakeFailed("its answer to the login cannot be read") from error
        if not message.IsInitialized():
            raise HandshakeFailed("its answer to the login has no status that we know")
        if message.status == HandshakeMessage.SUCCESS:
            return message
        self.is_key_unknown = message.status == HandshakeMessage.ERROR_UNKNOWN_KEY
        reason = peers_words(message.message) or "no reason given"
        raise HandshakeFailed(f"it does not accept the login: {reason}", is_token_expired=message.is_access_token_error)

    def _choose_codec(self, message: HandshakeMessage) -> None:
        layer = self._digest.layer
        if layer is None:
            return
        if not (self._is_aes and self._digest.protection is Protection.PRIVACY):
            self.codec = FramedCodec(layer)
            return
        options = [one for one in message.cipher_options if one.suite == CipherOption.AES_CTR_NOPADDING]
        if not options:
            raise HandshakeFailed(
                f"it has no cipher for the data: set dfs.encrypt.data.transfer.cipher.suites to {AES_SUITE} in its"
                " hdfs-site.xml, as in the one of HADOOP_CONF_DIR"
            )
        option = options[0]
        try:
            in_key, out_key = layer.unwrap(option.in_key), layer.unwrap(option.out_key)
        except AuthenticationRequired as error:
            raise HandshakeFailed(str(error)) from error
        # The option names keys from the server's side: its in_key is for bytes that we send.
        self.codec = AesCtrCodec(out_key=in_key, out_iv=option.in_iv, in_key=out_key, in_iv=option.out_iv)
