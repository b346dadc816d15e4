"""One GET on the event loop, for daemons on this machine that show their state as JSON."""

from __future__ import annotations

import ssl

import httpx

from bmq.aio.http_handshakes import closing_handshakes
from bmq.dataclass import dataclass
from bmq.hdfs.config import Address
from bmq.rest_client.login import RestLogin


@dataclass(frozen=True, slots=True)
class HttpsAccess:
    """How to ask over TLS: made once, because reading certificates costs more than a request."""

    context: ssl.SSLContext
    auth: httpx.BasicAuth

    @classmethod
    def of(cls, login: RestLogin) -> HttpsAccess:
        """`login`: with an authority, a user and a password. Raises LoginUnusable."""
        context = login.context()
        assert context is not None
        return cls(context, httpx.BasicAuth(login.user, login.password()))


async def http_get(address: Address, path: str, access: HttpsAccess | None = None) -> bytes:
    """The body of the answer. Raises httpx.HTTPError, also for a status that is not 2xx. The caller limits the time."""
    # No proxy and, unless asked for, no TLS on this machine: loading certificates each time would cost more than the request.
    verify = False if access is None else access.context
    scheme, auth = ("http", None) if access is None else ("https", access.auth)
    async with httpx.AsyncClient(trust_env=False, verify=verify, timeout=None, auth=auth) as client:
        response = await client.get(f"{scheme}://{address}{path}", extensions={"trace": closing_handshakes()})
        response.raise_for_status()
        return response.content
