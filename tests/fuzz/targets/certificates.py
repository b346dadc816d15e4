"""Subjects of clients' certificates, and the rules that make principals of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any, Final

from bmq.security.distinguished_names import PrincipalRules, distinguished_name
from bmq.security.mapping_rules import NoRule, WrongRules
from tests.fuzz.target import Target

_KINDS: Final = ("commonName", "organizationName", "countryName", "emailAddress", "serialNumber", "UID", "1.2.3.4")
_VALUES: Final = ("a", "", " a ", "#a", "a,b", 'q"+\\<>;', "é" * 40, "x" * 127, "x" * 128, "x" * 300, "\n", "\0")
_RULES: Final = (
    "DEFAULT",
    "RULE:^CN=(.*?),O=(.*)$/$1@$2/L,DEFAULT",
    "RULE:^CN=(.*)$/$1/U",
    "RULE:.*/x/",
    "RULE:a\\/b/$0/",
    "RULE:(a)/$2/",
    "RULE:(/x/",
)
_MOST: Final = 4


def check(data: bytes) -> bool:
    """JSON: the rules, and the subject as Python's ssl gives it. A principal is not empty, and of a known certificate."""
    try:
        rules, subject = json.loads(data)
    except (ValueError, TypeError, RecursionError):
        return False
    if not isinstance(rules, str) or not _is_subject(subject):
        return False
    try:
        principal = PrincipalRules(rules).apply(distinguished_name(subject))
    except (WrongRules, NoRule):
        return False
    assert principal, "an empty name"
    return True


def _is_subject(subject: Any) -> bool:
    """Lists of lists of pairs of texts that are UTF-8."""
    try:
        flat = [part for one in subject for kind, value in one for part in (kind, value)]
        return all(isinstance(part, str) and part.encode() is not None for part in flat)
    except (TypeError, ValueError):
        return False


def seeds() -> Iterator[bytes]:
    dice = Random(9)
    yield from (_fresh(dice) for _ in range(60))


def mutate(data: bytes, dice: Random) -> bytes:
    """Another certificate."""
    return _fresh(dice)


def _fresh(dice: Random) -> bytes:
    names = [
        [(dice.choice(_KINDS), dice.choice(_VALUES)) for _ in range(dice.randint(1, 2))]
        for _ in range(dice.randrange(_MOST))
    ]
    return json.dumps([dice.choice(_RULES), names]).encode()


TARGET: Final = Target("certificates", seeds, check, ("bmq.security.distinguished_names",), mutate)
