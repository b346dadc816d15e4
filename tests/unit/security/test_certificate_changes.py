"""Which certificates may follow the one in force: same name, and no alternative name less, unless a config allows it."""

from __future__ import annotations

from typing import Any

import pytest

from bmq.security.certificate_changes import CertificateNames, change_fault

pytestmark = pytest.mark.unit


def names(*alternative: tuple[str, str], **subject: str) -> CertificateNames:
    """As getpeercert has them."""
    certificate: dict[str, Any] = {"subject": tuple(((kind, value),) for kind, value in subject.items())}
    return CertificateNames.of(certificate | ({"subjectAltName": alternative} if alternative else {}))


A, B, ADDRESS = ("DNS", "a.example.org"), ("DNS", "b.example.org"), ("IP Address", "10.0.0.1")


def fault(old: CertificateNames, new: CertificateNames, **allowed: bool) -> str:
    return change_fault(old, new, **{"allows_dn": False, "allows_san": False, **allowed})


@pytest.mark.parametrize(
    "new",
    [
        names(A, ADDRESS, countryName="DE", commonName="node one"),
        names(A, B, ADDRESS, countryName="DE", commonName="node one"),
        names(ADDRESS, A, countryName="de", commonName="Node  ONE "),
    ],
    ids=["same", "more", "case-and-blanks"],
)
def test_what_keeps_its_names_follows(new: CertificateNames) -> None:
    assert fault(names(A, ADDRESS, countryName="DE", commonName="node one"), new) == ""


def test_the_order_within_a_name_of_many_attributes_does_not_count() -> None:
    old = CertificateNames(((("commonName", "a"), ("userId", "b")),), frozenset())
    new = CertificateNames(((("userId", "b"), ("commonName", "a")),), frozenset())
    assert fault(old, new) == ""


@pytest.mark.parametrize(
    "new",
    [
        names(commonName="other", countryName="DE"),
        names(commonName="node"),
        names(countryName="DE", commonName="node"),
        names(),
    ],
    ids=["value", "less", "order", "empty"],
)
def test_another_distinguished_name_needs_its_config(new: CertificateNames) -> None:
    old = names(commonName="node", countryName="DE")
    said = fault(old, new, allows_san=True)
    assert f"changes from 'C=DE,CN=node' to {new.text!r}: set ssl.allow.dn.changes" in said
    assert fault(old, new, allows_dn=True) == ""


@pytest.mark.parametrize("new", [names(A), names(A, ("DNS", "10.0.0.1")), names()], ids=["less", "kind", "none"])
def test_a_missing_alternative_name_needs_its_config(new: CertificateNames) -> None:
    said = fault(names(A, ADDRESS), new, allows_dn=True)
    assert "lacks the alternative names 10.0.0.1" in said and ": set ssl.allow.san.changes" in said
    assert fault(names(A, ADDRESS), new, allows_san=True) == ""
