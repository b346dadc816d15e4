"""Pages of the nodes' REST API for a bundle. A node that hangs costs one wait; the reason stands in the bundle."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any, Final

import httpx

from bmq.cli.support_bundle.archive import ENTRY_BYTES_MAX, Archive
from bmq.rest_client.client import Page, RestClient, why_no_connection
from bmq.rest_client.login import SECRET_BYTES_MAX, LoginUnusable, RestLogin

ANSWER_MAX_S: Final = 3.0
PAGE_MAX_S: Final = 6.0
NODES_MAX: Final = 32
HEALTH: Final = "/v1/health"
OWN_PAGES: Final = (
    "/v1/cluster",
    "/v1/nodes",
    "/v1/topics?limit=1000",
    "/v1/groups?limit=1000",
    "/v1/history?limit=1000",
    "/v1/tasks?limit=100",
    "/v1/redrives?limit=100",
    "/v1/tables",
    "/metrics",
)
NODE_PAGES: Final = ("/metrics",)


class NoAnswer(Exception):
    """The node did not answer in time, or cannot be reached; a sentence."""


class RestPages:
    """`transport`: in place of sockets, for tests."""

    def __init__(self, login: RestLogin, archive: Archive, transport: httpx.BaseTransport | None = None) -> None:
        self._login = login
        self._archive = archive
        self._transport = transport

    async def collect(self, url: str) -> None:
        """The pages of the node at `url`, and the health and metrics of the nodes that it names."""
        cluster = await self._node("node", url, OWN_PAGES)
        others = [(name, other) for name, other in _others(cluster, url)][:NODES_MAX]
        await asyncio.gather(*(self._node(name, other, NODE_PAGES) for name, other in others))

    async def _node(self, name: str, url: str, pages: tuple[str, ...]) -> bytes:
        """Adds the pages; what /v1/cluster answered."""
        cluster = b""
        for place, path in enumerate((HEALTH, *pages)):
            try:
                page = await self._page(url, path)
            except NoAnswer as why:
                self._archive.note_missing(f"{name}{_file(path)}", str(why))
                for other in (HEALTH, *pages)[place + 1 :]:
                    self._archive.note_missing(f"{name}{_file(other)}", "not asked: the node does not answer")
                break
            if path == "/v1/cluster":
                cluster = page.content
            # A secret that the cut went through could not be known by its form.
            content = page.content[:-SECRET_BYTES_MAX] if page.is_cut else page.content
            text = content.decode(errors="replace")
            if page.status not in (httpx.codes.OK, httpx.codes.SERVICE_UNAVAILABLE):
                self._archive.note_missing(f"{name}{_file(path)}", f"{url}{path} answered {page.status}: {text[:300]}")
                continue
            self._archive.add_text(f"{name}{_file(path)}", text, is_cut=page.is_cut)
        return cluster

    async def _page(self, url: str, path: str) -> Page:
        def ask() -> Page:
            client = RestClient(url, self._login, timeout=ANSWER_MAX_S, transport=self._transport)
            try:
                return client.page(path, bytes_max=ENTRY_BYTES_MAX)
            finally:
                client.close()

        try:
            async with asyncio.timeout(PAGE_MAX_S):
                return await asyncio.to_thread(ask)
        except (TimeoutError, httpx.TimeoutException):
            raise NoAnswer(f"{url}{path} was not answered within {ANSWER_MAX_S:g} s") from None
        except httpx.HTTPError as error:
            why = why_no_connection(error) if isinstance(error, httpx.TransportError) else None
            raise NoAnswer(f"{url} cannot be asked: {why or error or type(error).__name__}") from None
        except LoginUnusable as error:
            raise NoAnswer(f"{url} cannot be asked: {error}") from None


def _others(cluster: bytes, url: str) -> Iterator[tuple[str, str]]:
    scheme, _, address = url.rstrip("/").partition("://")
    try:
        nodes: list[Any] = json.loads(cluster)["nodes"]
        for node in nodes:
            if node["rest"] and node["rest"] != address:
                yield f"node-{int(node['node_id'])}", f"{scheme}://{node['rest']}"
    except (ValueError, KeyError, TypeError):
        return


def _file(path: str) -> str:
    plain = path.partition("?")[0]
    return f"{plain}.txt" if plain == "/metrics" else f"{plain}.json"
