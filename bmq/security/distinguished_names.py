"""The principal of a client's certificate: its subject as Java writes it (RFC 2253), and the rules that map it (KIP-371).

Decisions only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from bmq.security.mapping_rules import NoRule, WrongRules, java_pattern, java_replacement

Subject = Sequence[Sequence[tuple[str, str]]]
"""As ssl.SSLSocket.getpeercert has it: relative names in the certificate's order, each of one or more attributes."""

_NAMES: Final = {
    "commonName": "CN",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
    "UID": "UID",
}
_OTHERS: Final = {"emailAddress": ("1.2.840.113549.1.9.1", 0x16), "serialNumber": ("2.5.4.5", 0x13)}
"""Attributes that RFC 2253 has no name for: their numbers, and the type of their values in DER."""
_RULE: Final = re.compile(r"RULE:((?:\\/|[^/])*)/((?:\\/|[^/])*)/([LU]?)")
DEFAULT: Final = "DEFAULT"


def distinguished_name(subject: Subject) -> str:
    """Most specific first, without blanks. Raises NoRule for an empty subject."""
    parts = ["+".join(_attribute(kind, value) for kind, value in one) for one in reversed(subject) if one]
    if not parts:
        raise NoRule("the certificate's subject is empty")
    return ",".join(parts)


def _attribute(kind: str, value: str) -> str:
    name = _NAMES.get(kind)
    if name is not None:
        return f"{name}={_escaped(value)}"
    number, tag = _OTHERS.get(kind, (kind, 0x0C))
    data = value.encode()
    return f"{number}=#{(bytes((tag,)) + _der_length(len(data)) + data).hex()}"


def _der_length(size: int) -> bytes:
    if size < 0x80:
        return bytes((size,))
    digits = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((0x80 | len(digits),)) + digits


def _escaped(value: str) -> str:
    found = re.sub(r'([,+"\\<>;])', r"\\\1", value)
    if found.startswith(("#", " ")):
        found = "\\" + found
    return found[:-1] + "\\ " if value.endswith(" ") and len(value) > 1 else found


class PrincipalRules:
    """`text`: the config. Raises WrongRules."""

    def __init__(self, text: str = DEFAULT) -> None:
        self._rules: list[tuple[re.Pattern[str], str, str] | None] = []
        position, text = 0, text.strip() or DEFAULT
        while position < len(text):
            if text[position] in ", ":
                position += 1
                continue
            if text.startswith(DEFAULT, position):
                self._rules.append(None)
                position += len(DEFAULT)
                continue
            match = _RULE.match(text, position)
            if match is None:
                raise WrongRules(f"{text[position:]!r} is neither DEFAULT nor RULE:PATTERN/REPLACEMENT/[LU]")
            pattern = java_pattern(match[1])
            self._rules.append((pattern, java_replacement(match[2], pattern.groups), match[3]))
            position = match.end()

    def apply(self, name: str) -> str:
        """The principal's name: of the first rule that matches the whole name. Raises NoRule."""
        for rule in self._rules:
            if rule is None:
                return name
            pattern, replacement, case = rule
            match = pattern.fullmatch(name)
            if match is not None:
                found = match.expand(replacement)
                if not found:
                    raise NoRule(f"the rules make an empty name of {name!r}")
                return found.lower() if case == "L" else found.upper() if case == "U" else found
        raise NoRule(f"no rule matches {name!r}")
