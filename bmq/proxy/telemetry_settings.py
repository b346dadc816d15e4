"""Settings of clients' metrics (KIP-714)."""

from __future__ import annotations

from bmq.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class TelemetrySettings:
    """Where clients' metrics are forwarded to. `otlp_endpoint`: http://HOST:PORT/v1/metrics; empty: metrics are dropped."""

    otlp_endpoint: str = ""
    """OTLP/HTTP endpoint for clients' metrics (KIP-714); empty: they are counted and dropped."""
    otlp_timeout_s: float = 10.0  # of one request to it
    """Timeout of one request to the endpoint."""
    otlp_retry_max_s: float = 60.0  # how long one push is tried again before it is dropped
    """How long one push is retried after no answer, 429, 502, 503 or 504; then it is dropped."""
    otlp_queue_bytes_max: int = 16 * 1024 * 1024  # pushes that wait for it; beyond it they are dropped
    """Bytes of pushes that wait for the endpoint, decompressed; beyond it pushes are dropped."""
    decompressed_bytes_max: int = 4 * 1024 * 1024  # of one push; a longer one is refused
    """Longest push; a longer one is refused with INVALID_RECORD."""
