"""What every call of every service goes through: bounds, the login, failures as status codes, counts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
from confluent_kafka import KafkaException

from bmq.gateway.credentials import credentials_of
from bmq.gateway.failure import GatewayFailed
from bmq.gateway.metrics import GatewayMetrics
from bmq.gateway.principal import Principal
from bmq.gateway.principals import Principals
from bmq.gateway.received import failure_of
from bmq.gateway.stream_limits import StreamLimits
from bmq.protocol.errors import BmqError


class Calls:
    """`admitted` surrounds the handler of each call."""

    def __init__(self, principals: Principals, limits: StreamLimits, metrics: GatewayMetrics) -> None:
        self._principals = principals
        self._limits = limits
        self.metrics = metrics

    @asynccontextmanager
    async def admitted(self, context: Any, method: str) -> AsyncIterator[Principal]:
        """The user of the call. A failure inside ends the call with its status code and sentence."""
        self.metrics.calls.labels(method).inc()
        self.metrics.open_calls.inc()
        try:
            with self._limits.open(context.peer()):
                credentials = credentials_of(context.invocation_metadata() or ())
                async with self._principals.of(credentials) as principal:
                    yield principal
        except GatewayFailed as failed:
            await self._abort(context, method, failed)
        except KafkaException as error:
            await self._abort(context, method, failure_of(error.args[0], "the call cannot be served"))
        except BmqError as error:
            await self._abort(context, method, GatewayFailed("UNKNOWN", str(error), error.code.name))
        finally:
            self.metrics.open_calls.dec()

    async def _abort(self, context: Any, method: str, failed: GatewayFailed) -> None:
        self.metrics.failures.labels(method, failed.status).inc()
        trailing = (("kafka-error", failed.kafka_error),) if failed.kafka_error else ()
        await context.abort(grpc.StatusCode[failed.status], str(failed), trailing_metadata=trailing)
