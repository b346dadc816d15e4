"""Why a call of the gateway fails: a status code of gRPC and one sentence. Pure."""

from __future__ import annotations

from bmq.protocol.errors import BmqError


class GatewayFailed(BmqError):
    """`status`: the name of a status code of gRPC. `kafka_error`: the name of Kafka's error; empty if there is none."""

    def __init__(self, status: str, message: str, kafka_error: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.kafka_error = kafka_error


def invalid(message: str) -> GatewayFailed:
    """A request that is wrong whatever the cluster's state is."""
    return GatewayFailed("INVALID_ARGUMENT", message)
