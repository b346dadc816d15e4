"""`/`: the web console. Its files are the same on every node and hold no data, so they are free; the API that they call is not."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from bmq.console.answer import console_answer
from bmq.console.assets import PAGE, Assets

_METHODS: Final = ["GET", "HEAD"]


def console_pages(assets: Assets | None = None) -> APIRouter:
    """`/` and `/console/NAME`."""
    router = APIRouter(include_in_schema=False)
    served = assets or Assets()

    async def answer(name: str, request: Request) -> Response:
        asset = served.named(name) if served.is_loaded else await run_in_threadpool(served.named, name)
        if asset is None:
            raise HTTPException(404)
        found = console_answer(asset, is_head=request.method == "HEAD", headers=request.headers)
        return Response(found.body, status_code=found.status, headers=dict(found.headers))

    @router.api_route("/", methods=_METHODS)
    async def page(request: Request) -> Response:
        return await answer(PAGE, request)

    @router.api_route("/console/{name}", methods=_METHODS)
    async def file(name: str, request: Request) -> Response:
        return await answer(name, request)

    return router
