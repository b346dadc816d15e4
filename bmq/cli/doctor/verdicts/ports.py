"""Whether a node has its ports, or another program has them. Decisions only."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

from bmq.cli.doctor.finding import Finding, error, ok, warning
from bmq.dataclass import dataclass

CHECK: Final = "ports"


class PortState(Enum):
    FREE = auto()
    OURS = auto()
    TAKEN = auto()
    UNUSABLE = auto()


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """`setting`: which listens at HOST:PORT `address`. `detail`: the program that has the port, or why it cannot be used."""

    setting: str
    address: str
    state: PortState
    detail: str = ""


def port_findings(ports: Sequence[ListenAddress]) -> list[Finding]:
    """One finding for each port that the node cannot have, else one for all."""
    found = []
    is_running = any(port.state is PortState.OURS for port in ports)
    for port in ports:
        if port.state is PortState.TAKEN:
            found.append(
                error(
                    CHECK,
                    f"the port of {port.setting} = {port.address} is taken by {port.detail}",
                    f"stop that program, or set {port.setting} to another port",
                )
            )
        elif port.state is PortState.UNUSABLE:
            found.append(
                error(
                    CHECK,
                    f"no server can listen at {port.setting} = {port.address}: {port.detail}",
                    f"set {port.setting} to an address of this machine, and to a port that this user may use",
                )
            )
        elif port.state is PortState.FREE and is_running:
            found.append(
                warning(
                    CHECK,
                    f"a server of bmq runs here, and nothing listens at {port.setting} = {port.address}",
                    "give the settings of the node that runs (--config), or restart it if it has older ones",
                )
            )
    state = "a server of bmq has" if is_running else "free for a server are"
    return found or [ok(CHECK, f"{state} {', '.join(port.address for port in ports)}")]
