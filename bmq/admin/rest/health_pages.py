"""Health for probes and people: whether this process lives, whether it is ready, and why not. Light: loaded at the start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bmq.admin.health import HealthReason, reasons
from bmq.admin.rest.sources import RestSources

LIVE_PATH: Final = "/v1/health/live"
HEALTH_PATH: Final = "/v1/health"


def health_reasons(sources: RestSources) -> tuple[HealthReason, ...]:
    """Why this server is not ready, or not well; empty: it is."""
    partitions = sources.partitions()
    problems = partitions.problems if partitions else ()
    return reasons(sources.health(), sources.partition_states(), problems, is_ready=sources.is_ready())


def described(reason: HealthReason) -> Mapping[str, Any]:
    """The reason as JSON."""
    return {
        "code": reason.code,
        "severity": reason.severity.value,
        "what": reason.what,
        "what_to_do": reason.what_to_do,
    }
