"""Whether a listener may show another certificate than before without a restart (KIP-978). Decisions only.

A certificate of another machine, put there by mistake, would make all new connections fail. So the new one has to have the
same distinguished name, and all alternative names that the old one has; a config allows each kind of change.
Source: SslFactory.CertificateEntries of Apache Kafka (4.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bmq.dataclass import dataclass
from bmq.security.distinguished_names import Subject, distinguished_name

ALLOW_DN_CHANGES: Final = "ssl.allow.dn.changes"
ALLOW_SAN_CHANGES: Final = "ssl.allow.san.changes"


@dataclass(frozen=True, slots=True)
class CertificateNames:
    """`alternative`: kind and name of each, as "DNS" and "b1.example.org"."""

    subject: Subject
    alternative: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, certificate: Mapping[str, Any]) -> CertificateNames:
        """`certificate`: as ssl.SSLSocket.getpeercert has it."""
        alternative = ((kind, str(name)) for kind, name in certificate.get("subjectAltName", ()))
        return cls(certificate.get("subject", ()), frozenset(alternative))

    @property
    def text(self) -> str:
        """The distinguished name; empty for none."""
        return distinguished_name(self.subject) if self.subject else ""


def change_fault(old: CertificateNames, new: CertificateNames, *, allows_dn: bool, allows_san: bool) -> str:
    """Why the new certificate may not follow the old one, as one sentence; empty: it may."""
    if not allows_dn and _canonical(old.subject) != _canonical(new.subject):
        return (
            f"the certificate's name changes from {old.text!r} to {new.text!r}: set {ALLOW_DN_CHANGES} or restart, if "
            "that is wanted"
        )
    missing = sorted(name for _, name in old.alternative - new.alternative)
    if not allows_san and missing:
        return (
            f"the new certificate lacks the alternative names {', '.join(missing)}: set {ALLOW_SAN_CHANGES} or restart, "
            "if that is wanted"
        )
    return ""


def _canonical(subject: Subject) -> list[list[tuple[str, str]]]:
    """As Java compares: neither case nor the number of blanks counts, nor the order within a name of many attributes."""
    return [sorted((kind, " ".join(value.split()).lower()) for kind, value in one) for one in subject]
