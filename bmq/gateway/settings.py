"""Settings of `bmq gateway run`: bounds of the gateway, and how it reaches the cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

PREFIX: Final = "BMQ_GATEWAY_"
MIB: Final = 1024 * 1024


class GatewaySettings(BaseSettings):
    """Each may be a variable `BMQ_GATEWAY_…`; some have an option of the command."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore", frozen=True)

    listen: str = "127.0.0.1:9190"
    """Address for clients; port 0 takes a free one."""
    bootstrap: str = "127.0.0.1:9092"
    """Servers of the cluster, `HOST:PORT[,HOST:PORT]`."""
    metrics: str = ""
    """Address of `/metrics`; empty: none."""
    security_protocol: str = Field("PLAINTEXT", pattern="^(PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL)$")
    """Protocol of the cluster's listener. With `SASL_…` each call needs a login."""
    sasl_mechanism: str = Field("SCRAM-SHA-512", pattern="^(PLAIN|SCRAM-SHA-256|SCRAM-SHA-512)$")
    """How a user of `authorization: Basic` logs in at the cluster."""
    cluster_ca: Path | None = None
    """PEM file of the authorities that the cluster's certificates are checked with; none: the system's."""
    tls_certificate: Path | None = None
    """PEM file of the gateway's certificate and its chain; none: clear text, for a proxy on the same machine."""
    tls_key: Path | None = None
    """PEM file of the certificate's key."""
    log_level: str = "info"
    """debug, info, warning or error."""
    log_format: str = "auto"
    """auto, text or json."""

    message_bytes_max: int = Field(4 * MIB, ge=1024, le=1024 * MIB)
    """A longer message of a client is refused with RESOURCE_EXHAUSTED."""
    record_bytes_max: int = Field(1_000_000, ge=1, le=1_000_000_000)
    """A longer record is refused with INVALID_ARGUMENT; the topic's own bound counts too."""
    records_per_publish_max: int = Field(20_000, ge=1)
    """A request with more records is refused with INVALID_ARGUMENT."""
    publish_linger_ms: int = Field(5, ge=0, le=1_000)
    """How long a producer waits for more records of a batch."""
    publish_wait_max_ms: int = Field(30_000, ge=1_000)
    """A record that is not written after this time fails with DEADLINE_EXCEEDED."""
    publish_stream_bytes_max: int = Field(4 * MIB, ge=1024)
    """A stream with more unanswered bytes than this is not read."""
    publish_bytes_max: int = Field(64 * MIB, ge=MIB)
    """The same for all calls together."""
    streams_max: int = Field(20_000, ge=1)
    """Open streams and calls in all; one more is refused with RESOURCE_EXHAUSTED."""
    streams_per_peer_max: int = Field(12_000, ge=1)
    """Open streams and calls of one address. Behind a proxy all clients have the proxy's."""
    streams_per_connection_max: int = Field(100, ge=1)
    """Open streams and calls of one connection; the client waits with one more."""
    start_wait_max_ms: int = Field(10_000, ge=100)
    """A subscriber that does not send Start within this time is ended."""
    stream_idle_max_ms: int = Field(0, ge=0)
    """A publishing stream without a request for this time is ended; `0`: never."""
    keepalive_ms: int = Field(30_000, ge=1_000)
    """A connection is asked whether it lives after this time without a byte, and closed when it does not answer in 10 s."""
    write_wait_max_ms: int = Field(60_000, ge=1_000)
    """A stream whose client does not take an answer within this time is ended."""
    credit_max: int = Field(10_000, ge=1)
    """Records that a subscriber may have asked for and not got, and that it may hold unsettled."""
    delivery_bytes_max: int = Field(MIB, ge=1024)
    """Bytes of one delivery to one subscriber; a longer record goes alone."""
    deliveries_bytes_max: int = Field(64 * MIB, ge=MIB)
    """Bytes of deliveries that are being written, in all."""
    window_bytes_max: int = Field(MIB, ge=1024)
    """The newest records of a partition that subscribers share, in memory."""
    windows_bytes_max: int = Field(64 * MIB, ge=MIB)
    """The same for all partitions together."""
    catch_up_readers_max: int = Field(16, ge=1)
    """Subscribers without a group that read older records at the same time; others wait."""
    topics_max: int = Field(100, ge=1)
    """Topics of one subscription."""
    settle_wait_max_ms: int = Field(30_000, ge=1_000)
    """A record of a consumer group that is not settled within this time is delivered to another subscriber."""
    group_bytes_max: int = Field(8 * MIB, ge=1024)
    """Records of one group that wait for credit or for an acknowledgement."""
    groups_max: int = Field(256, ge=1)
    """Groups of all users that are open at the same time; another one is refused with RESOURCE_EXHAUSTED."""
    principals_max: int = Field(256, ge=1)
    """Users who are connected to the cluster at the same time; another one is refused with RESOURCE_EXHAUSTED."""
    principal_idle_ms: int = Field(300_000, ge=100)
    """The connections of a user without a call are closed after this time."""
    login_age_max_ms: int = Field(600_000, ge=100)
    """A login older than this is checked at the cluster again before the user's next call."""
    logins_at_once_max: int = Field(8, ge=1)
    """Logins at the cluster that run at the same time; others wait."""
    login_wait_max_ms: int = Field(10_000, ge=100)
    """A login without an answer fails with UNAVAILABLE after this time."""
    failed_login_ms: int = Field(5_000, ge=0)
    """The same wrong login is refused for this time without asking the cluster."""
    stop_wait_max_ms: int = Field(5_000, ge=0)
    """Calls in progress at a stop may end within this time."""
