"""The negotiation of a login with a Hadoop RPC server: which method, and when it is complete. Pure.

    client NEGOTIATE -> server NEGOTIATE (its methods) -> client INITIATE -> CHALLENGE, RESPONSE ... -> SUCCESS

Source: Hadoop's SaslRpcClient. A server that reports success too early, or offers no login, is refused: bmq never falls back to
clear text.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from bmq.hdfs.errors import AuthenticationRequired, peers_words
from bmq.hdfs.proto.rpc_pb2 import RpcSasl

KERBEROS: Final = "KERBEROS"
TOKEN: Final = "TOKEN"
SIMPLE: Final = "SIMPLE"
TURNS_MAX: Final = 16
_MECHANISMS: Final = {KERBEROS: "GSSAPI", TOKEN: "DIGEST-MD5"}


class _State(Enum):
    ASKED = auto()
    CHOSEN = auto()
    UNDER_WAY = auto()
    CONTENT = auto()


class RpcNegotiation:
    """One login by `method`, KERBEROS or TOKEN. `server`: its name in error messages.

    Send `first()`. Give each message of the server to `take`, and send `reply` until `is_content`. At the end call `check_end`.
    """

    def __init__(self, server: str, method: str) -> None:
        self._server = server
        self._method = method
        self._state = _State.ASKED
        self._auth = RpcSasl.Auth()
        self._turns = 0

    @property
    def is_content(self) -> bool:
        """Whether the server has sent SUCCESS. The login is complete only if the mechanism is as well: see `check_end`."""
        return self._state is _State.CONTENT

    @property
    def protocol(self) -> str:
        """The first part of the server's principal, from the offer that was accepted."""
        return self._auth.protocol

    @property
    def server_id(self) -> str:
        """The second part of the server's principal (its host), from the offer that was accepted."""
        return self._auth.server_id

    def first(self) -> RpcSasl:
        return RpcSasl(state=RpcSasl.NEGOTIATE)

    def take(self, message: RpcSasl) -> bytes:
        """Accept a message of the server: the challenge in it, or b"". Raises AuthenticationRequired."""
        self._turns += 1
        if self._turns > TURNS_MAX:
            raise AuthenticationRequired(f"{self._server} does not come to an end with the login")
        if self._state is _State.ASKED:
            return self._take_offer(message)
        if self._state is _State.UNDER_WAY and message.state == RpcSasl.SUCCESS:
            self._state = _State.CONTENT
            return message.token
        if self._state is _State.UNDER_WAY and message.state == RpcSasl.CHALLENGE:
            return message.token
        raise AuthenticationRequired(f"{self._server} sent {RpcSasl.State.Name(message.state)} out of turn")

    def reply(self, token: bytes) -> RpcSasl:
        if self._state is _State.CHOSEN:
            self._state = _State.UNDER_WAY
            return RpcSasl(state=RpcSasl.INITIATE, token=token, auths=[self._auth])
        return RpcSasl(state=RpcSasl.RESPONSE, token=token)

    def check_end(self, *, is_mechanism_complete: bool) -> None:
        """Check that the mechanism had proven the server's identity when it sent SUCCESS. Raises AuthenticationRequired."""
        if not self.is_content or not is_mechanism_complete:
            raise AuthenticationRequired(f"{self._server} ended the login before it had proven who it is")

    def _take_offer(self, message: RpcSasl) -> bytes:
        mechanism = _MECHANISMS[self._method]
        offered = [(auth.method, auth.mechanism) for auth in message.auths]
        is_served = (self._method, mechanism) in offered
        if message.state == RpcSasl.SUCCESS or (not is_served and any(method == SIMPLE for method, _ in offered)):
            raise AuthenticationRequired(
                f"{self._server} demands no login, and the configuration in HADOOP_CONF_DIR demands Kerberos:"
                " bmq does not fall back to clear text, also if ipc.client.fallback-to-simple-auth-allowed is true;"
                " correct the one that is wrong"
            )
        if message.state != RpcSasl.NEGOTIATE:
            raise AuthenticationRequired(f"{self._server} sent {RpcSasl.State.Name(message.state)} out of turn")
        if not is_served:
            told = peers_words(", ".join(f"{method} ({name})" for method, name in offered)) or "nothing"
            raise AuthenticationRequired(f"{self._server} offers {told}, bmq needs {self._method} ({mechanism})")
        chosen = message.auths[offered.index((self._method, mechanism))]
        self._auth.CopyFrom(chosen)
        self._auth.ClearField("challenge")
        self._state = _State.CHOSEN
        return chosen.challenge
