"""The receiver of clients' metrics: forwards them to an OTLP endpoint if the settings name one."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from bmq.aio.http_handshakes import closing_handshakes
from bmq.metadata.broker_configs import BrokerConfigs
from bmq.proxy.client_telemetry import ClientTelemetry
from bmq.proxy.otlp_forwarder import OtlpForwarder
from bmq.proxy.telemetry_receiver import TelemetryStats
from bmq.proxy.telemetry_settings import TelemetrySettings

if TYPE_CHECKING:
    import httpx


class OtlpEndpoint:
    """One HTTP endpoint, over a kept connection. The HTTP client is made at the first use, because its import takes a moment."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client: httpx.AsyncClient | None = None

    async def post(self, body: bytes) -> int:
        """Post the body. Returns the answer's status. Raises OSError without an answer."""
        import httpx

        if self._client is None:
            self._client = httpx.AsyncClient(timeout=None)  # the caller limits the time
        try:
            response = await self._client.post(
                self._url,
                content=body,
                headers={"content-type": "application/x-protobuf"},
                extensions={"trace": closing_handshakes()},
            )
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise OSError(str(error) or type(error).__name__) from error
        return response.status_code

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()


class _OtlpReceiver(OtlpForwarder):
    def __init__(self, endpoint: OtlpEndpoint, settings: TelemetrySettings, stats: TelemetryStats, rng: Random) -> None:
        super().__init__(endpoint.post, settings, stats, rng)
        self._endpoint = endpoint

    async def close(self) -> None:
        await super().close()
        await self._endpoint.close()


def client_telemetry(settings: TelemetrySettings, configs: BrokerConfigs, rng: Random) -> ClientTelemetry:
    """Forwards to the OTLP endpoint if there is one, else counts and drops."""
    stats = TelemetryStats()
    receiver = None
    if settings.otlp_endpoint:
        receiver = _OtlpReceiver(OtlpEndpoint(settings.otlp_endpoint), settings, stats, rng)
    return ClientTelemetry(configs.number("telemetry.max.bytes"), receiver, stats, rng)
