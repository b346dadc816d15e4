"""One GET from the event loop, of daemons on this machine that show their state as JSON."""

from __future__ import annotations

import httpx

from bmq.hdfs.config import Address


async def http_get(address: Address, path: str) -> bytes:
    """The body of the answer. Raises httpx.HTTPError, also for a status that is not 2xx. Limits in time are the caller's."""
    # Nothing on this machine is asked through a proxy, or over TLS: loading certificates each time costs more than the rest.
    async with httpx.AsyncClient(trust_env=False, verify=False, timeout=None) as client:
        response = await client.get(f"http://{address}{path}")
        response.raise_for_status()
        return response.content
