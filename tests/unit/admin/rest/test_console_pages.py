"""`/` and its files: a strict policy, conditional and compressed answers, and nothing but the console's own files."""

from __future__ import annotations

import gzip
import re

import httpx
import pytest
from fastapi import FastAPI

from bmq.admin.rest.console_pages import console_pages
from bmq.console.assets import Assets
from tests.unit.admin.rest.cluster import RestCluster

pytestmark = pytest.mark.unit


def client() -> httpx.AsyncClient:
    app = FastAPI()
    app.include_router(console_pages())
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://node")


async def test_the_page_is_complete_under_its_own_policy() -> None:
    async with RestCluster() as cluster:
        answer = await cluster.client.get("/")
        assert answer.status_code == 200
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy and "*" not in policy and "http" not in policy and "data:" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        for address in re.findall(r'(?:src|href)="([^"#]+)"', answer.text):
            loaded = await cluster.client.get(f"/{address}")
            assert loaded.status_code == 200, address
            if address.startswith("console/"):
                assert loaded.headers["content-security-policy"] == policy


async def test_a_browser_that_has_a_file_is_told_so() -> None:
    async with client() as asking:
        first = await asking.get("/console/app.js")
        etag = first.headers["etag"]
        again = await asking.get("/console/app.js", headers={"if-none-match": f'"other", {etag}'})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
        assert again.headers["cache-control"] == "no-cache"
        changed = await asking.get("/console/app.js", headers={"if-none-match": '"other"'})
        assert changed.status_code == 200 and changed.content == first.content


@pytest.mark.parametrize(
    ("accepted", "is_gzip"), [("gzip, deflate", True), ("gzip;q=0", False), ("", False), ("br", False), ("*", True)]
)
async def test_who_takes_gzip_gets_it(accepted: str, is_gzip: bool) -> None:
    async with (
        client() as asking,
        asking.stream("GET", "/console/style.css", headers={"accept-encoding": accepted}) as answer,
    ):
        raw = b"".join([part async for part in answer.aiter_raw()])
        assert (answer.headers.get("content-encoding") == "gzip") is is_gzip
        assert answer.headers["content-length"] == str(len(raw))
        assert b"--page" in (gzip.decompress(raw) if is_gzip else raw)
        assert "accept-encoding" in answer.headers["vary"]


@pytest.mark.parametrize("path", ["/", "/console/app.js"])
async def test_head_has_the_headers_of_get_and_no_body(path: str) -> None:
    async with client() as asking:
        got, head = await asking.get(path), await asking.head(path)
        assert head.content == b""
        assert {**head.headers} == {**got.headers}


@pytest.mark.parametrize(
    "path",
    [
        "/console/none.js",
        "/console/..%2fassets.py",
        "/console/../assets.py",
        "/console/%2e%2e/assets.py",
        "/console/%2fetc%2fpasswd",
        "/console/app.js/",
        "/console/",
        "/console",
        "/console/app.js%00",
    ],
)
async def test_nothing_else_is_served(path: str) -> None:
    async with RestCluster() as cluster:
        answer = await cluster.client.get(path)
        assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")


async def test_nothing_is_in_memory_before_the_first_visit() -> None:
    assets = Assets()
    app = FastAPI()
    app.include_router(console_pages(assets))
    assert not assets.is_loaded
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://node") as asking:
        assert (await asking.get("/")).status_code == 200
    assert assets.is_loaded


async def test_other_methods_are_refused() -> None:
    async with client() as asking:
        assert (await asking.post("/")).status_code == 405
        assert (await asking.delete("/console/app.js")).status_code == 405
