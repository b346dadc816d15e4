"""Makes the check of bearer tokens from the broker configs: where keys are read, and which claims are required."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import structlog

from bmq.aio.http_handshakes import closing_handshakes
from bmq.extras import install_command
from bmq.log.clock import Clock
from bmq.metadata.broker_configs import BrokerConfigs
from bmq.metadata.config_keys import InvalidConfig
from bmq.metadata.login_configs import ALLOWED_URLS, ANY_AUDIENCE, ANY_ISSUER, AUDIENCE, ISSUER, JWKS_URL
from bmq.security.loopback import is_loopback_host
from bmq.security.oauth.claims import ClaimRules
from bmq.security.oauth.jwks_verifier import JwksVerifier, KeysNotRead, RefreshTimes

BYTES_MAX: Final = 1024 * 1024
READ_S_MAX: Final = 5.0
_OAUTH: Final = "sasl.oauthbearer"

_log = structlog.get_logger("bmq.server")


def bearer_verifier(configs: BrokerConfigs, clock: Clock) -> JwksVerifier | None:
    """The verifier that the configs describe; None without a URL of keys. Warns about checks that are switched off. Raises
    InvalidConfig.
    """
    url = configs.value_of(JWKS_URL)
    if not url:
        return None
    if find_spec("jwt") is None:
        raise InvalidConfig(f"{JWKS_URL} is set, and PyJWT is not installed: {install_command('oauth')}")
    allowed = [one.strip() for one in (configs.value_of(ALLOWED_URLS) or "").split(",")]
    if url not in allowed:
        raise InvalidConfig(f"{JWKS_URL} is {url}, which is not in {ALLOWED_URLS}")
    rules = ClaimRules(
        _demanded(configs, ISSUER, ANY_ISSUER),
        frozenset(one.strip() for one in (_demanded(configs, AUDIENCE, ANY_AUDIENCE) or "").split(",") if one.strip()),
        configs.number(f"{_OAUTH}.clock.skew.seconds"),
        configs.value_of(f"{_OAUTH}.sub.claim.name") or "sub",
        configs.value_of(f"{_OAUTH}.scope.claim.name") or "scope",
    )
    times = RefreshTimes(
        configs.number(f"{_OAUTH}.jwks.endpoint.refresh.ms") / 1000,
        configs.number(f"{_OAUTH}.jwks.endpoint.retry.backoff.ms") / 1000,
        configs.number(f"{_OAUTH}.jwks.endpoint.retry.backoff.max.ms") / 1000,
    )
    return JwksVerifier(_reader(url), rules, clock.now_ms, times)


def _demanded(configs: BrokerConfigs, name: str, waiver: str) -> str | None:
    """The claim's required value; None if it is not checked."""
    value = (configs.value_of(name) or "").strip(" ,")
    is_waived = configs.value_of(waiver) == "true"
    if value and is_waived:
        raise InvalidConfig(f"{name} is set, and {waiver} is true: take one of them away")
    if not value and not is_waived:
        raise InvalidConfig(
            f"{name} is not set: any token of that identity provider would open the door; {waiver} = true accepts that"
        )
    if is_waived:
        _log.warning("bearer_tokens_of_any_kind", waiver=waiver, why="a token made for another service opens this one")
    return value or None


def _reader(url: str) -> Callable[[], Awaitable[bytes]]:
    """Raises InvalidConfig for a URL of another kind."""
    parts = urlsplit(url)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        path = Path(unquote(parts.path))
        return lambda: asyncio.to_thread(_read_file, path)
    if parts.scheme == "https" or (parts.scheme == "http" and is_loopback_host(parts.hostname or "")):
        return lambda: _read_url(url)
    raise InvalidConfig(f"{JWKS_URL} has to begin with https:// or file://; http:// is for this machine alone")


def _read_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise KeysNotRead(f"{path}: {error.strerror}") from None
    return _bounded(data, str(path))


async def _read_url(url: str) -> bytes:
    import httpx

    data = bytearray()
    traced = {"trace": closing_handshakes()}
    try:
        async with (
            asyncio.timeout(READ_S_MAX),
            httpx.AsyncClient(follow_redirects=False) as client,
            client.stream("GET", url, headers={"accept": "application/json"}, extensions=traced) as response,
        ):
            if response.status_code != httpx.codes.OK:
                raise KeysNotRead(f"{url} answers with status {response.status_code}")
            async for part in response.aiter_bytes():
                data += part
                if len(data) > BYTES_MAX:
                    break
    except TimeoutError:
        raise KeysNotRead(f"{url} did not answer within {READ_S_MAX:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise KeysNotRead(f"{url} is not reached: {error or type(error).__name__}") from None
    return _bounded(bytes(data), url)


def _bounded(data: bytes, where: str) -> bytes:
    if len(data) > BYTES_MAX:
        raise KeysNotRead(f"{where} has more than {BYTES_MAX} bytes")
    return data
