"""The server's side of DIGEST-MD5, from the text of RFC 2831."""

from __future__ import annotations

import hashlib
import re

from bmq.hdfs.sasl.digest_md5 import DigestLayer

QOPS = "auth,auth-int,auth-conf"


class DigestServer:
    """Knows one user. `answers`: what the client said; `layer`: the server's end of the protection."""

    def __init__(self, user: str, password: str, *, uri: str, qops: str = QOPS, ciphers: str = "3des,rc4,des") -> None:
        self._user = user
        self._password = password
        self._uri = uri
        self._qops = qops
        self._ciphers = ciphers
        self.nonce = "Zm9vYmFy+/="
        self.answers: dict[str, str] = {}
        self.layer: DigestLayer | None = None

    def challenge(self) -> bytes:
        return (
            f'realm="default",nonce="{self.nonce}",qop="{self._qops}",charset=utf-8,cipher="{self._ciphers}",'
            "algorithm=md5-sess"
        ).encode()

    def prove(self, answer: bytes) -> bytes:
        """The server's last message. Raises AssertionError: the client does not know the password."""
        found = re.findall(r'([a-z-]+)=(?:"([^"]*)"|([^,]*))', answer.decode())
        self.answers = {name: quoted or plain for name, quoted, plain in found}
        qop = self.answers["qop"]
        assert self.answers["username"] == self._user
        assert self.answers["digest-uri"] == self._uri
        assert self.answers["nonce"] == self.nonce
        assert qop in self._qops.split(",")
        first = hashlib.md5(f"{self._user}:default:{self._password}".encode()).digest()
        secret = hashlib.md5(first + f":{self.nonce}:{self.answers['cnonce']}".encode()).digest()
        assert self.answers["response"] == self._digest(secret, "AUTHENTICATE:"), "the password is wrong"
        if qop != "auth":
            is_sealed = qop == "auth-conf"
            self.layer = DigestLayer(secret, is_sealed=is_sealed, peer_bytes_max=65536, is_client=False)
        return b"rspauth=" + self._digest(secret, ":").encode()

    def _digest(self, secret: bytes, method: str) -> str:
        answers = self.answers
        body = "" if answers["qop"] == "auth" else ":" + "0" * 32
        second = hashlib.md5(f"{method}{self._uri}{body}".encode()).hexdigest()
        text = f"{secret.hex()}:{self.nonce}:{answers['nc']}:{answers['cnonce']}:{answers['qop']}:{second}"
        return hashlib.md5(text.encode()).hexdigest()
