"""What the listeners for clients say at the start, and which certificates they take over while they run."""

from __future__ import annotations

import datetime
import ssl
from pathlib import Path
from typing import Any, Final

import pytest
import structlog
import trustme

from bmq.proxy.limits import ProxyLimits
from bmq.proxy.server import KafkaServer
from bmq.proxy.stats import ProxyStats
from bmq.server.client_listeners import ClientListeners
from bmq.server.settings import Settings

pytestmark = pytest.mark.unit

AUTHORITY: Final = trustme.CA()
ANYWHERE, HERE = "0.0.0.0", "127.0.0.1"


def keystore(directory: Path, *, expired: bool = False) -> Path:
    end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=-1 if expired else 1)
    path = directory / "node.pem"
    path.write_bytes(AUTHORITY.issue_cert("localhost", not_after=end).private_key_and_cert_chain_pem.bytes())
    path.chmod(0o600)
    AUTHORITY.cert_pem.write_to_path(str(directory / "ca.pem"))
    return path


class Start:
    """Listeners that are bound, and what was said."""

    def __init__(self, directory: Path, host: str, protocol: str, client_auth: str) -> None:
        kafka = {
            "listeners": f"OUTSIDE://{host}:0",
            "advertised.listeners": "OUTSIDE://localhost:9093",
            "listener.security.protocol.map": f"OUTSIDE:{protocol}",
            "ssl.keystore.location": str(directory / "node.pem"),
            "ssl.truststore.location": str(directory / "ca.pem"),
            "ssl.client.auth": client_auth,
        }
        self.proxy = KafkaServer(ProxyLimits(), ProxyStats())
        self.listeners = ClientListeners(self.proxy, Settings(kafka=kafka))

    async def said(self) -> dict[str, dict[str, Any]]:
        with structlog.testing.capture_logs() as logs:
            await self.listeners.bind()
        return {str(line["event"]): dict(line) for line in logs}

    @property
    def context(self) -> ssl.SSLContext | None:
        return self.proxy.entrances["OUTSIDE"].context

    async def renew(self) -> dict[str, dict[str, Any]]:
        (bound,) = self.listeners._bound
        assert bound.certificate is not None
        with structlog.testing.capture_logs() as logs:
            await bound.certificate.renew()
        return {str(line["event"]): dict(line) for line in logs}


@pytest.mark.parametrize(
    ("host", "protocol", "client_auth", "is_open"),
    [
        (ANYWHERE, "PLAINTEXT", "none", True),
        (ANYWHERE, "SSL", "none", True),
        (ANYWHERE, "SSL", "requested", True),
        (ANYWHERE, "SSL", "required", False),
        (HERE, "PLAINTEXT", "none", False),
        (HERE, "SSL", "none", False),
    ],
)
async def test_a_listener_that_lets_strangers_in_says_so(
    tmp_path: Path, host: str, protocol: str, client_auth: str, is_open: bool
) -> None:
    keystore(tmp_path)
    start = Start(tmp_path, host, protocol, client_auth)
    said = await start.said()
    assert ("listener_is_open" in said) is is_open
    await start.proxy.stop(0)


async def test_an_expired_certificate_is_said_at_the_start_and_never_taken_over(tmp_path: Path) -> None:
    path = keystore(tmp_path, expired=True)
    start = Start(tmp_path, HERE, "SSL", "none")
    reason = f"clients will refuse the certificate of {path}: certificate has expired"
    assert (await start.said())["certificate_not_valid"]["reason"] == reason
    first = start.context
    keystore(tmp_path)
    assert "certificate_renewed" in await start.renew()
    second = start.context
    assert second is not first
    keystore(tmp_path, expired=True)
    assert reason in (await start.renew())["certificate_not_renewed"]["reason"]
    assert start.context is second
    await start.proxy.stop(0)
