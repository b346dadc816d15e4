"""What may be wrong with the URL of an OTLP endpoint."""

from __future__ import annotations

import asyncio

import pytest

from bmq.server.otlp_endpoint import OtlpEndpoint

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "url", ["http://collector:port/v1/metrics", "http://[::/v1/metrics", "collector:4318/v1/metrics", "ftp://collector"]
)
def test_a_url_that_is_none_is_as_an_endpoint_that_does_not_answer(url: str) -> None:
    """The forwarder drops what it cannot send, and says why; another exception would end it."""

    async def story() -> None:
        endpoint = OtlpEndpoint(url)
        with pytest.raises(OSError, match=r"."):
            await endpoint.post(b"")
        await endpoint.close()

    asyncio.run(story())
