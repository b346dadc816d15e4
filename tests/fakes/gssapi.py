"""MIT's library and a server that takes its tokens, in memory: `monkeypatch.setitem(sys.modules, "gssapi", FakeGssapi())`.

A context says `ap-req PRINCIPAL NUMBER` first, is complete with the server's `ap-rep`, and wraps a message as `<…>`. `kdc`:
what the KDC answers, an error's text or nothing. `credentials`: what was asked for, one entry for each login.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

AP_REP = b"ap-rep"
AUTHENTICATION_ALONE = b"\x01\0\0\0"


class FakeGssError(Exception):
    """As the library words it."""

    def __init__(self, minor: str) -> None:
        super().__init__(f"Major (851968): Unspecified GSS failure, Minor (2529): {minor}")


class _Flag(enum.Enum):
    mutual_authentication = enum.auto()
    integrity = enum.auto()
    confidentiality = enum.auto()
    out_of_sequence_detection = enum.auto()


class FakeGssapi:
    """In place of the module."""

    RequirementFlag = _Flag
    NameType = SimpleNamespace(kerberos_principal="principal")
    MechType = SimpleNamespace(kerberos="krb5")
    exceptions = SimpleNamespace(GSSError=FakeGssError)

    def __init__(self) -> None:
        self.kdc = ""
        self.credentials: list[dict[str, Any]] = []
        self.contexts: list[FakeContext] = []

    def Name(self, name: str, kind: str) -> str:  # noqa: N802 as the module has it
        assert kind == "principal"
        return name

    def Credentials(self, **asked: Any) -> dict[str, Any]:  # noqa: N802
        if self.kdc:
            raise FakeGssError(self.kdc)
        self.credentials.append(asked)
        return asked

    def SecurityContext(self, *, name: str, creds: Any, usage: str, mech: str, flags: Sequence[_Flag]) -> FakeContext:  # noqa: N802
        assert (usage, mech) == ("initiate", "krb5") and _Flag.mutual_authentication in flags
        self.contexts.append(FakeContext(name, len(self.contexts) + 1))
        return self.contexts[-1]


class FakeContext:
    def __init__(self, principal: str, number: int) -> None:
        self.complete = False
        self._first = f"ap-req {principal} {number}".encode()
        self._is_begun = False

    def step(self, token: bytes | None) -> bytes | None:
        if not self._is_begun:
            self._is_begun = True
            return self._first
        if token != AP_REP:
            raise FakeGssError("Decrypt integrity check failed")
        self.complete = True
        return None

    def wrap(self, data: bytes, is_sealed: bool) -> Any:
        return SimpleNamespace(message=b"<" + data + b">")

    def unwrap(self, message: bytes) -> Any:
        if not message.startswith(b"<"):
            raise FakeGssError("Message is not of ours")
        return SimpleNamespace(message=message[1:-1])


class FakeAcceptor:
    """The server's side of one login. `is_content` once it has a right answer to its offer."""

    def __init__(self, offer: bytes = AUTHENTICATION_ALONE) -> None:
        self.heard: list[bytes] = []
        self._offer = offer

    @property
    def is_content(self) -> bool:
        return self.heard[-1:] == [b"<" + AUTHENTICATION_ALONE + b">"]

    def answer(self, token: bytes) -> bytes:
        self.heard.append(token)
        return (AP_REP, b"<" + self._offer + b">", b"")[len(self.heard) - 1]
