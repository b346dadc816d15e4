"""`/docs`: Swagger UI over the OpenAPI document, from this server alone, so that it works on a closed network.

The assets are those of the package fastapi-offline. Its own page has an inline script, which a strict Content-Security-Policy
forbids; so do FastAPI's pages, which load everything from elsewhere.
"""

from __future__ import annotations

from importlib.resources import as_file, files
from typing import Final

from fastapi import APIRouter, Response
from fastapi.responses import HTMLResponse
from starlette.exceptions import HTTPException

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_ASSETS: Final = {
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "favicon.png": "image/png",
}
_START: Final = "start.js"
# Relative addresses, so that the page also works behind a proxy that adds a prefix.
_PAGE: Final = f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>bmq REST API</title>
<link rel="icon" href="docs/favicon.png">
<link rel="stylesheet" href="docs/swagger-ui.css">
</head>
<body>
<div id="swagger-ui"></div>
<noscript>The document itself: <a href="openapi.json">openapi.json</a></noscript>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/{_START}"></script>
</body>
</html>
"""
# validatorUrl: by default Swagger UI sends the document's address to validator.swagger.io.
_SCRIPT: Final = """SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  validatorUrl: null
});
"""
_HEADERS: Final = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "cache-control": "no-cache",
}


def documentation_pages() -> APIRouter:
    """`/docs` and what it loads."""
    router = APIRouter(include_in_schema=False)

    @router.get("/docs")
    async def page() -> HTMLResponse:
        return HTMLResponse(_PAGE, headers=_HEADERS)

    @router.get("/docs/{name}")
    def asset(name: str) -> Response:  # reads a file, so FastAPI runs it in a thread
        if name == _START:
            return Response(_SCRIPT, media_type="text/javascript", headers=_HEADERS)
        if name not in _ASSETS:
            raise HTTPException(404)
        with as_file(files("fastapi_offline") / "static" / name) as path:
            return Response(path.read_bytes(), media_type=_ASSETS[name], headers=_HEADERS)

    return router
