"""How a client authenticates: by name alone (SIMPLE), or by a SASL mechanism (the package bmq.hdfs.sasl).

The first byte of a connection names the method. SIMPLE sends nothing else: the user's name is part of the connection's
context. With SASL both sides exchange RpcSasl messages until the server sends SUCCESS. Only then is the context sent. A
server that refuses SIMPLE says so in its first answer.
"""

from __future__ import annotations

from typing import Final, Protocol

from bmq.dataclass import dataclass
from bmq.hdfs.errors import (
    AuthenticationRequired,
    PermissionRefused,
    RemoteError,
    is_retriable,
    is_standby,
    peers_words,
)
from bmq.hdfs.proto.rpc_pb2 import RpcSasl, UserInformation
from bmq.log.store import StoreError

NO_NEGOTIATION: Final = 0
SASL_NEGOTIATION: Final = 0xDF

# Reserved call ids, used by other messages than calls.
SASL_CALL_ID: Final = -33
CONTEXT_CALL_ID: Final = -3

FATAL_UNAUTHORIZED: Final = 15  # RpcErrorCodeProto


class MessageLayer(Protocol):
    """Protects the messages of a connection after the login. Messages are numbered, so each is sent in the order in which it
    was made.
    """

    @property
    def bytes_max(self) -> int:
        """Most bytes of one message."""

    def wrap(self, data: bytes | bytearray | memoryview) -> bytes: ...

    def unwrap(self, message: bytes | bytearray | memoryview) -> bytes:
        """The data of a message. Raises StoreError: the message was changed, or is out of order."""


class Negotiation(Protocol):
    """The part of a connection that SASL needs. `host`: the server's name, as it was dialled."""

    @property
    def host(self) -> str: ...

    async def exchange(self, message: RpcSasl) -> RpcSasl:
        """Send a message and wait for the server's. Raises StorageUnavailable, and the errors of `refusal`."""


class Authentication(Protocol):
    """`first_byte`: NO_NEGOTIATION or SASL_NEGOTIATION. `user_information`: the user in the connection's context."""

    @property
    def first_byte(self) -> int: ...

    @property
    def user_information(self) -> UserInformation: ...

    async def negotiate(self, negotiation: Negotiation) -> MessageLayer | None:
        """Log in. Called once for each connection, after its first bytes and before its context. Raises StoreError.

        Returns the layer that protects later messages; None without protection.
        """


@dataclass(frozen=True, slots=True)
class SimpleAuthentication:
    """The server trusts the user name in the context."""

    user: str

    @property
    def first_byte(self) -> int:
        return NO_NEGOTIATION

    @property
    def user_information(self) -> UserInformation:
        return UserInformation(effective_user=self.user)

    async def negotiate(self, negotiation: Negotiation) -> MessageLayer | None:
        """SIMPLE negotiates nothing."""


def sasl_demanded(server: str, message: RpcSasl) -> AuthenticationRequired:
    """The error for a server that sends SASL messages although we chose SIMPLE."""
    methods = peers_words(", ".join(dict.fromkeys(auth.method for auth in message.auths)))
    state = RpcSasl.State.Name(message.state)
    return AuthenticationRequired(
        f"{server} demands Kerberos (SASL): {_ADVICE} (the server sent {state}{': ' + methods if methods else ''})"
    )


def refusal(server: str, error: RemoteError, error_detail: int, *, is_sasl: bool = False) -> StoreError | None:
    """The error for a connection refused because of the user or the authentication; None for any other reason.

    A NameNode that is not active cannot look a delegation token up: then another one has to be asked.
    """
    if is_standby(error) or is_retriable(error):
        return None
    if error.name == "AuthorizationException":
        return PermissionRefused(f"{server} does not let this user in: {error.message} ({error.name})")
    if error_detail == FATAL_UNAUTHORIZED or (is_sasl and error.name in _LOGIN_ERRORS):
        reason = (
            f"does not accept the login{_login_advice(error)}" if is_sasl else f"demands Kerberos (SASL): {_ADVICE}"
        )
        return AuthenticationRequired(f"{server} {reason}: {error.message} ({error.name})")
    return None


def _login_advice(error: RemoteError) -> str:
    """What to change, if the server's message does not say it."""
    return next((f", {advice}" for part, advice in _LOGIN_ADVICE if part in error.message), "")


_ADVICE: Final = "name the directory of the cluster's core-site.xml and hdfs-site.xml in HADOOP_CONF_DIR"
_LOGIN_ERRORS: Final = frozenset({"SaslException", "InvalidToken", "AccessControlException"})
_LOGIN_ADVICE: Final = (
    (
        "GSS initiate failed",
        "and its log says why: set its clock and the one of this machine right, or give it a keytab with the present keys of"
        " its principal",
    ),
    ("No rules applied", "add a rule for the principal to hadoop.security.auth_to_local in its core-site.xml"),
    (
        "HDFS_DELEGATION_TOKEN",
        "the delegation token that this job was given has ended: begin the work anew, and keep the driver running, which"
        " renews its tokens up to dfs.namenode.delegation.token.max-lifetime",
    ),
)
