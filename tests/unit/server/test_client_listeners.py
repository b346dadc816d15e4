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
from bmq.server.tls import CLIENT_AUTH, WrongTls

pytestmark = pytest.mark.unit

AUTHORITY: Final = trustme.CA()
ANYWHERE, HERE = "0.0.0.0", "127.0.0.1"


def keystore(
    directory: Path, *hosts: str, expired: bool = False, unit: str = "nodes", authority: trustme.CA = AUTHORITY
) -> Path:
    """`unit`: a part of the distinguished name."""
    end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=-1 if expired else 1)
    path = directory / "node.pem"
    issued = authority.issue_cert(*(hosts or ("localhost",)), not_after=end, organization_unit_name=unit)
    path.write_bytes(issued.private_key_and_cert_chain_pem.bytes())
    path.chmod(0o600)
    AUTHORITY.cert_pem.write_to_path(str(directory / "ca.pem"))
    return path


class Start:
    """Listeners that are bound, and what was said."""

    def __init__(
        self, directory: Path, host: str, protocol: str, client_auth: str, more: dict[str, str] | None = None
    ) -> None:
        kafka = {
            "listeners": f"OUTSIDE://{host}:0",
            "advertised.listeners": "OUTSIDE://localhost:9093",
            "listener.security.protocol.map": f"OUTSIDE:{protocol}",
            "ssl.keystore.location": str(directory / "node.pem"),
            "ssl.truststore.location": str(directory / "ca.pem"),
            "ssl.client.auth": client_auth,
            **(more or {}),
        }
        self.proxy = KafkaServer(ProxyLimits(), ProxyStats())
        self.listeners = ClientListeners(self.proxy, Settings(kafka=kafka))

    async def said(self) -> dict[str, dict[str, Any]]:
        with structlog.testing.capture_logs() as logs:
            await self.listeners.bind()
        return {str(line["event"]): dict(line) for line in logs}

    @property
    def context(self) -> ssl.SSLContext | None:
        return self.proxy.listener_sockets["OUTSIDE"].context

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


@pytest.mark.parametrize("client_auth", ["none", "required"])
async def test_a_certificate_of_another_machine_is_not_taken_over(tmp_path: Path, client_auth: str) -> None:
    keystore(tmp_path, "localhost", "b1.example.org")
    start = Start(tmp_path, HERE, "SSL", client_auth)
    await start.said()
    first = start.context
    assert first is not None and first.verify_mode == CLIENT_AUTH[client_auth]
    for hosts, unit, why in (
        (("localhost",), "nodes", "lacks the alternative names b1.example.org: set ssl.allow.san.changes"),
        (("localhost", "b1.example.org"), "others", "'OU=others,O=trustme v"),
    ):
        keystore(tmp_path, *hosts, unit=unit)
        assert why in (await start.renew())["certificate_not_renewed"]["reason"]
        assert start.context is first
    keystore(tmp_path, "localhost", "b1.example.org", "b2.example.org")
    assert "certificate_renewed" in await start.renew()
    keystore(tmp_path, "localhost", "b1.example.org")
    assert "b2.example.org" in (await start.renew())["certificate_not_renewed"]["reason"], "the one in force counts"
    second = start.context
    assert second is not None and second is not first and second.verify_mode == CLIENT_AUTH[client_auth]
    await start.proxy.stop(0)


@pytest.mark.parametrize("prefix", ["", "listener.name.outside."])
async def test_configs_allow_other_names(tmp_path: Path, prefix: str) -> None:
    keystore(tmp_path, "localhost", "b1.example.org")
    allowed = {f"{prefix}ssl.allow.dn.changes": "true", f"{prefix}ssl.allow.san.changes": "true"}
    start = Start(tmp_path, HERE, "SSL", "none", allowed)
    await start.said()
    keystore(tmp_path, "c1.example.org", unit="others", authority=trustme.CA())
    assert "certificate_renewed" in await start.renew()
    await start.proxy.stop(0)


async def test_the_names_of_an_expired_certificate_count_as_well(tmp_path: Path) -> None:
    keystore(tmp_path, expired=True)
    start = Start(tmp_path, HERE, "SSL", "none")
    await start.said()
    keystore(tmp_path, unit="others")
    assert "set ssl.allow.dn.changes" in (await start.renew())["certificate_not_renewed"]["reason"]
    keystore(tmp_path)
    assert "certificate_renewed" in await start.renew()
    await start.proxy.stop(0)


async def test_a_config_that_is_neither_true_nor_false_stops_the_start(tmp_path: Path) -> None:
    keystore(tmp_path)
    start = Start(tmp_path, HERE, "SSL", "none", {"ssl.allow.dn.changes": "perhaps"})
    with pytest.raises(WrongTls, match=r"ssl\.allow\.dn\.changes is 'perhaps', and may be true or false"):
        await start.said()
    await start.proxy.stop(0)
