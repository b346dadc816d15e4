"""Whether names resolve, and to the right machines. Decisions only."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Final

from bmq.cli.doctor.finding import Finding, error, ok, warning
from bmq.dataclass import dataclass

CHECK: Final = "names"
SLOW_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class ResolvedName:
    """One name, as this machine's resolver sees it.

    `purpose`: whose it is, as the subject of a sentence ("the NameNode"). `addresses`: empty if it does not resolve, and
    then `reason` says why. `is_own`: this node is told to others by it. `is_own_address`: one of the addresses is this
    machine's.
    """

    name: str
    purpose: str
    addresses: tuple[str, ...] = ()
    reason: str = ""
    took_s: float = 0.0
    is_own: bool = False
    is_own_address: bool = False


def name_findings(names: Sequence[ResolvedName]) -> list[Finding]:
    """One finding for each name that is wrong, else one for all."""
    found = [finding for name in names if (finding := _finding(name)) is not None]
    count = len({name.name for name in names})
    return found or [ok(CHECK, f"{count} names and addresses of this node and of what it needs resolve")]


def is_literal(name: str) -> bool:
    """Whether the name is an IP address."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _finding(name: ResolvedName) -> Finding | None:
    if not name.addresses:
        return error(
            CHECK,
            f"{name.purpose} is {name.name}, which does not resolve here: {name.reason}",
            "add the name to DNS, or to /etc/hosts of every machine of the cluster; or correct the setting",
        )
    where = ", ".join(name.addresses)
    is_loopback = all(ipaddress.ip_address(each.partition("%")[0]).is_loopback for each in name.addresses)
    if is_loopback and not is_literal(name.name) and name.name != "localhost":
        return error(
            CHECK,
            f"{name.purpose} is {name.name}, which is {where} here: that is this machine for every machine",
            f"take {name.name} out of the line of {name.addresses[0]} in /etc/hosts, and give it the machine's address",
        )
    if name.is_own and not name.is_own_address:
        return warning(
            CHECK,
            f"{name.purpose} is {name.name}, which is {where}: that is no address of this machine",
            "correct the setting `advertised`, `internal_advertised` or `rest_advertised`; it is right if a load "
            "balancer or NAT has that address",
        )
    if name.took_s >= SLOW_S:
        return warning(
            CHECK,
            f"it took {name.took_s:.1f} s to resolve {name.name} ({name.purpose})",
            "look at the name servers in /etc/resolv.conf: one of them does not answer",
        )
    return None
