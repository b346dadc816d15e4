"""Turns what Kerberos says into one sentence that names what to change. Pure."""

from __future__ import annotations

import re
from typing import Final

from bmq.dataclass import dataclass
from bmq.protocol.errors import BmqError

NO_KEYTAB: Final = "Unsupported key table format"
_MINOR: Final = re.compile(r"Minor \(\d+\): (.*?)\s*$", re.DOTALL)
_MAJOR: Final = re.compile(r"Major \(\d+\): (.*?), Minor", re.DOTALL)
_NO_MINOR: Final = "Success"
_TEXT_CHARACTERS_MAX: Final = 300

# Texts of MIT's libkrb5. {who}: our principal; {where}: its keytab or the ticket cache; {server}; {principal}, {keytab},
# {server_name}, {server_realm}: of LoginSettings.
_ADVICE: Final[tuple[tuple[str, str], ...]] = (
    ("Clock skew too great", "the clock of this machine differs from the KDC's or the server's: set both right"),
    ("Ticket not yet valid", "the clock of this machine differs from the KDC's or the server's: set both right"),
    ("Client '", "the KDC does not know {who}: correct {principal}, or have it added"),
    ("Client's entry in database has expired", "the principal {who} has expired: have it renewed at the KDC"),
    ("Password has expired", "the key of {who} has expired: have it renewed, and the keytab written anew"),
    ("Client's credentials have been revoked", "the KDC has locked {who}: have it unlocked"),
    ("not found in Kerberos database", "the KDC does not know the principal of {server}: correct {server_name}"),
    ("Preauthentication failed", "{where} holds old keys of {who}: have it written anew"),
    ("Decrypt integrity check failed", "{where} holds old keys of {who}, or {server} runs with old ones: have the"
     " keytab written anew"),
    ("Permission denied", "{where} cannot be read: allow it to the user that bmq runs as"),
    ("permissions incorrect", "{where} is another user's: log in by kinit as the user that bmq runs as, or set"
     " {keytab} and {principal}"),
    ("no support for encryption type", "the KDC, krb5.conf (permitted_enctypes) and the keys of {who} and {server} have no"
     " kind of encryption in common: allow aes256-cts-hmac-sha1-96 in all of them, and have keytabs written anew"),
    ("KDC policy rejects", "the KDC does not allow {who} to log in at {server}: have its policy changed"),
    (NO_KEYTAB, "{where} is no keytab: have it written by ktadd of kadmin, or correct {keytab}"),
    ("Key table file", "{where} is not there: correct {keytab}"),
    ("keytab", "{where} has no usable key of {who}: name the principal that the keytab was made for in {principal}"),
    ("key table", "{where} has no usable key of {who}: name the principal that the keytab was made for in {principal}"),
    ("No Kerberos credentials available", "there is no ticket in {where}: log in by kinit, or set {keytab} and"
     " {principal}"),
    ("No credentials", "there is no ticket in {where}: log in by kinit, or set {keytab} and {principal}"),
    ("Ticket expired", "the ticket in {where} has expired: log in by kinit, or set {keytab} and {principal}"),
    ("does not match desired name", "{where} has no ticket of {who}: log in by kinit, or set {keytab}"),
    ("in cache collection", "{where} has no ticket of {who}: log in by kinit, or set {keytab}"),
    ("Matching credential not found", "{where} has no ticket of {who}: log in by kinit, or set {keytab}"),
    ("Cannot find KDC for realm", "no KDC is known for the realm: name it in krb5.conf (KRB5_CONFIG, /etc/krb5.conf)"),
    ("default realm", "no realm is known: set default_realm in krb5.conf (KRB5_CONFIG, /etc/krb5.conf)"),
    ("Cannot determine realm", "no realm is known for the host of {server}: name it in [domain_realm] of krb5.conf"
     " (KRB5_CONFIG, /etc/krb5.conf), or name the realm in {server_realm}"),
    ("Improper format of Kerberos configuration", "krb5.conf is damaged (KRB5_CONFIG, /etc/krb5.conf)"),
    ("Kerberos configuration file", "krb5.conf is not there or cannot be read (KRB5_CONFIG, /etc/krb5.conf)"),
    ("configuration file", "krb5.conf is damaged (KRB5_CONFIG, /etc/krb5.conf)"),
)  # fmt: skip
# What the library says of a keytab without a key of ours: it looked for tickets afterwards.
_NOTHING_FOUND: Final = ("No credentials cache", "No Kerberos credentials available")
_PASSING: Final = (
    "Cannot contact any KDC",
    "Cannot resolve",
    "timed out",
    "Connection refused",
    "Resource temporarily unavailable",
)


class KerberosFault(BmqError):
    """A login that failed; one sentence. `is_passing`: no KDC answers, so a later try may do better."""

    def __init__(self, sentence: str, *, is_passing: bool = False) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.is_passing = is_passing


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginSettings:
    """How an operator names what a login is made of. `service`: where it leads, `HDFS`."""

    service: str
    principal: str
    keytab: str
    server_name: str
    server_realm: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginParties:
    """`who`: our principal. `where`: its keytab (`is_keytab`) or the ticket cache. `server`: the one to log in to."""

    who: str
    where: str
    server: str
    is_keytab: bool = False


def kerberos_fault(text: str, parties: LoginParties, settings: LoginSettings) -> KerberosFault:
    """`text`: of a GSSError."""
    match = _MINOR.search(text)
    said = (match[1] if match else text).partition("\n")[0].strip()[:_TEXT_CHARACTERS_MAX]
    who, where, server = parties.who, parties.where, parties.server
    if said == _NO_MINOR and (major := _MAJOR.search(text)):
        said = major[1][:_TEXT_CHARACTERS_MAX]
    if parties.is_keytab and said.startswith("Ticket expired"):
        # By the keytab the library gets another one. When it cannot, it says no more than that about the old one.
        return KerberosFault(
            f"{server}: no KDC answers for the login of {who}, whose ticket has expired: it is down, slow, or {where} holds"
            f" old keys ({said})",
            is_passing=True,
        )
    if any(part in said for part in _PASSING):
        return KerberosFault(
            f"{server}: no KDC answers for the login of {who}: it is down, slow, or krb5.conf names another machine"
            f" ({said})",
            is_passing=True,
        )
    if parties.is_keytab and said.startswith(_NOTHING_FOUND):
        said = f"No key of it in the keytab: {said}"
    for part, advice in _ADVICE:
        if part.lower() in said.lower():
            told = advice.format(
                who=who,
                where=where,
                server=server,
                principal=settings.principal,
                keytab=settings.keytab,
                server_name=settings.server_name,
                server_realm=settings.server_realm,
            )
            return KerberosFault(f"{server}: {told} ({said})")
    return KerberosFault(f"{server}: {who} cannot log in by Kerberos: {said}")
