"""The gateway in one process: services over grpc.aio, with reflection and health. It keeps nothing on disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import grpc
import structlog
from google.protobuf import message_factory
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio as health_aio
from grpc_reflection.v1alpha import reflection
from prometheus_client import CollectorRegistry

from bmq.gateway.admin_service import AdminService
from bmq.gateway.calls import Calls
from bmq.gateway.failure import GatewayFailed
from bmq.gateway.metrics import GatewayMetrics
from bmq.gateway.principals import Principals
from bmq.gateway.publisher_service import PublisherService
from bmq.gateway.settings import GatewaySettings
from bmq.gateway.shared_bounds import SharedBounds
from bmq.gateway.stream_limits import StreamLimits
from bmq.gateway.subscriber_service import SubscriberService
from bmq.gateway.v1 import gateway_pb2
from bmq.protocol.errors import BmqError

TIDY_S: Final = 1.0
HEADERS_BYTES_MAX: Final = 32 * 1024
PING_TIMEOUT_MS: Final = 10_000
WATCHES_MAX: Final = 1_000

_log = structlog.get_logger("bmq.gateway")


class CannotListen(BmqError):
    """The address cannot be listened on, or the certificate not be used."""


class _Health(health_aio.HealthServicer):  # type: ignore[misc]
    """Watching needs no login: it has a bound of its own."""

    def __init__(self) -> None:
        super().__init__()
        self._watching = StreamLimits(WATCHES_MAX, WATCHES_MAX)

    async def Watch(self, request: Any, context: Any) -> None:  # noqa: N802
        """The state of a service, and each change of it."""
        try:
            with self._watching.open(context.peer()):
                await super().Watch(request, context)
        except GatewayFailed as failed:
            await context.abort(grpc.StatusCode[failed.status], str(failed))


class GatewayServer:
    """`now_s`: seconds since 1970. `start` and `stop` once each."""

    def __init__(self, settings: GatewaySettings, now_s: Callable[[], float], registry: CollectorRegistry) -> None:
        self._settings = settings
        self.shared = SharedBounds(settings)
        self.principals = Principals(self.shared, now_s)
        self.limits = StreamLimits(settings.streams_max, settings.streams_per_peer_max)
        self.metrics = GatewayMetrics(registry)
        calls = Calls(self.principals, self.limits, self.metrics)
        self._health = _Health()
        self._server = grpc.aio.server(options=_options(settings), maximum_concurrent_rpcs=settings.streams_max + 1_000)
        handlers = {
            "Publisher": {"Publish": "publish", "PublishStream": "publish_stream"},
            "Subscriber": {"Subscribe": "subscribe"},
            "Admin": {
                "CreateTopic": "create_topic",
                "DeleteTopic": "delete_topic",
                "ListTopics": "list_topics",
                "DescribeTopic": "describe_topic",
                "ListGroups": "list_groups",
            },
        }
        services = {
            "Publisher": PublisherService(calls),
            "Subscriber": SubscriberService(calls),
            "Admin": AdminService(calls),
        }
        for name, service in services.items():
            methods = {method: getattr(service, function) for method, function in handlers[name].items()}
            self._server.add_generic_rpc_handlers((_handlers_of(name, methods),))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        names = [_service(name).full_name for name in services]
        self._names = names
        reflection.enable_server_reflection(
            [*names, health_pb2.DESCRIPTOR.services_by_name["Health"].full_name, reflection.SERVICE_NAME], self._server
        )
        self._tidying: asyncio.Task[None] | None = None

    async def start(self) -> int:
        """Listen; the port. Raises CannotListen."""
        try:
            if self._settings.tls_certificate is None:
                port = self._server.add_insecure_port(self._settings.listen)
            else:
                port = self._server.add_secure_port(self._settings.listen, _server_credentials(self._settings))
        except RuntimeError:
            port = 0
        if not port:
            raise CannotListen(
                f"{self._settings.listen} cannot be listened on; name a free address of this machine with --listen"
            )
        await self._server.start()
        for name in ("", *self._names):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        self._tidying = asyncio.ensure_future(self._tidy())
        return int(port)

    async def stop(self) -> None:
        """Refuse new calls, let those in progress end for a while, and close all connections to the cluster."""
        await self._health.enter_graceful_shutdown()
        await self._server.stop(self._settings.stop_wait_max_ms / 1000)
        if self._tidying is not None:
            self._tidying.cancel()
            await asyncio.wait({self._tidying})
        await self.principals.close()

    async def _tidy(self) -> None:
        while True:
            await asyncio.sleep(TIDY_S)
            try:
                self.principals.tidy()
            except Exception:  # noqa: BLE001 - the next tick is tried all the same
                _log.exception("gateway_tidying_failed")
            self.metrics.users.set(self.principals.count)
            for what, budget in (
                ("windows", self.shared.windows),
                ("deliveries", self.shared.deliveries.budget),
                ("publishing", self.shared.publishing.budget),
            ):
                self.metrics.held_bytes.labels(what).set(budget.used_bytes)


def _options(settings: GatewaySettings) -> list[tuple[str, Any]]:
    return [
        ("grpc.max_receive_message_length", settings.message_bytes_max),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_metadata_size", HEADERS_BYTES_MAX),
        ("grpc.absolute_max_metadata_size", HEADERS_BYTES_MAX),
        ("grpc.max_concurrent_streams", settings.streams_per_connection_max),
        ("grpc.keepalive_time_ms", settings.keepalive_ms),
        ("grpc.keepalive_timeout_ms", PING_TIMEOUT_MS),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
        ("grpc.so_reuseport", 0),
    ]


def _server_credentials(settings: GatewaySettings) -> Any:
    certificate, key = settings.tls_certificate, settings.tls_key
    if certificate is None or key is None:
        raise CannotListen("a certificate needs its key; set tls_certificate and tls_key")
    try:
        return grpc.ssl_server_credentials([(key.read_bytes(), certificate.read_bytes())])
    except OSError as error:
        raise CannotListen(f"{error.filename} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise CannotListen(f"the certificate cannot be used: {error}") from None


def _service(name: str) -> Any:
    return gateway_pb2.DESCRIPTOR.services_by_name[name]


def _handlers_of(name: str, methods: dict[str, Any]) -> Any:
    """Handlers by the service's description: generated ones would demand the version that they were generated by."""
    service = _service(name)
    if methods.keys() != {method.name for method in service.methods}:
        raise GatewayFailed("INTERNAL", f"the service {name} has other methods than its handlers")
    found = {}
    for method in service.methods:
        is_stream = method.client_streaming
        make = grpc.stream_stream_rpc_method_handler if is_stream else grpc.unary_unary_rpc_method_handler
        request_class = message_factory.GetMessageClass(method.input_type)
        response_class = message_factory.GetMessageClass(method.output_type)
        found[method.name] = make(
            methods[method.name],
            request_deserializer=request_class.FromString,
            response_serializer=response_class.SerializeToString,
        )
    return grpc.method_handlers_generic_handler(service.full_name, found)
