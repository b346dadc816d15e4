"""Which listeners let anybody in. Decisions only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bmq.cli.doctor.finding import Finding, ok, warning
from bmq.dataclass import dataclass

CHECK: Final = "listeners"


@dataclass(frozen=True, slots=True)
class Listener:
    """`kind`: who uses it. `has_login`: clients prove who they are. `is_encrypted`: it speaks TLS."""

    name: str
    address: str
    kind: str
    has_login: bool
    is_encrypted: bool
    is_loopback: bool


def access_findings(listeners: Sequence[Listener]) -> list[Finding]:
    """One finding for each listener that is open beyond this machine, else one for all."""
    found = []
    for one in listeners:
        if one.is_loopback:
            continue
        if not one.has_login:
            found.append(
                warning(
                    CHECK,
                    f"{one.name} at {one.address} asks for no login: every machine that reaches it is {one.kind}",
                    "ask for a login and TLS (docs/SECURITY.md), or let a firewall admit the machines that need it",
                )
            )
        elif not one.is_encrypted:
            found.append(
                warning(
                    CHECK,
                    f"{one.name} at {one.address} asks for a login without TLS: a listener on the network reads it",
                    "give the listener TLS (docs/SECURITY.md)",
                )
            )
    reached = sum(not one.is_loopback for one in listeners)
    if found:
        return found
    if not reached:
        return [ok(CHECK, "only this machine reaches the listeners")]
    return [ok(CHECK, f"{reached} listeners are reached by other machines, all with a login and TLS")]
