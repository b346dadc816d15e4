"""Users' names of Kerberos principals. The table was answered by KerberosShortNamer of Apache Kafka 4.3.0."""

from __future__ import annotations

import pytest

from bmq.security.kerberos_names import ShortNameRules
from bmq.security.mapping_rules import NoRule, WrongRules

pytestmark = pytest.mark.unit

REALM = "BMQ.TEST"
NAMES = (
    "alice@BMQ.TEST",
    "alice/admin@BMQ.TEST",
    "kafka/localhost@BMQ.TEST",
    "AppAlice@BMQ.TEST",
    "AppAlice/x@OTHER.TEST",
    "bob@OTHER.TEST",
    "bob/h@OTHER.TEST",
    "user@BMQ.TEST",
    "nn/h1@BMQ.TEST",
    "a/b/c@BMQ.TEST",
    "a@b@C",
)
OWN = {
    "alice@BMQ.TEST": "alice",
    "alice/admin@BMQ.TEST": "alice",
    "kafka/localhost@BMQ.TEST": "kafka",
    "AppAlice@BMQ.TEST": "AppAlice",
    "user@BMQ.TEST": "user",
    "nn/h1@BMQ.TEST": "nn",
}
ONE_PART = {
    "alice@BMQ.TEST": "alice",
    "AppAlice@BMQ.TEST": "appalice",
    "bob@OTHER.TEST": "bob",
    "user@BMQ.TEST": "user",
}


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("", OWN),
        ("DEFAULT", OWN),
        ("RULE:[1:$1](App.*)s/App//g,DEFAULT", {**OWN, "AppAlice@BMQ.TEST": "Alice"}),
        ("RULE:[2:$1](App.*)s/App//g,DEFAULT", {**OWN, "AppAlice/x@OTHER.TEST": "Alice"}),
        ("RULE:[1:$1@$0](.*@OTHER.TEST)s/@.*//", {"bob@OTHER.TEST": "bob"}),
        ("RULE:[2:$1;$2](^.*;admin$)s/;admin$//,DEFAULT", OWN),
        ("RULE:[1:$1@$0](.*@BMQ.TEST)s/@.*///L, DEFAULT", {**OWN, "AppAlice@BMQ.TEST": "appalice"}),
        ("RULE:[1:$1]/L", ONE_PART),
        ("RULE:[1:$1](.*)/L", ONE_PART),
        ("RULE:[1:$1]/U", {name: short.upper() for name, short in ONE_PART.items()}),
        ("RULE:[1:$1@$0]", {}),
        (
            "RULE:[2:$2](.*)s/a/b/g",
            {
                "alice/admin@BMQ.TEST": "bdmin",
                "kafka/localhost@BMQ.TEST": "locblhost",
                "AppAlice/x@OTHER.TEST": "x",
                "bob/h@OTHER.TEST": "h",
                "nn/h1@BMQ.TEST": "h1",
            },
        ),
        (
            "RULE:[1:$1](.*)s/(.)(.)/$2$1/g/U",
            {
                "alice@BMQ.TEST": "LACIE",
                "AppAlice@BMQ.TEST": "PAAPILEC",
                "bob@OTHER.TEST": "OBB",
                "user@BMQ.TEST": "SURE",
            },
        ),
        (
            "RULE:[1:$1](.*)s/(.)(.)/$2$1/",
            {
                "alice@BMQ.TEST": "laice",
                "AppAlice@BMQ.TEST": "pApAlice",
                "bob@OTHER.TEST": "obb",
                "user@BMQ.TEST": "suer",
            },
        ),
        ("RULE:[3:$1],DEFAULT", OWN),
        ("RULE:[1:x$1y](xalicey)s/[xy]//g", {"alice@BMQ.TEST": "alice"}),
        (
            "RULE:[1:$1@$0](user@BMQ.TEST)s/.*/hdfs/,RULE:[2:$1@$0](nn@.*)s/.*/root/,DEFAULT",
            {**OWN, "user@BMQ.TEST": "hdfs", "nn/h1@BMQ.TEST": "root"},
        ),
    ],
)
def test_names_are_those_of_kafka(rules: str, expected: dict[str, str]) -> None:
    found = {}
    for name in NAMES:
        try:
            found[name] = ShortNameRules(rules).short_name(name, REALM)
        except NoRule:
            continue
    assert found == expected


@pytest.mark.parametrize(
    "rules",
    [
        "RULE:[1:$1",
        "BAD",
        "RULE:[:$1]",
        "default",
        "RULE:[1:$1](.*)s/a/b/x",
        "RULE:[1:$1](.*)s/a/b/g/L/",
        "DEFAULT,RULE:[1:$2]",
        "RULE:[1:$]",
        "RULE:[1:$1]([)",
        "RULE:[1:$1](.*)s/(a/b/",
        "RULE:[1:$1](.*)s/a/$1/",
    ],
)
def test_rules_that_cannot_be_are_one_sentence(rules: str) -> None:
    with pytest.raises(WrongRules) as refused:
        ShortNameRules(rules)
    assert "\n" not in str(refused.value)


def test_no_name_is_empty() -> None:
    with pytest.raises(NoRule, match="empty name"):
        ShortNameRules().short_name("@BMQ.TEST", REALM)
    with pytest.raises(NoRule, match=r"no rule of .* is for the principal 'bob@OTHER.TEST'"):
        ShortNameRules().short_name("bob@OTHER.TEST", REALM)
    assert ShortNameRules().short_name("alice", REALM) == "alice"
