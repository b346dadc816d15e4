"""Long attributes of a certificate are encoded as DER has them, and a rule that cannot be applied stops the start."""

from __future__ import annotations

import pytest

from bmq.security.distinguished_names import PrincipalRules, distinguished_name
from bmq.security.mapping_rules import WrongRules

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("size", "length"),
    [(1, "01"), (127, "7f"), (128, "8180"), (255, "81ff"), (256, "820100"), (65_535, "82ffff"), (65_536, "83010000")],
)
def test_the_length_of_an_attribute_takes_no_more_bytes_than_it_needs(size: int, length: str) -> None:
    name = distinguished_name(((("emailAddress", "a" * size),), (("commonName", "c"),)))
    assert name == f"CN=c,1.2.840.113549.1.9.1=#16{length}{'61' * size}"


@pytest.mark.parametrize("rule", ["RULE:^CN=(.*)$/$2/", "RULE:^CN=.*$/$1/L", "DEFAULT,RULE:(a)(b)/$1$3/"])
def test_a_group_that_the_pattern_does_not_have(rule: str) -> None:
    with pytest.raises(WrongRules, match="group"):
        PrincipalRules(rule)


def test_groups_that_are_there() -> None:
    assert PrincipalRules("RULE:^CN=(.*?),O=(.*)$/$2-$1-$0/L").apply("CN=A,O=B") == "b-a-cn=a,o=b"
