"""Which parts are run, and how much of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bench.runner import QUICK, SMOKE
from bench.security.criteria import ACLS, CLUSTER_QUOTAS, LOGINS, QUOTAS, STRANGERS, TLS

PARTS: Final = (TLS, LOGINS, ACLS, QUOTAS, CLUSTER_QUOTAS, STRANGERS)


@dataclass(frozen=True, slots=True)
class Plan:
    """`seconds`: of each load, behind `warm_s` of its own. `acls`: in the authorizer. A quota is measured from
    `quota_warm_s` on for `quota_s`. `strangers`: connections that stop half-way.
    """

    parts: tuple[str, ...]
    sides: tuple[str, ...]
    pairs: int = 5
    warm_s: float = 3
    seconds: float = 10
    passes: int = 4
    login_s: float = 8
    acls: int = 10_000
    quota_rounds: int = 1
    quota_warm_s: float = 30
    quota_s: float = 60
    strangers: int = 5_000
    strangers_s: float = 20


def plan_of(parts: tuple[str, ...], sides: tuple[str, ...], size: str) -> Plan:
    if size == SMOKE:
        return Plan(parts, sides, 1, 0.2, 0.5, 2, 1, 100, 1, 1, 2, 50, 2)
    if size == QUICK:
        return Plan(parts, sides, 1, 1, 3, 2, 3, 10_000, 1, 30, 30, 1_000, 5)
    return Plan(parts, sides)
