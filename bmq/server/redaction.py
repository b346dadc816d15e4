"""Blanks secrets in texts: those that are known, and what has the form of one. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Final

from bmq.server.listener_settings import is_secret

HIDDEN: Final = "(hidden)"
SHORT_CHARACTERS: Final = 5
"""A shorter secret is blanked as a whole word alone: as a part it would be found everywhere."""

_KEY_BLOCK: Final = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
)
_HEADER: Final = re.compile(r"(?i)\b((?:proxy-)?authorization\W{1,4})(basic|bearer|negotiate|digest)\s+[^\s\"',;}]+")
_BEARER: Final = re.compile(r"(?i)\b(bearer)\s+[A-Za-z0-9._~+/=-]{8,}")
_USER_INFO: Final = re.compile(r"\b([a-z][a-z0-9+.-]{0,20}://)[^\s/@\"']{1,200}@")
_NAME: Final = (
    r"[A-Za-z0-9_.\-]*(?:jaas\.config|password|passwd|secret|token|api[-_]?key|keystore\.key)[A-Za-z0-9_.\-]*"
)
_QUOTED: Final = re.compile(rf"""(?i)((["'])(?:{_NAME})\2\s*[:=]\s*)(["'])((?:\\.|(?!\3)[^\\])*)\3""")
_QUOTED_IN_JSON: Final = re.compile(rf"""(?i)((\\+")(?:{_NAME})\2\s*[:=]\s*)(\\+")(.*?)\3""")
_ASSIGNED_IN_JSON: Final = re.compile(rf"""(?i)(?<![A-Za-z0-9_.\-])({_NAME}\s*=\s*)(\\+")(.*?)\2""")
"""What a text of JSON has that is a value in another one: its quotes are escaped."""
_ASSIGNED: Final = re.compile(
    rf"""(?i)(?<![A-Za-z0-9_.\-])({_NAME}\s*=\s*)(?:"((?:\\.|[^"\\])*)"|'([^']*)'|[^\s"'&;,]+)"""
)
_JAAS_USER: Final = re.compile(r"""(?i)\b(user_[^\s="']+\s*=\s*)\\?["'][^"']*["']""")
_JAAS_VALUE: Final = re.compile(r"""=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s"';]+))""")


class Redactor:
    """`secrets`: texts that must not be shown, in any form that JSON or a shell gives them."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = {form for secret in secrets for form in _forms(secret.strip()) if form}
        ordered = sorted(known, key=len, reverse=True)
        self._known = re.compile("|".join(_pattern(each) for each in ordered)) if ordered else None

    def text(self, text: str) -> str:
        """The text with HIDDEN in place of each secret."""
        if self._known is not None:
            text = self._known.sub(HIDDEN, text)
        text = _KEY_BLOCK.sub(HIDDEN, text)
        text = _HEADER.sub(rf"\1\2 {HIDDEN}", text)
        text = _BEARER.sub(rf"\1 {HIDDEN}", text)
        text = _USER_INFO.sub(rf"\1{HIDDEN}@", text)
        text = _QUOTED_IN_JSON.sub(lambda found: f"{found[1]}{found[3]}{HIDDEN}{found[3]}", text)
        text = _ASSIGNED_IN_JSON.sub(lambda found: f"{found[1]}{HIDDEN}", text)
        text = _QUOTED.sub(rf"\1\3{HIDDEN}\3", text)
        text = _JAAS_USER.sub(rf"\1{HIDDEN}", text)
        return _ASSIGNED.sub(rf"\1{HIDDEN}", text)


def secrets_of_settings(values: Mapping[str, object]) -> set[str]:
    """Secrets among settings by their dotted names: whole values, and the passwords inside of JAAS lines."""
    found: set[str] = set()
    for name, value in values.items():
        if not is_secret(name) or not value:
            continue
        found.add(str(value))
        if "jaas.config" in name.lower():
            parts = (quoted or bare for quoted, bare in _JAAS_VALUE.findall(str(value)))
            found |= {re.sub(r"\\(.)", r"\1", part) for part in parts}
    return found


def secrets_of_variables(variables: Mapping[str, str]) -> set[str]:
    """The values of variables whose names say that they are secret, but for names of files."""
    return {
        value
        for name, value in variables.items()
        if value
        and re.search(r"(?i)password|passwd|secret|token|credential|api_?key", name)
        and not value.startswith("/")
    }


def _forms(secret: str) -> Iterable[str]:
    in_json = (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
    return {secret, *in_json, *(line for line in secret.splitlines() if len(line) >= SHORT_CHARACTERS)}


def _pattern(secret: str) -> str:
    escaped = re.escape(secret)
    return rf"(?<!\w){escaped}(?!\w)" if len(secret) < SHORT_CHARACTERS else escaped
