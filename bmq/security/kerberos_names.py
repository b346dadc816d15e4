"""The user's name of a Kerberos principal, by the rules of `sasl.kerberos.principal.to.local.rules`. Decisions only.

    DEFAULT, RULE:[n:FORMAT](MATCH)s/FROM/TO/g/L, …

A rule is for principals of n parts; $0 in FORMAT is the realm, $1 and $2 are the parts. It counts where MATCH is the whole
of that text, and then replaces FROM by TO: once, or with `g` each time. L and U change the case. DEFAULT takes the first
part of the principals of the own realm. The first rule that counts decides.
Source: KerberosName, KerberosRule and KerberosShortNamer of Apache Kafka (4.3), after auth_to_local of MIT.
"""

from __future__ import annotations

import re
from typing import Final

from bmq.dataclass import dataclass
from bmq.security.mapping_rules import NoRule, WrongRules, java_pattern, java_replacement

DEFAULT: Final = "DEFAULT"
_PRINCIPAL: Final = re.compile(r"(?P<first>[^/@]*)(?:/(?P<second>[^/@]*))?@(?P<realm>[^/@]*)")
_RULE: Final = re.compile(
    r"RULE:\[(?P<parts>\d+):(?P<format>[^\]]*)\](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<from>[^/]*)/(?P<to>[^/]*)/(?P<all>g)?)?/?(?P<case>[LU])?"
)
_PARAMETER: Final = re.compile(r"\$(\d*)")


@dataclass(frozen=True, slots=True)
class KerberosName:
    """`second`: mostly a host. `realm`: None where the text has none."""

    first: str
    second: str | None
    realm: str | None

    @property
    def parts(self) -> tuple[str, ...]:
        return (self.first,) if self.second is None else (self.first, self.second)


def kerberos_name(text: str) -> KerberosName:
    """Of FIRST, FIRST@REALM or FIRST/SECOND@REALM. Raises NoRule for other forms."""
    match = _PRINCIPAL.fullmatch(text)
    if match is not None:
        return KerberosName(match["first"], match["second"], match["realm"])
    if "@" in text:
        raise NoRule(f"the principal {text!r} has not the form NAME/HOST@REALM")
    return KerberosName(text, None, None)


@dataclass(frozen=True, slots=True)
class _Rule:
    parts: int
    format: str
    match: re.Pattern[str] | None
    pattern: re.Pattern[str] | None
    replacement: str
    is_for_all: bool
    case: str

    def apply(self, name: KerberosName) -> str | None:
        if len(name.parts) != self.parts:
            return None
        known = (name.realm or "", *name.parts)
        text = _PARAMETER.sub(lambda found: known[int(found[1])], self.format)
        if self.match is not None and self.match.fullmatch(text) is None:
            return None
        if self.pattern is not None:
            text = self.pattern.sub(self.replacement, text, count=0 if self.is_for_all else 1)
        return text


class ShortNameRules:
    """`text`: the config. Raises WrongRules."""

    def __init__(self, text: str = DEFAULT) -> None:
        rules = [one.strip() for one in text.split(",") if one.strip()]
        self._rules = [_rule(one) for one in rules or [DEFAULT]]

    def short_name(self, principal: str, own_realm: str) -> str:
        """Raises NoRule: the principal has no user's name here."""
        name = kerberos_name(principal)
        if name.realm is None and name.second is None:
            return _whole(name.first, principal)
        for rule in self._rules:
            found = _default(name, own_realm) if rule is None else rule.apply(name)
            if found is None:
                continue
            if re.search(r"[/@]", found):
                raise NoRule(f"a rule makes {found!r} of the principal {principal!r}, which is no user's name")
            case = "" if rule is None else rule.case
            return _whole(found.lower() if case == "L" else found.upper() if case == "U" else found, principal)
        raise NoRule(f"no rule of sasl.kerberos.principal.to.local.rules is for the principal {principal!r}")


def _default(name: KerberosName, own_realm: str) -> str | None:
    return name.first if name.realm == own_realm else None


def _whole(name: str, principal: str) -> str:
    if not name:
        raise NoRule(f"the rules make an empty name of the principal {principal!r}")
    return name


def _rule(text: str) -> _Rule | None:
    """None: DEFAULT."""
    if text == DEFAULT:
        return None
    match = _RULE.fullmatch(text)
    if match is None:
        raise WrongRules(f"{text!r} is neither DEFAULT nor RULE:[NUMBER:FORMAT](MATCH)s/FROM/TO/g")
    parts = int(match["parts"])
    for number in _PARAMETER.findall(match["format"]):
        if not number or int(number) > parts:
            raise WrongRules(f"{text!r} names ${number}, and has $0 to ${parts}")
    wanted = None if match["match"] is None else java_pattern(match["match"])
    if match["from"] is None:
        return _Rule(parts, match["format"], wanted, None, "", is_for_all=False, case=match["case"] or "")
    pattern = java_pattern(match["from"])
    replacement = java_replacement(match["to"], pattern.groups)
    is_for_all = match["all"] is not None
    return _Rule(parts, match["format"], wanted, pattern, replacement, is_for_all, match["case"] or "")
