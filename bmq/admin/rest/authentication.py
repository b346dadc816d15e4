"""Finds out who sends a request: by its password or token, else by its client's certificate. In front of everything else.

A login is demanded before a request's body is read and before its path is looked at, so that no page can be forgotten: only
OPEN_PATHS are there for clients without one. Imported at the start, so without the pages' libraries.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from http import HTTPStatus
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from bmq.admin.rest.credentials import Bearer, Credentials, Password, Unreadable, credentials_of
from bmq.admin.rest.principals import PEER, PRINCIPAL, STRANGER
from bmq.protocol.errors import BmqError
from bmq.protocol.request_context import ANONYMOUS
from bmq.security.bearer import BearerRefused, BearerUnavailable, BearerVerifier

OPEN_PATHS: Final = frozenset({("GET", "/v1/health"), ("GET", "/v1/health/live"), ("GET", "/"), ("HEAD", "/")})
"""Paths that need no login: what probes ask for, which names no partition to strangers, and the console's page."""
_CONSOLE_FILES: Final = "/console/"
"""Files of the console below this path need no login: it asks for one itself, and they are the same everywhere."""
BASIC: Final = "basic"
BEARER: Final = "bearer"
SCHEMES: Final = (BASIC, BEARER)
_CHALLENGES: Final = {BASIC: b'Basic realm="bmq", charset="UTF-8"', BEARER: b'Bearer realm="bmq"'}
_WRONG_TOKEN: Final = b'Bearer realm="bmq", error="invalid_token"'
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


class PasswordRefused(BmqError):
    """The user does not exist or has another password; the message is for the log."""


class PasswordUnavailable(BmqError):
    """Users cannot be looked up now; the same password may be right later."""


class PasswordVerifier(Protocol):
    """Checks users' passwords."""

    async def verify(self, user: str, password: str) -> str:
        """The user's name, without a type. Raises PasswordRefused, PasswordUnavailable."""


class Peer(Protocol):
    """The connection that a request came by. `principal`: by its client's certificate; None: it showed none."""

    @property
    def principal(self) -> str | None: ...

    def known(self) -> None:
        """Its client has said who it is, or need not."""


class Authentication:
    """An ASGI application around another one. `passwords`, `tokens`: None where nobody can log in that way; without both no
    login is demanded. `failure_delay_s`: before a wrong login is answered. `refused`: is told a client's host and why.
    """

    def __init__(
        self,
        app: Application,
        *,
        passwords: PasswordVerifier | None = None,
        tokens: BearerVerifier | None = None,
        failure_delay_s: float = 0.0,
        refused: Callable[[str, str], None] = lambda host, reason: None,
    ) -> None:
        self._app = app
        self._passwords = passwords
        self._tokens = tokens
        self._failure_delay_s = failure_delay_s
        self._refused = refused

    @property
    def is_demanded(self) -> bool:
        return self._passwords is not None or self._tokens is not None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # there is no other kind of request
        peer: Peer | None = scope.get(PEER)
        credentials = credentials_of(scope["headers"]) if self.is_demanded else None
        shown = None if peer is None else peer.principal
        if credentials is not None:
            try:
                principal = f"User:{await self._user(credentials)}"
            except (PasswordRefused, BearerRefused) as error:
                await self._refuse(scope, send, str(error), is_bearer=isinstance(credentials, Bearer))
                return
            except (PasswordUnavailable, BearerUnavailable) as error:
                await answer_problem(send, 503, f"logins cannot be checked now: {error}")
                return
        elif shown is not None:
            principal = shown
        elif not self.is_demanded:
            principal = ANONYMOUS
        elif is_open(scope["method"], scope["path"]):
            await self._app({**scope, PRINCIPAL: ANONYMOUS, STRANGER: True}, receive, send)
            return
        else:
            await self._challenge(send, f"log in: this address wants {self._wanted}")
            return
        if is_of_another_site(scope):
            await answer_problem(send, 403, "a page of another site may not give orders here")
            return
        if peer is not None:
            peer.known()
        await self._app({**scope, PRINCIPAL: principal}, receive, send)

    @property
    def _wanted(self) -> str:
        words = ["HTTP Basic"] * (self._passwords is not None) + ["a bearer token"] * (self._tokens is not None)
        return " or ".join(words)

    async def _user(self, credentials: Credentials) -> str:
        """Raises PasswordRefused, PasswordUnavailable, BearerRefused, BearerUnavailable."""
        match credentials:
            case Password(user, password) if self._passwords is not None:
                return await self._passwords.verify(user, password)
            case Bearer(token) if self._tokens is not None:
                return await self._tokens.verify(token)
            case Unreadable(reason):
                raise PasswordRefused(reason)
        raise PasswordRefused(f"this address does not take it; it wants {self._wanted}")

    async def _refuse(self, scope: Scope, send: Send, reason: str, *, is_bearer: bool) -> None:
        client = scope.get("client") or ("", 0)
        self._refused(str(client[0]), f"its login at REST failed: {reason}")
        await asyncio.sleep(self._failure_delay_s)
        await self._challenge(send, "the login is wrong, or has expired", is_bearer=is_bearer)

    async def _challenge(self, send: Send, detail: str, *, is_bearer: bool = False) -> None:
        offered = {BASIC: self._passwords, BEARER: self._tokens}
        headers = [
            (b"www-authenticate", _WRONG_TOKEN if is_bearer and scheme == BEARER else _CHALLENGES[scheme])
            for scheme, verifier in offered.items()
            if verifier is not None
        ]
        await answer_problem(send, 401, detail, headers)


def is_open(method: str, path: str) -> bool:
    """Whether a path is there for clients without a login."""
    return (method, path) in OPEN_PATHS or (method in ("GET", "HEAD") and path.startswith(_CONSOLE_FILES))


def is_of_another_site(scope: Mapping[str, Any]) -> bool:
    """Whether a browser sends an order for a page of elsewhere: it adds its login, whoever made the page."""
    if scope["method"] in _READING:
        return False
    headers: dict[bytes, bytes] = dict(scope["headers"])
    site = headers.get(b"sec-fetch-site")  # what browsers of today say, whatever a proxy does to Host
    if site is not None:
        return site not in (b"same-origin", b"none")
    origin = headers.get(b"origin")
    if origin is None:
        return False
    try:
        place = urlsplit(origin.decode("latin-1")).netloc
    except ValueError:
        return True
    return place.lower() != headers.get(b"host", b"").decode("latin-1").lower()


async def answer_problem(
    send: Send, status: int, detail: str, headers: list[tuple[bytes, bytes]] | None = None
) -> None:
    """A problem document (RFC 9457) without reading the request. The connection is closed: its body is not wanted."""
    problem = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    body = json.dumps(problem).encode()
    own = [
        (b"content-type", b"application/problem+json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": [*own, *(headers or [])]})
    await send({"type": "http.response.body", "body": body})
