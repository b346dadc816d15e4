"""Turns libkrb5's error texts into one sentence that says what to change. Pure."""

from __future__ import annotations

import re
from typing import Final

from bmq.hdfs.errors import AuthenticationRequired
from bmq.log.store import StorageUnavailable, StoreError

_MINOR: Final = re.compile(r"Minor \(\d+\): (.*?)\s*$", re.DOTALL)
_TEXT_CHARACTERS_MAX: Final = 300
NO_KEYTAB: Final = "Unsupported key table format"

# (part of an error text of MIT's libkrb5, advice). {who}: our principal; {where}: its keytab or the ticket cache; {server}.
_ADVICE: Final[tuple[tuple[str, str], ...]] = (
    ("Clock skew too great", "the clock of this machine differs from the KDC's or the server's: set both right"),
    ("Ticket not yet valid", "the clock of this machine differs from the KDC's or the server's: set both right"),
    ("Client '", "the KDC does not know {who}: correct hdfs.principal, or have it added"),
    ("Client's entry in database has expired", "the principal {who} has expired: have it renewed at the KDC"),
    ("Password has expired", "the key of {who} has expired: have it renewed, and the keytab written anew"),
    ("Client's credentials have been revoked", "the KDC has locked {who}: have it unlocked"),
    ("not found in Kerberos database", "the KDC does not know the principal of {server}: correct the host name in the"
     " store's URL or dfs.namenode.kerberos.principal"),
    ("Preauthentication failed", "{where} holds old keys of {who}: have it written anew"),
    ("Decrypt integrity check failed", "{where} holds old keys of {who}, or {server} runs with old ones: have the"
     " keytab written anew"),
    ("Permission denied", "{where} cannot be read: allow it to the user that bmq runs as"),
    ("permissions incorrect", "{where} is another user's: log in by kinit as the user that bmq runs as, or set"
     " hdfs.keytab and hdfs.principal"),
    ("no support for encryption type", "the KDC, krb5.conf (permitted_enctypes) and the keys of {who} and {server} have no"
     " kind of encryption in common: allow aes256-cts-hmac-sha1-96 in all of them, and have keytabs written anew"),
    ("KDC policy rejects", "the KDC does not allow {who} to log in at {server}: have its policy changed"),
    (NO_KEYTAB, "{where} is no keytab: have it written by ktadd of kadmin, or correct hdfs.keytab"),
    ("Key table file", "{where} is not there: correct hdfs.keytab"),
    ("keytab", "{where} has no usable key of {who}: name the principal that the keytab was made for in hdfs.principal"),
    ("key table", "{where} has no usable key of {who}: name the principal that the keytab was made for in"
     " hdfs.principal"),
    ("No Kerberos credentials available", "there is no ticket in {where}: log in by kinit, or set hdfs.keytab and"
     " hdfs.principal"),
    ("No credentials", "there is no ticket in {where}: log in by kinit, or set hdfs.keytab and hdfs.principal"),
    ("Ticket expired", "the ticket in {where} has expired: log in by kinit, or set hdfs.keytab and hdfs.principal"),
    ("does not match desired name", "{where} has no ticket of {who}: log in by kinit, or set hdfs.keytab"),
    ("in cache collection", "{where} has no ticket of {who}: log in by kinit, or set hdfs.keytab"),
    ("Matching credential not found", "{where} has no ticket of {who}: log in by kinit, or set hdfs.keytab"),
    ("Cannot find KDC for realm", "no KDC is known for the realm: name it in krb5.conf (KRB5_CONFIG, /etc/krb5.conf)"),
    ("default realm", "no realm is known: set default_realm in krb5.conf (KRB5_CONFIG, /etc/krb5.conf)"),
    ("Cannot determine realm", "no realm is known for the host of {server}: name it in [domain_realm] of krb5.conf"
     " (KRB5_CONFIG, /etc/krb5.conf), or name the realm in dfs.namenode.kerberos.principal"),
    ("Improper format of Kerberos configuration", "krb5.conf is damaged (KRB5_CONFIG, /etc/krb5.conf)"),
    ("Kerberos configuration file", "krb5.conf is not there or cannot be read (KRB5_CONFIG, /etc/krb5.conf)"),
    ("configuration file", "krb5.conf is damaged (KRB5_CONFIG, /etc/krb5.conf)"),
)  # fmt: skip
# libkrb5's text when the keytab lacks our key: it looked into the ticket cache afterwards.
_NOTHING_FOUND: Final = ("No credentials cache", "No Kerberos credentials available")
_PASSING: Final = (
    "Cannot contact any KDC",
    "Cannot resolve",
    "timed out",
    "Connection refused",
    "Resource temporarily unavailable",
)


def kerberos_error(text: str, *, who: str, where: str, server: str, is_keytab: bool = False) -> StoreError:
    """The error to raise for a GSSError: StorageUnavailable if it may pass (no KDC answers), else AuthenticationRequired.

    `text`: the GSSError's. `is_keytab`: whether `where` names a keytab.
    """
    match = _MINOR.search(text)
    said = (match[1] if match else text).partition("\n")[0].strip()[:_TEXT_CHARACTERS_MAX]
    if any(part in said for part in _PASSING):
        return StorageUnavailable(
            f"{server}: no KDC answers for the login of {who}: it is down, slow, or krb5.conf names another machine ({said})"
        )
    if is_keytab and said.startswith(_NOTHING_FOUND):
        said = f"No key of it in the keytab: {said}"
    for part, advice in _ADVICE:
        if part.lower() in said.lower():
            return AuthenticationRequired(f"{server}: {advice.format(who=who, where=where, server=server)} ({said})")
    return AuthenticationRequired(f"{server}: {who} cannot log in by Kerberos: {said}")
