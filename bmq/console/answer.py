"""What a browser is answered for a file of the console. Decisions only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from bmq.console.assets import Asset

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
_OK: Final = 200
_NOT_MODIFIED: Final = 304


class ConsoleAnswer(NamedTuple):
    """An HTTP response."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def console_answer(asset: Asset, *, is_head: bool, headers: Mapping[str, str]) -> ConsoleAnswer:
    """`headers`: of the request, by their names in lower case."""
    answered = {**_HEADERS, "etag": asset.etag, "content-type": asset.content_type}
    if _has(headers.get("if-none-match", ""), asset.etag):
        return ConsoleAnswer(_NOT_MODIFIED, answered, b"")
    body = asset.body
    if _takes_gzip(headers.get("accept-encoding", "")):
        body = asset.gzipped
        answered["content-encoding"] = "gzip"
    answered["content-length"] = str(len(body))
    return ConsoleAnswer(_OK, answered, b"" if is_head else body)


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
