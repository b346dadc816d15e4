"""How nodes talk among themselves: whether encrypted, and what proves that a peer is a node. Decisions only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from bmq.dataclass import dataclass
from bmq.security.loopback import is_loopback_host
from bmq.security.node_certificates import node_of

TABLE: Final = "internode_security"


class InternodeMode(StrEnum):
    """AUTO: TLS where files are named, else plaintext, which only loopback addresses allow.
    PLAINTEXT: nothing is encrypted, and every peer is believed. MIXED: TLS with the nodes that have it, plaintext with others:
    for the time in which a cluster changes. TLS: only peers that prove to be nodes.
    """

    AUTO = ""
    PLAINTEXT = "plaintext"
    MIXED = "mixed"
    TLS = "tls"

    @property
    def has_tls(self) -> bool:
        return self in (InternodeMode.MIXED, InternodeMode.TLS)


class WrongInternodeSecurity(ValueError):
    """The settings cannot be right, or leave nodes open without saying so; one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InternodeSecurity:
    """What an operator may set. `certificate_file`: PEM, this node's key and certificate. `ca_file`: PEM, the authorities that
    issue certificates of nodes.
    """

    mode: InternodeMode = InternodeMode.AUTO
    """`tls`, `mixed` (TLS where the other node has it) or `plaintext`; empty: TLS if files are named."""
    certificate_file: str = ""
    """PEM: this node's key, certificate and intermediates, mode 0600 or 0640."""
    ca_file: str = ""
    """PEM: the authorities that issue certificates of nodes."""

    def mode_at(self, addresses: Iterable[str]) -> InternodeMode:
        """The mode in force, which is never AUTO. `addresses`: HOST:PORT, where this node listens for others, and where they
        are told to connect; empty ones are left out. Raises WrongInternodeSecurity.
        """
        has_files = bool(self.certificate_file or self.ca_file)
        mode = self.mode
        if mode is InternodeMode.AUTO:
            mode = InternodeMode.TLS if has_files else InternodeMode.PLAINTEXT
        if mode.has_tls:
            for name in ("certificate_file", "ca_file"):
                if not getattr(self, name):
                    raise WrongInternodeSecurity(
                        f"TLS between nodes needs {TABLE}.{name}: `bmq cluster ca` makes the files"
                    )
            return mode
        if has_files:
            raise WrongInternodeSecurity(f"{TABLE} names files for TLS, but {TABLE}.mode is plaintext")
        reached = [address for address in addresses if address and not is_loopback(address)]
        if self.mode is InternodeMode.AUTO and reached:
            raise WrongInternodeSecurity(
                f"other nodes reach this one at {reached[0]}, which is beyond this machine, and without TLS every machine there "
                f"may act as a node: set {TABLE}.certificate_file and ca_file (`bmq cluster ca` makes them), or {TABLE}.mode = "
                f"plaintext if the network is closed to others"
            )
        return mode


OPEN: Final = InternodeSecurity()


def is_loopback(address: str) -> bool:
    """Whether only this machine reaches HOST:PORT. Of host names `localhost` alone does."""
    return is_loopback_host(address.rpartition(":")[0])


def why_no_node(certificate: Mapping[str, object] | None, *, allows_plaintext: bool) -> str:
    """Why a peer with this certificate is not believed to be a node; empty: it is. None: it showed none."""
    if certificate:
        return "" if node_of(certificate) else NO_NODE
    return "" if allows_plaintext else "it showed no certificate, and only nodes may connect here"


NO_NODE: Final = "its certificate is of no node: `bmq cluster ca issue` makes one that is"
