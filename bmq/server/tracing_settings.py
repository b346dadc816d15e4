"""Settings of traces."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from bmq.dataclass import dataclass


def _url(value: str) -> str:
    if not value:
        return value
    try:
        parts = urlsplit(value)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and len(parts.path) > 1
    except ValueError:
        is_url = False
    if not is_url:
        raise ValueError("it is no URL like http://collector:4318/v1/traces")
    return value


@dataclass(frozen=True, slots=True)
class TracingSettings:
    """The table `[tracing]`."""

    endpoint: Annotated[str, AfterValidator(_url)] = ""
    """OTLP/HTTP endpoint for traces of produces and fetches; empty: nothing is traced. It needs the extra `tracing`."""
    sample_ratio: Annotated[float, Field(gt=0, le=1)] = 0.01
    """Share of the clients' requests that are traced, at most 1."""
    traces_per_s_max: int = 100
    """Most traces that begin at a process in a second, whatever the ratio says."""
    queue_spans_max: int = 4_096
    """Spans that wait for the endpoint; beyond it traces are dropped."""
    timeout_s: float = 10.0
    """Longest time to send some traces, with retries; then they are dropped."""
