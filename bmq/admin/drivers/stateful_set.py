"""What Kubernetes says of a StatefulSet: how many pods it is to have, and how many there are."""

from __future__ import annotations

import json
from typing import Any, Final, Protocol

from bmq.admin.drivers.driver import DriverFailed
from bmq.dataclass import dataclass

REPLICAS_MAX: Final = 10_000
# Kubernetes' own default.
GRACE_S: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class StatefulSet:
    """`existing`: pods that exist, with those that are being stopped. `is_seen`: Kubernetes has begun to bring about what is wanted.
    `version` changes with every change of it. `grace_s`: how long a pod may take to stop.
    """

    replicas: int
    existing: int
    is_seen: bool
    first_ordinal: int
    grace_s: int
    version: str


class StatefulSets(Protocol):
    """Kubernetes' API, as much of it as scaling needs."""

    async def read(self, name: str) -> StatefulSet:
        """Raises DriverFailed."""

    async def scale(self, name: str, before: StatefulSet, replicas: int) -> None:
        """Raises DriverFailed, also when another client has scaled it since `before` was read."""


def read_stateful_set(name: str, text: str | bytes) -> StatefulSet:
    """`text`: Kubernetes' JSON of it. Raises DriverFailed."""
    try:
        found: Any = json.loads(text)
        spec, status, metadata = found["spec"], found.get("status") or {}, found.get("metadata") or {}
        pods = StatefulSet(
            replicas=int(spec["replicas"]),
            existing=int(status.get("replicas", 0)),
            is_seen=int(status.get("observedGeneration", 0)) >= int(metadata.get("generation", 0)),
            first_ordinal=int((spec.get("ordinals") or {}).get("start", 0)),
            grace_s=int(_pod_spec(spec).get("terminationGracePeriodSeconds", GRACE_S)),
            version=str(metadata.get("resourceVersion", "")),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DriverFailed(f"Kubernetes' answer about StatefulSet {name} cannot be understood") from error
    if not 0 <= pods.replicas <= REPLICAS_MAX:
        raise DriverFailed(f"StatefulSet {name} says it has {pods.replicas} replicas")
    return pods


def _pod_spec(spec: Any) -> Any:
    return (spec.get("template") or {}).get("spec") or {}
