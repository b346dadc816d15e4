"""What may be wrong with the URL of an OTLP endpoint."""

from __future__ import annotations

import asyncio

import pytest

from bmq.server.otlp_endpoint import OtlpEndpoint
from testing.patience import Patience

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


async def test_a_collector_that_hangs_in_the_handshake_keeps_no_connection() -> None:
    closed = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        closed.set()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        endpoint = OtlpEndpoint(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1/metrics")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await endpoint.post(b"")
        async with asyncio.timeout(Patience(10).limit_s):
            await closed.wait()
        await endpoint.close()
