"""A client of a cluster's REST API: every failure is one sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Self
from uuid import uuid4

import httpx

from bmq.cli.rest_options import current_login
from bmq.protocol.errors import BmqError
from bmq.rest_client.client import NoUrl, RestClient, why_no_connection

WAIT_S: Final = 15.0
CONNECT_WAIT_S: Final = 3.0
POLL_WAIT_MS: Final = 10_000
_SENTENCE_CHARACTERS_MAX: Final = 500
_LOGIN_HINT: Final = " (--rest-user and --rest-password-file, or --rest-token-file)"

TRANSPORT: httpx.BaseTransport | None = None
"""Transport of requests in place of sockets; tests set it."""


class ClusterUnreachable(BmqError):
    """Nothing answers at the URL, or the answer is not bmq's."""


class ClusterRefused(BmqError):
    """The cluster answered with a problem document; its sentence is the message."""


class TaskFailed(BmqError):
    """The task was begun and failed."""


class ClusterClient:
    """Logs in as the command's options say, and follows redirections to the active controller."""

    def __init__(self, url: str, transport: httpx.BaseTransport | None = None, *, wait_s: float = WAIT_S) -> None:
        """`wait_s`: for an answer. Raises ClusterUnreachable for an invalid URL, LoginUnusable."""
        self._wait_s = wait_s
        timeout = httpx.Timeout(wait_s, connect=CONNECT_WAIT_S)
        try:
            self._client = RestClient(url, current_login(), timeout=timeout, transport=transport or TRANSPORT)
        except NoUrl as error:
            raise ClusterUnreachable(f"--rest cannot be used: {error}") from error
        self._url = self._client.url

    def of_node(self, url: str) -> ClusterClient:
        """A client of another node, which this one names. Raises ClusterUnreachable: its address is not encrypted."""
        if self._url.startswith("https:") and not url.startswith("https:"):
            raise ClusterUnreachable(f"{url} is not encrypted, and {self._url} is")
        return ClusterClient(url)

    @property
    def scheme(self) -> str:
        """The scheme of the URL: http or https."""
        return self._url.partition(":")[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._client.close()

    def get(self, path: str, **query: Any) -> Any:
        """The JSON document at `path`; parameters that are None are left out."""
        return self._ask("GET", path, query)

    def order(self, path: str, body: Mapping[str, Any] | None = None, *, is_dry_run: bool = False) -> Any:
        """A plan with `is_dry_run`, else a task. If the answer is lost, the order is repeated under the same key."""
        query = {"dry_run": "true"} if is_dry_run else {}
        headers = {} if is_dry_run else {"Idempotency-Key": str(uuid4())}
        return self._ask("POST", path, query, body, headers)

    def change(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        is_dry_run: bool = False,
        **query: Any,
    ) -> Any:
        """A change that is done at once and may be repeated: it has no task and no key. `query`: as in `get`."""
        return self._ask(method, path, {**query, "dry_run": "true" if is_dry_run else None}, body)

    def follow(self, task: Any) -> Iterator[Any]:
        """The task now and after each change, up to its end."""
        yield task
        pages = "redrives" if task["kind"] == "redrive" else "tasks"
        while task["state"] == "running":
            task = self.get(f"/v1/{pages}/{task['id']}/events", after=task["version"], wait_ms=POLL_WAIT_MS)
            yield task

    def _ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any],
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        given = {name: value for name, value in query.items() if value is not None}
        try:
            try:
                response = self._client.request(method, path, params=given, json=body, headers=headers)
            except (httpx.ReadError, httpx.RemoteProtocolError):
                response = self._client.request(method, path, params=given, json=body, headers=headers)
        except httpx.ConnectError as error:
            if (why := why_no_connection(error)) is not None:
                raise ClusterUnreachable(f"{self._at(error)} cannot be asked: {why}") from error
            raise ClusterUnreachable(
                f"no node answers at {self._at(error)}; name a running node with --rest or BMQ_REST_URL"
            ) from error
        except httpx.TimeoutException as error:
            raise ClusterUnreachable(f"{self._at(error)} did not answer within {self._wait_s:g} s") from error
        except httpx.TooManyRedirects as error:
            raise ClusterUnreachable("the nodes do not agree on the active controller yet; ask again") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            why = why_no_connection(error) if isinstance(error, httpx.TransportError) else None
            reason = why or str(error) or type(error).__name__
            raise ClusterUnreachable(f"{self._url} cannot be asked: {reason}") from error
        return _document(response)

    def _at(self, error: httpx.RequestError) -> str:
        """The server asked last: perhaps the controller we were redirected to."""
        url = error.request.url
        return f"{url.scheme}://{url.netloc.decode()}"


def _document(response: httpx.Response) -> Any:
    try:
        document = response.json()
    except ValueError:
        document = None
    if response.is_success and document is not None:
        return document
    if isinstance(document, dict) and isinstance(document.get("detail"), str):
        hint = _LOGIN_HINT if response.status_code == httpx.codes.UNAUTHORIZED else ""
        raise ClusterRefused(document["detail"][:_SENTENCE_CHARACTERS_MAX] + hint)
    raise ClusterUnreachable(f"{response.url} answered {response.status_code}, and not as a bmq node does")
