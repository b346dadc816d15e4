"""The metrics of one node's clients (KIP-714): gives each client its subscription, and passes pushed metrics to the receiver."""

from __future__ import annotations

import asyncio
from random import Random

from bmq.metadata.image import MetadataImage, Node
from bmq.protocol.compression import Compression
from bmq.protocol.messages.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest
from bmq.protocol.messages.get_telemetry_subscriptions_response import GetTelemetrySubscriptionsResponse
from bmq.protocol.messages.push_telemetry_request import PushTelemetryRequest
from bmq.protocol.request_context import RequestContext
from bmq.proxy.telemetry_clients import TelemetryClients, new_id, texts_of
from bmq.proxy.telemetry_receiver import CountingReceiver, PushedMetrics, TelemetryReceiver, TelemetryStats

_ID_BITS = 128
TELEMETRY_MAX_BYTES_DEFAULT = 1024 * 1024


class ClientTelemetry:
    """Answers telemetry requests. Without a receiver pushed metrics are counted and dropped.

    `telemetry_max_bytes`: the broker config telemetry.max.bytes.
    """

    def __init__(
        self,
        telemetry_max_bytes: int = TELEMETRY_MAX_BYTES_DEFAULT,
        receiver: TelemetryReceiver | None = None,
        stats: TelemetryStats | None = None,
        random: Random | None = None,
    ) -> None:
        self.stats = stats or TelemetryStats()
        self._has_receiver = receiver is not None
        self._receiver = receiver or CountingReceiver(self.stats)
        self._clients = TelemetryClients(telemetry_max_bytes)
        self._random = random or Random(0)

    def is_wanted(self, image: MetadataImage) -> bool:
        """Whether clients should ask for subscriptions: if there is a receiver, as in Kafka, or a subscription."""
        return self._has_receiver or bool(image.client_metrics)

    def ask(
        self, request: GetTelemetrySubscriptionsRequest, context: RequestContext, image: MetadataImage
    ) -> GetTelemetrySubscriptionsResponse:
        """Answer a request for a subscription. Raises KafkaError."""
        self._clients.use(image.client_metrics)
        client_id = new_id(request.client_instance_id, self._random.getrandbits(_ID_BITS))
        return self._clients.ask(client_id, context, self._now_ms())

    def push(self, request: PushTelemetryRequest, context: RequestContext, image: MetadataImage, node: Node) -> None:
        """Pass pushed metrics to the receiver. Raises BmqError if they are refused."""
        self._clients.use(image.client_metrics)
        self._clients.require_welcome(request, context, self._now_ms())
        if not request.metrics:
            return
        assert request.client_instance_id is not None
        attributes = {
            **texts_of(request.client_instance_id, context),
            "principal": context.principal,
            "broker_id": str(node.node_id),
        }
        self._receiver.receive(PushedMetrics(attributes, Compression(request.compression_type), bytes(request.metrics)))
        self.stats.pushes += 1
        self.stats.pushed_bytes += len(request.metrics)

    async def close(self) -> None:
        await self._receiver.close()

    @staticmethod
    def _now_ms() -> float:
        return asyncio.get_running_loop().time() * 1000
