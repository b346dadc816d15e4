"""`/`: the web console. Its files are the same on every node and hold no data, so they are free; the API that they call is not."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from bmq.console.assets import PAGE, Asset, Assets

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    # A browser asks each time whether its copy is that of this node, so a page never mixes two releases.
    "cache-control": "no-cache",
    "vary": "accept-encoding",
}
_METHODS: Final = ["GET", "HEAD"]
_NOT_MODIFIED: Final = 304


def console_pages(assets: Assets | None = None) -> APIRouter:
    """`/` and `/console/NAME`."""
    router = APIRouter(include_in_schema=False)
    served = assets or Assets()

    async def answer(name: str, request: Request) -> Response:
        asset = served.named(name) if served.is_loaded else await run_in_threadpool(served.named, name)
        if asset is None:
            raise HTTPException(404)
        return _answer(asset, request)

    @router.api_route("/", methods=_METHODS)
    async def page(request: Request) -> Response:
        return await answer(PAGE, request)

    @router.api_route("/console/{name}", methods=_METHODS)
    async def file(name: str, request: Request) -> Response:
        return await answer(name, request)

    return router


def _answer(asset: Asset, request: Request) -> Response:
    headers = {**_HEADERS, "etag": asset.etag, "content-type": asset.content_type}
    if _has(request.headers.get("if-none-match", ""), asset.etag):
        return Response(status_code=_NOT_MODIFIED, headers=headers)
    body = asset.body
    if _takes_gzip(request.headers.get("accept-encoding", "")):
        body = asset.gzipped
        headers["content-encoding"] = "gzip"
    headers["content-length"] = str(len(body))
    return Response(b"" if request.method == "HEAD" else body, headers=headers)


def _has(condition: str, etag: str) -> bool:
    """Whether an If-None-Match names the ETag (RFC 9110, weak comparison)."""
    return any(
        one.strip() == "*" or one.strip().removeprefix("W/") == etag.removeprefix("W/") for one in condition.split(",")
    )


def _takes_gzip(accepted: str) -> bool:
    """Whether an Accept-Encoding allows gzip."""
    for one in accepted.lower().split(","):
        name, _, weight = one.partition(";")
        if name.strip() in ("gzip", "*"):
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
