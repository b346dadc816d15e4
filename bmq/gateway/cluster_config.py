"""The settings of librdkafka's clients that act for one user. Decisions only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from bmq.gateway.credentials import Credentials, token_end_s, token_subject
from bmq.gateway.failure import GatewayFailed
from bmq.gateway.settings import GatewaySettings

TOKEN_S: Final = 3600.0
"""How long a token is taken for valid that does not say when it ends; the cluster decides."""
_HOURS_24_MS: Final = 86_400_000


def require_usable(credentials: Credentials, security_protocol: str) -> None:
    """Raises GatewayFailed, UNAUTHENTICATED, where the cluster's listener needs a login and there is none, or the reverse."""
    takes_logins = security_protocol.startswith("SASL_")
    if takes_logins and credentials.is_anonymous:
        raise GatewayFailed("UNAUTHENTICATED", "this cluster needs a login; send 'authorization' as metadata")
    if not takes_logins and not credentials.is_anonymous:
        raise GatewayFailed(
            "UNAUTHENTICATED", "this cluster's listener takes no logins; leave the metadata 'authorization' out"
        )


def client_config(settings: GatewaySettings, credentials: Credentials, now_s: Callable[[], float]) -> Mapping[str, Any]:
    """What every client of this user has. `now_s`: seconds since 1970."""
    config: dict[str, Any] = {
        "bootstrap.servers": settings.bootstrap,
        "client.id": "bmq-gateway",
        "security.protocol": settings.security_protocol,
        "log_level": 2,
        "socket.keepalive.enable": True,
        "allow.auto.create.topics": False,
        "topic.metadata.refresh.interval.ms": 30_000,
        "reconnect.backoff.max.ms": 2_000,
    }
    if settings.cluster_ca is not None:
        config["ssl.ca.location"] = str(settings.cluster_ca)
    if credentials.token:
        config["sasl.mechanism"] = "OAUTHBEARER"
        config["oauth_cb"] = _token_callback(credentials.token, now_s)
    elif credentials.user:
        config["sasl.mechanism"] = settings.sasl_mechanism
        config["sasl.username"] = credentials.user
        config["sasl.password"] = credentials.password
    return config


def _token_callback(token: str, now_s: Callable[[], float]) -> Callable[[str], tuple[str, float, str, dict[str, str]]]:
    end_s = token_end_s(token, now_s() + TOKEN_S)

    def tell(_config: str) -> tuple[str, float, str, dict[str, str]]:
        if now_s() >= end_s:
            raise ValueError("the token has ended; open a new call with a newer one")
        return token, end_s, token_subject(token), {}

    return tell


def producer_config(settings: GatewaySettings) -> Mapping[str, Any]:
    """The config of the producer that all calls of one user share. Bytes are bounded by the calls; these bounds lie above."""
    bytes_max = settings.publish_bytes_max + settings.message_bytes_max
    return {
        "enable.idempotence": True,
        "acks": "all",
        "linger.ms": settings.publish_linger_ms,
        "message.max.bytes": max(1_000, min(1_000_000_000, settings.record_bytes_max + 2_000)),
        "message.timeout.ms": settings.publish_wait_max_ms,
        "queue.buffering.max.messages": 2_000_000,
        "queue.buffering.max.kbytes": min(2_097_151, 4 * bytes_max // 1024),
        "batch.size": 1_000_000,
        "compression.type": "none",
    }


def reader_config(settings: GatewaySettings) -> Mapping[str, Any]:
    """The config of a consumer that is told its offsets. It joins no group: librdkafka wants a name all the same."""
    return {
        "group.id": "bmq-gateway",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "max.poll.interval.ms": _HOURS_24_MS,
        "queued.max.messages.kbytes": max(1, settings.window_bytes_max // 1024),
        "queued.min.messages": 1_000,
        "fetch.message.max.bytes": settings.window_bytes_max,
        "fetch.wait.max.ms": 500,
        "fetch.error.backoff.ms": 200,
    }


def group_config(settings: GatewaySettings, group: str, *, is_earliest: bool) -> Mapping[str, Any]:
    """The config of the consumer by which a gateway is a member of a consumer group."""
    return {
        **reader_config(settings),
        "group.id": group,
        "enable.partition.eof": False,
        "auto.offset.reset": "earliest" if is_earliest else "latest",
        "max.poll.interval.ms": 300_000,
        "session.timeout.ms": 30_000,
        "partition.assignment.strategy": "cooperative-sticky",
    }
