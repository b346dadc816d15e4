"""The clients that are asked for their metrics, and whether one may ask or send now (KIP-714). Decisions only.

A client gets an id and a subscription: the metrics of all subscriptions that match it, at the shortest of their intervals. The
subscription's id is computed from these, so any node can check it. Other state only slows down clients that come too often, and
may be forgotten. Codes and messages are those of Kafka's ClientMetricsManager.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Final
from uuid import UUID

from cachetools import LRUCache
from crc32c import crc32c

from bmq.dataclass import dataclass
from bmq.metadata.client_metrics_configs import ALL_METRICS, INTERVAL_DEFAULT_MS, Subscription, subscription_of
from bmq.protocol.compression import Compression
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError
from bmq.protocol.messages.get_telemetry_subscriptions_response import GetTelemetrySubscriptionsResponse
from bmq.protocol.messages.push_telemetry_request import PushTelemetryRequest
from bmq.protocol.request_context import RequestContext

CLIENTS_MAX: Final = 16_384
"""Most clients that are remembered: Kafka's CACHE_MAX_SIZE."""
ACCEPTED_COMPRESSIONS: Final = (Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY)
_RESERVED_IDS: Final = (None, UUID(int=0), UUID(int=1))
_LONG_AGO_MS: Final = -(2**62)
_MAY_ASK_AGAIN: Final = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


@dataclass(slots=True)
class _Client:
    """One client. `subscriptions`: those in force when the client was matched. Times are the event loop's."""

    subscriptions: object
    metrics: tuple[str, ...]
    interval_ms: int
    subscription_id: int
    asked_ms: float = _LONG_AGO_MS
    pushed_ms: float = _LONG_AGO_MS
    is_terminating: bool = False
    last_error: ErrorCode = ErrorCode.NONE


class TelemetryClients:
    """All clients of a node. `telemetry_max_bytes`: the broker config telemetry.max.bytes."""

    def __init__(self, telemetry_max_bytes: int, clients_max: int = CLIENTS_MAX) -> None:
        self._telemetry_max_bytes = telemetry_max_bytes
        self._clients: LRUCache[UUID, _Client] = LRUCache(clients_max)
        self._configs: Mapping[str, Mapping[str, str]] = {}
        self._subscriptions: tuple[Subscription, ...] = ()
        self._metrics: dict[tuple[str, ...], tuple[str, ...]] = {}  # most clients share one list

    def use(self, configs: Mapping[str, Mapping[str, str]]) -> None:
        """Set the subscriptions, by name, as the image has them. Call before each request."""
        if configs is not self._configs:
            self._configs = configs
            self._subscriptions = tuple(one for one in map(_readable, configs.values()) if one is not None)
            self._metrics = {}

    def __len__(self) -> int:
        return len(self._clients)

    def ask(self, client_id: UUID, context: RequestContext, now_ms: float) -> GetTelemetrySubscriptionsResponse:
        """Answer GetTelemetrySubscriptions. Raises KafkaError THROTTLING_QUOTA_EXCEEDED."""
        client = self._client(client_id, context)
        is_due = now_ms - max(client.asked_ms, client.pushed_ms) >= client.interval_ms
        if not is_due and client.last_error not in _MAY_ASK_AGAIN:
            raise _too_early(client_id)
        client.asked_ms, client.last_error = now_ms, ErrorCode.NONE
        return GetTelemetrySubscriptionsResponse(
            client_instance_id=client_id,
            subscription_id=client.subscription_id,
            accepted_compression_types=ACCEPTED_COMPRESSIONS,
            push_interval_ms=client.interval_ms,
            telemetry_max_bytes=self._telemetry_max_bytes,
            delta_temporality=True,
            requested_metrics=client.metrics,
        )

    def require_welcome(self, request: PushTelemetryRequest, context: RequestContext, now_ms: float) -> None:
        """Check that pushed metrics may go to the receiver.

        Raises KafkaError INVALID_REQUEST, THROTTLING_QUOTA_EXCEEDED, UNKNOWN_SUBSCRIPTION_ID,
        UNSUPPORTED_COMPRESSION_TYPE, TELEMETRY_TOO_LARGE.
        """
        client_id = request.client_instance_id
        if client_id is None or client_id in _RESERVED_IDS:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Invalid request from the client [{text_of_id(client_id)}], invalid client instance id",
            )
        client = self._client(client_id, context)
        try:
            self._require_welcome(client_id, client, request, now_ms)
        except KafkaError as error:
            client.last_error = error.code
            raise
        finally:
            client.is_terminating = request.terminating
        client.last_error = ErrorCode.NONE

    def _require_welcome(self, client_id: UUID, client: _Client, request: PushTelemetryRequest, now_ms: float) -> None:
        name = text_of_id(client_id)
        if client.is_terminating:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Client [{name}] sent the previous request with state terminating to TRUE, can not accept any "
                "requests after that",
            )
        if client.asked_ms > client.pushed_ms or now_ms - client.pushed_ms >= client.interval_ms:
            client.pushed_ms = now_ms
        elif not request.terminating:
            raise _too_early(client_id)
        if request.subscription_id != client.subscription_id:
            raise KafkaError(
                ErrorCode.UNKNOWN_SUBSCRIPTION_ID, f"Unknown client subscription id for the client [{name}]"
            )
        if request.compression_type not in (Compression.NONE, *ACCEPTED_COMPRESSIONS):
            raise KafkaError(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
                f"Unknown compression type [{request.compression_type}] is received in telemetry request from [{name}]",
            )
        if len(request.metrics) > self._telemetry_max_bytes:
            raise KafkaError(
                ErrorCode.TELEMETRY_TOO_LARGE,
                f"Telemetry request from [{name}] is larger than the maximum allowed size [{self._telemetry_max_bytes}]",
            )

    def _client(self, client_id: UUID, context: RequestContext) -> _Client:
        """The client with its present subscription. If subscriptions have changed, its times begin anew."""
        client: _Client | None = self._clients.get(client_id)
        if client is None or client.subscriptions is not self._subscriptions:
            client = self._clients[client_id] = self._matched(client_id, context)
        return client

    def _matched(self, client_id: UUID, context: RequestContext) -> _Client:
        texts = texts_of(client_id, context)
        matching = [one for one in self._subscriptions if one.is_for(texts)]
        metrics = tuple(sorted({metric for one in matching for metric in one.metrics}))
        if ALL_METRICS in metrics:
            metrics = (ALL_METRICS,)
        metrics = self._metrics.setdefault(metrics, metrics)
        interval_ms = min(INTERVAL_DEFAULT_MS, *(one.interval_ms for one in matching), INTERVAL_DEFAULT_MS)
        return _Client(self._subscriptions, metrics, interval_ms, _subscription_id(client_id, metrics, interval_ms))


def new_id(asked: UUID | None, bits: int) -> UUID:
    """The client's own id if it sent one, else a new one of 128 random bits."""
    if asked is not None and asked.int:
        return asked
    return UUID(int=bits, version=4)


def text_of_id(client_id: UUID | None) -> str:
    """The id as Kafka's Uuid.toString writes it."""
    return base64.urlsafe_b64encode((client_id or UUID(int=0)).bytes).rstrip(b"=").decode()


def texts_of(client_id: UUID, context: RequestContext) -> Mapping[str, str]:
    """The client's properties that subscriptions can match, by the names of selectors (KIP-714)."""
    texts = {
        "client_instance_id": text_of_id(client_id),
        "client_software_name": context.client_software_name,
        "client_software_version": context.client_software_version,
        "client_source_address": context.client_host,
        "client_source_port": str(context.client_port),
    }
    return texts if context.client_id is None else {**texts, "client_id": context.client_id}


def _subscription_id(client_id: UUID, metrics: tuple[str, ...], interval_ms: int) -> int:
    number = crc32c(f"{','.join(metrics)} {interval_ms} {client_id}".encode())
    return int.from_bytes(number.to_bytes(4, "big"), "big", signed=True)


def _too_early(client_id: UUID) -> KafkaError:
    return KafkaError(
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        f"Request from the client [{text_of_id(client_id)}] arrived before the next push interval time",
    )


def _readable(configs: Mapping[str, str]) -> Subscription | None:
    """The parsed subscription; None if a newer release wrote it and it has no meaning here."""
    try:
        return subscription_of(configs)
    except BmqError:
        return None
