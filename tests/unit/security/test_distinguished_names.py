"""Subjects as Java's X500Principal.getName() writes them (RFC 2253), and ssl.principal.mapping.rules (KIP-371)."""

from __future__ import annotations

import pytest

from bmq.security.distinguished_names import PrincipalRules, Subject, distinguished_name
from bmq.security.mapping_rules import NoRule, WrongRules

pytestmark = pytest.mark.unit


def subject(*pairs: tuple[str, str]) -> Subject:
    return tuple(((kind, value),) for kind, value in pairs)


@pytest.mark.parametrize(
    ("pairs", "name"),
    [
        ((("countryName", "DE"), ("organizationName", "c"), ("commonName", "a")), "CN=a,O=c,C=DE"),
        ((("commonName", 'Doe, "J" + <x>;\\'),), r"CN=Doe\, \"J\" \+ \<x\>\;\\"),
        ((("commonName", " a "),), r"CN=\ a\ "),
        ((("commonName", "#1"),), r"CN=\#1"),
        ((("emailAddress", "a@b"),), "1.2.840.113549.1.9.1=#1603614062"),
        ((("domainComponent", "org"), ("userId", "u")), "UID=u,DC=org"),
    ],
)
def test_the_most_specific_part_is_first_and_special_characters_are_escaped(
    pairs: tuple[tuple[str, str], ...], name: str
) -> None:
    assert distinguished_name(subject(*pairs)) == name


def test_attributes_of_one_part_stay_together() -> None:
    assert (
        distinguished_name(((("organizationName", "o"),), (("commonName", "a"), ("userId", "u")))) == "CN=a+UID=u,O=o"
    )


@pytest.mark.parametrize("subject", [(), ((),), ((), ())])
def test_an_empty_subject_names_nobody(subject: Subject) -> None:
    """Nor one whose parts are empty, which no standard allows and a certificate may have all the same."""
    with pytest.raises(NoRule, match="subject is empty"):
        distinguished_name(subject)


def test_an_empty_part_of_a_subject_says_nothing() -> None:
    assert distinguished_name(((("organizationName", "o"),), (), (("commonName", "a"),))) == "CN=a,O=o"


def test_the_first_rule_that_matches_the_whole_name_counts() -> None:
    rules = PrincipalRules(r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,RULE:^CN=(.*?),OU=(.*?),O=.*$/$1@$2/L,DEFAULT")
    assert rules.apply("CN=kafka,OU=ServiceUsers,O=x") == "kafka"
    assert rules.apply("CN=Joe,OU=Adm,O=Corp") == "joe@adm"
    assert rules.apply("CN=other") == "CN=other"
    assert PrincipalRules(r"RULE:CN=(a\/b)/$1\/x/U").apply("CN=a/b") == "A/B/X"


def test_a_name_that_no_rule_matches_or_that_becomes_empty_is_refused() -> None:
    with pytest.raises(NoRule, match="no rule matches 'CN=b'"):
        PrincipalRules("RULE:^CN=a$/a/").apply("CN=b")
    with pytest.raises(NoRule, match="empty name"):
        PrincipalRules("RULE:^CN=.*$//").apply("CN=b")


@pytest.mark.parametrize("text", ["RULE:a", "SOME", r"RULE:\p{L}/x/", "RULE:a++/x/", "RULE:(/x/"])
def test_rules_that_cannot_be_are_one_sentence(text: str) -> None:
    with pytest.raises(WrongRules):
        PrincipalRules(text)
