"""Agreeing on a login with a Hadoop RPC server: which method, and when it is over. Pure.

    client NEGOTIATE -> server NEGOTIATE (what it offers) -> client INITIATE -> CHALLENGE, RESPONSE ... -> SUCCESS

Source: SaslRpcClient. A server that is content too early, or offers no login at all, is refused: nothing falls back to
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
    """One login by `method`, KERBEROS or TOKEN. `server`: for messages.

    Send `first()`; `take` each message of the server, and send `reply` to it until `is_content`.
    """

    def __init__(self, server: str, method: str) -> None:
        self._server = server
        self._method = method
        self._state = _State.ASKED
        self._auth = RpcSasl.Auth()
        self._turns = 0

    @property
    def is_content(self) -> bool:
        """The server has said SUCCESS. It counts only if the mechanism is complete, too: `check_end`."""
        return self._state is _State.CONTENT

    @property
    def protocol(self) -> str:
        """Of the offer that was taken: the first part of the server's principal."""
        return self._auth.protocol

    @property
    def server_id(self) -> str:
        """Of the offer that was taken: the second part of the server's principal, its host."""
        return self._auth.server_id

    def first(self) -> RpcSasl:
        return RpcSasl(state=RpcSasl.NEGOTIATE)

    def take(self, message: RpcSasl) -> bytes:
        """The challenge in it, empty when there is none. Raises AuthenticationRequired."""
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
        """Raises AuthenticationRequired: the server is content although nothing has proven who it is."""
        if not self.is_content or not is_mechanism_complete:
            raise AuthenticationRequired(f"{self._server} ended the login before it had proven who it is")

    def _take_offer(self, message: RpcSasl) -> bytes:
        mechanism = _MECHANISMS[self._method]
        offered = [(auth.method, auth.mechanism) for auth in message.auths]
        is_served = (self._method, mechanism) in offered
        if message.state == RpcSasl.SUCCESS or (not is_served and any(method == SIMPLE for method, _ in offered)):
            raise AuthenticationRequired(
                f"{self._server} demands no login, and the configuration in HADOOP_CONF_DIR says Kerberos:"
                " bmq does not fall back to clear text, whatever ipc.client.fallback-to-simple-auth-allowed says; correct"
                " the one that is wrong"
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
