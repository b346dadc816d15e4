"""Forwards queries on indexes to the query service, a process of its own (`bmq index serve`).

The HTTP client is imported and made with the first query, as for clients' metrics: servers do without.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field

from bmq.aio.http_handshakes import closing_handshakes
from bmq.protocol.errors import BmqError

if TYPE_CHECKING:
    import httpx

ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
QUERIES_MAX: Final = 4
"""Queries of one node under way: each may hold its answer in memory."""
TOKEN_BYTES_MAX: Final = 4_096


class IndexServiceSettings(BaseModel):
    """Where queries on indexes are answered."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str = Field("", pattern="^(https?://[^@]+)?$")
    """Address of `bmq index serve`, `http://HOST:PORT`; empty: this node answers no queries on indexes."""
    token_file: str = ""
    """File with the service's token in its first line; empty: the service asks for none."""
    timeout_ms: int = Field(60_000, ge=100)
    """How long a query may take; the service has a limit of its own."""


class IndexServiceAway(BmqError):
    """The query service does not answer, or there is none."""


class IndexQueries:
    """One in each process with REST pages."""

    def __init__(self, settings: IndexServiceSettings, transport: httpx.AsyncBaseTransport | None = None) -> None:
        """`transport`: in place of sockets, for tests."""
        self._settings = settings
        self._transport = transport
        self._client: httpx.AsyncClient | None = None
        self._under_way = 0

    async def ask(self, name: str, body: bytes) -> tuple[int, bytes]:
        """The service's status and answer. Raises IndexServiceAway."""
        if not self._settings.url:
            raise IndexServiceAway(
                "this node knows no query service: start `bmq index serve`, and name it in index_service.url, "
                "or ask with `bmq index query --local`"
            )
        if self._under_way >= QUERIES_MAX:
            raise IndexServiceAway(
                f"{QUERIES_MAX} queries on indexes are under way at this node; ask again in a moment"
            )
        self._under_way += 1
        try:
            return await self._ask(name, body)
        finally:
            self._under_way -= 1

    async def _ask(self, name: str, body: bytes) -> tuple[int, bytes]:
        import httpx

        if self._client is None:
            timeout = httpx.Timeout(self._settings.timeout_ms / 1_000, connect=5.0)
            self._client = httpx.AsyncClient(timeout=timeout, trust_env=False, transport=self._transport)
        url = f"{self._settings.url.rstrip('/')}/v1/indexes/{quote(name, safe='')}/query"
        headers = {"content-type": "application/json", **self._authorization()}
        answer = bytearray()
        timeout_ms = self._settings.timeout_ms
        traced = {"trace": closing_handshakes()}
        try:
            async with (
                asyncio.timeout(timeout_ms / 1_000),  # httpx's bounds each read, so not an answer that trickles
                self._client.stream("POST", url, content=body, headers=headers, extensions=traced) as response,
            ):
                async for chunk in response.aiter_bytes():
                    answer += chunk
                    if len(answer) > ANSWER_BYTES_MAX:
                        raise IndexServiceAway(
                            f"the answer has more than {ANSWER_BYTES_MAX} bytes; ask for a smaller limit"
                        )
        except TimeoutError:
            raise IndexServiceAway(
                f"the query service {self._settings.url} has not answered within {timeout_ms} ms"
            ) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            reason = str(error) or type(error).__name__
            raise IndexServiceAway(f"the query service {self._settings.url} does not answer: {reason}") from None
        return response.status_code, bytes(answer)

    def _authorization(self) -> dict[str, str]:
        """Read for each query, since a token may be replaced. Raises IndexServiceAway."""
        if not self._settings.token_file:
            return {}
        try:
            with Path(self._settings.token_file).open("rb") as file:
                token = file.read(TOKEN_BYTES_MAX).decode().partition("\n")[0].strip()
        except (OSError, UnicodeDecodeError):
            raise IndexServiceAway("index_service.token_file cannot be read on this node") from None
        return {"authorization": f"Bearer {token}"}
