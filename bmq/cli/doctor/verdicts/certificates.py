"""Whether the certificates of a node's listeners are valid for long enough. Decisions only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bmq.cli.doctor.finding import Finding, error, not_applicable, ok, warning
from bmq.dataclass import dataclass

CHECK: Final = "certificates"
DAYS_WARNING: Final = 30.0
DAYS_ERROR: Final = 7.0
_RENEW: Final = "issue a new one and put it in the place of the file: servers read it again (docs/SECURITY.md)"


@dataclass(frozen=True, slots=True)
class ListenerCertificate:
    """`listener`: whose certificate it is. `fault`: why it cannot be used, a sentence; empty: `days_left` count."""

    listener: str
    days_left: float = 0.0
    fault: str = ""


def certificate_findings(certificates: Sequence[ListenerCertificate]) -> list[Finding]:
    """One finding for each certificate to renew, else one for all."""
    if not certificates:
        return [not_applicable(CHECK, "no listener speaks TLS")]
    found = []
    for one in certificates:
        if one.fault:
            found.append(error(CHECK, f"the certificate of {one.listener} cannot be used: {one.fault}", _RENEW))
        elif one.days_left < 0:
            found.append(error(CHECK, f"the certificate of {one.listener} ended {-one.days_left:.0f} days ago", _RENEW))
        elif one.days_left < DAYS_WARNING:
            make = error if one.days_left < DAYS_ERROR else warning
            found.append(make(CHECK, f"the certificate of {one.listener} ends in {one.days_left:.1f} days", _RENEW))
    least = min(one.days_left for one in certificates)
    return found or [ok(CHECK, f"{len(certificates)} certificates, the first one ends in {least:.0f} days")]
