"""One GET on the event loop, for daemons on this machine that show their state as JSON."""

from __future__ import annotations

import httpx

from bmq.hdfs.config import Address


async def http_get(address: Address, path: str) -> bytes:
    """The body of the answer. Raises httpx.HTTPError, also for a status that is not 2xx. The caller limits the time."""
    # No proxy and no TLS on this machine: loading certificates each time would cost more than the request.
    async with httpx.AsyncClient(trust_env=False, verify=False, timeout=None) as client:
        response = await client.get(f"http://{address}{path}")
        response.raise_for_status()
        return response.content
