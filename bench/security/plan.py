"""Which parts are run, and how much of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bench.runner import QUICK, SMOKE
from bench.security.criteria import ACLS, CLUSTER_QUOTAS, FLOOD, LOGINS, PLAIN, QUOTAS, STRANGERS, TLS

PARTS: Final = (TLS, LOGINS, ACLS, QUOTAS, CLUSTER_QUOTAS, STRANGERS, FLOOD, PLAIN)


@dataclass(frozen=True, slots=True)
class Plan:
    """`seconds`: of each load, behind `warm_s` of its own. `acls`: in the authorizer; `acl_s`: of each of the alternating loads with them
    and without, behind `acl_warm_s` of its own. A quota is measured from
    `quota_warm_s` on for `quota_s`. `strangers`: connections that stop half-way, `strangers_returns_per_s` of which are replaced when the server closes them.
    `plain_s`: of each of the alternating loads of `plain`, behind `plain_warm_s` of its own. All of it is estimated to take 25 minutes.
    """

    parts: tuple[str, ...]
    sides: tuple[str, ...]
    pairs: int = 5
    warm_s: float = 3
    seconds: float = 7
    passes: int = 3
    login_s: float = 6
    acls: int = 10_000
    acl_rounds: int = 20
    acl_warm_s: float = 0.5
    acl_s: float = 2
    quota_rounds: int = 1
    quota_warm_s: float = 30
    quota_s: float = 60
    strangers: int = 5_000
    strangers_returns_per_s: float = 100
    strangers_s: float = 12
    strangers_rounds: int = 3
    flood_rounds: int = 1
    plain_pairs: int = 12
    plain_warm_s: float = 0.3
    plain_s: float = 1.5
    plain_backlog_bytes: int = 16 * 1024 * 1024
    warm_ups_max: int = 8


def plan_of(parts: tuple[str, ...], sides: tuple[str, ...], size: str) -> Plan:
    if size == SMOKE:
        return Plan(
            parts, sides, pairs=1, warm_s=0.2, seconds=0.5, passes=2, login_s=1, acls=100, acl_rounds=1, acl_s=0.5, quota_warm_s=1, quota_s=2,
            strangers=50, strangers_s=2, strangers_rounds=1, plain_pairs=1, plain_s=0.5,
            plain_backlog_bytes=4 * 1024 * 1024, warm_ups_max=1,
        )  # fmt: skip
    if size == QUICK:
        return Plan(
            parts, sides, pairs=1, warm_s=1, seconds=3, passes=2, login_s=3, acl_rounds=6, acl_s=1, quota_s=30, strangers=1_000, strangers_s=5,
            strangers_rounds=1, plain_pairs=2, plain_s=1,
        )  # fmt: skip
    return Plan(parts, sides)
