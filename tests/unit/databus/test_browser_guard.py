"""Pages of other sites hand no records over: neither by their own name for this machine, nor to the door's address."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from bmq.databus.doors.browser_guard import guarded_door
from bmq.databus.settings import AgentSettings

pytestmark = pytest.mark.unit

ADDRESS = "127.0.0.1:8090"


async def door(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def status(method: str = "POST", settings: dict[str, Any] | None = None, **headers: str) -> int:
    application = guarded_door(
        door, AgentSettings.model_validate({"agent_id": "a", "http": ADDRESS, **(settings or {})})
    )
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(application), base_url=f"http://{ADDRESS}") as client:
        return (await client.request(method, "/v1/channels/c", headers=sent)).status_code


async def test_programs_and_the_own_address_are_let_in() -> None:
    assert await status() == 200
    for host in ("localhost:8090", "[::1]:8090", "127.0.0.1"):
        assert await status(host=host) == 200
    assert await status(origin=f"http://{ADDRESS}") == 200
    assert await status(sec_fetch_site="same-origin") == 200


@pytest.mark.parametrize("method", ["POST", "GET"])
async def test_a_name_that_was_made_to_resolve_here_is_refused(method: str) -> None:
    assert await status(method, host="evil.example:8090") == 421


async def test_orders_of_pages_of_other_sites_are_refused() -> None:
    assert await status(origin="http://evil.example") == 403
    assert await status(sec_fetch_site="cross-site") == 403
    assert await status("GET", sec_fetch_site="cross-site") == 200, "a link, as to the page of metrics"


async def test_with_a_token_any_name_is_let_in_and_no_page() -> None:
    for more in ({"http_token_file": "/token"}, {"http": "10.0.0.1:8090", "http_token_file": "/token"}):
        assert await status(settings=more, host="agent.example") == 200
        assert await status(settings=more, host="agent.example", origin="http://evil.example") == 403


async def test_a_unix_socket_is_left_as_it_is() -> None:
    socket = {"http": "unix:/run/http.sock"}
    assert await status(settings=socket, host="any", origin="http://evil.example") == 200
