"""A client of one cluster's REST API: it logs in at each node that it is sent to.

httpx leaves the login out where it is redirected to another address. Here that is right only for addresses outside the
cluster, and a node sends its clients to no other.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, Final

import httpx

from bmq.dataclass import dataclass
from bmq.rest_client.login import LoginUnusable, RestLogin

REDIRECTIONS_MAX: Final = 5
_NO_LOGIN: Final = RestLogin()
_NO_URL: Final = "it is no URL of the form https://HOST:PORT"
"""httpx's reasons quote parts, which may be a password that somebody put there."""


class NoUrl(LoginUnusable):
    """It is not the address of a node."""


@dataclass(frozen=True, slots=True)
class Page:
    """`content`: the first bytes of the body, without its compression; `is_cut`: it has more."""

    status: int
    headers: Mapping[str, str]
    content: bytes
    is_cut: bool


class RestClient:
    """Raises NoUrl, LoginUnusable. `transport`: in place of sockets, for tests."""

    def __init__(
        self,
        url: str,
        login: RestLogin = _NO_LOGIN,
        *,
        timeout: httpx.Timeout | float,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.url = url if "://" in url else f"http://{url}"
        login.check()
        try:
            parsed = httpx.URL(self.url)
        except (httpx.InvalidURL, ValueError):
            raise NoUrl(_NO_URL) from None
        if parsed.userinfo:
            raise NoUrl("it has a login in it, which other users of this machine could see; name a file of it instead")
        if parsed.scheme not in ("http", "https"):
            raise NoUrl(f"its scheme is {parsed.scheme}, and not http or https")
        self._is_https = parsed.scheme == "https"
        context = login.context()
        try:
            self._client = httpx.Client(
                base_url=self.url,
                timeout=timeout,
                transport=transport,
                trust_env=False,
                auth=_Auth(login) if login.has_credentials else None,
                verify=True if context is None else context,
            )
        except (httpx.InvalidURL, ValueError):
            raise NoUrl(_NO_URL) from None

    def close(self) -> None:
        self._client.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        json: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """The answer of the node that had to answer. Raises httpx.HTTPError, LoginUnusable."""
        return self._send(method, path, params, json, headers, is_stream=False)

    def page(self, path: str, *, bytes_max: int, params: Mapping[str, Any] | None = None) -> Page:
        """The page at `path`, at most `bytes_max` bytes of it. Raises httpx.HTTPError, LoginUnusable."""
        response = self._send("GET", path, params, None, None, is_stream=True)
        content = bytearray()
        try:
            for part in response.iter_bytes():
                content += part[: bytes_max + 1 - len(content)]
                if len(content) > bytes_max:
                    break
        finally:
            response.close()
        return Page(response.status_code, response.headers, bytes(content[:bytes_max]), len(content) > bytes_max)

    def _send(
        self,
        method: str,
        path: str,
        params: Mapping[str, Any] | None,
        json: Any,
        headers: Mapping[str, str] | None,
        *,
        is_stream: bool,
    ) -> httpx.Response:
        request = self._client.build_request(method, path, params=params, json=json, headers=dict(headers or {}))
        for _ in range(REDIRECTIONS_MAX):
            response = self._client.send(request, stream=is_stream)
            if response.next_request is None:
                return response
            response.close()
            request = response.next_request
            if self._is_https and request.url.scheme != "https":
                raise LoginUnusable(
                    f"{response.url.netloc.decode()} sends its clients to {request.url.scheme}://"
                    f"{request.url.netloc.decode()}, which is not encrypted: give all nodes rest_security.protocol = https"
                )
        raise httpx.TooManyRedirects("the nodes send their clients in a circle", request=request)


def why_no_connection(error: httpx.TransportError) -> str | None:
    """What TLS has to do with the failure, as the end of a sentence; None: nothing."""
    text = str(error)
    if "CERTIFICATE_VERIFY_FAILED" in text:
        reason = text.partition("certificate verify failed:")[2].partition("(_ssl")[0].strip() or "it is not trusted"
        return f"its certificate is refused: {reason}; name its authority with --rest-ca-file or BMQ_REST_CA_FILE"
    if "WRONG_VERSION_NUMBER" in text or "RECORD_LAYER_FAILURE" in text:
        return "it does not speak TLS: use http://"
    if "CERTIFICATE_REQUIRED" in text or "HANDSHAKE_FAILURE" in text:
        return "it wants a client certificate: name one with --rest-certificate-file or BMQ_REST_CERTIFICATE_FILE"
    return None


class _Auth(httpx.Auth):
    """Puts the login into each request."""

    def __init__(self, login: RestLogin) -> None:
        self._login = login

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        if self._login.token_file:
            request.headers["authorization"] = f"Bearer {self._login.token()}"
            yield request
            return
        yield from httpx.BasicAuth(self._login.user, self._login.password()).auth_flow(request)
