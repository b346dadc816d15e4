"""The one JAAS line that servers have: users and passwords for PLAIN. Source: JaasConfig of Apache Kafka.

org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret" user_bob="other";
"""

from __future__ import annotations

import re
from typing import Final

PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_USER: Final = "user_"
_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})
_OPTION: Final = re.compile(r"""\s*(?P<name>[^\s="';]+)\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[^\s"';]+))""")
_HEAD: Final = re.compile(r"\s*(?P<module>[^\s;]+)\s+(?P<flag>[A-Za-z]+)")
_END: Final = re.compile(r"\s*;\s*")


def plain_users(line: str) -> dict[str, str]:
    """Passwords by user. Raises ValueError; the sentence has no part of the line that may be secret."""
    head = _HEAD.match(line)
    if head is None or head["flag"].lower() not in _FLAGS:
        raise ValueError(f'a JAAS line has the form `{PLAIN_MODULE} required user_NAME="PASSWORD";`')
    if head["module"] != PLAIN_MODULE:
        raise ValueError(f"the login module has to be {PLAIN_MODULE}")
    users: dict[str, str] = {}
    position = head.end()
    while (option := _OPTION.match(line, position)) is not None:
        position = option.end()
        if option["name"].startswith(_USER):
            quoted = option["quoted"]
            value = option["bare"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
            name = option["name"].removeprefix(_USER)
            if not name or not value:
                raise ValueError("a user of the JAAS line has no name, or no password")
            users[name] = value
    if _END.fullmatch(line, position) is None:
        raise ValueError('the JAAS line does not end with a semicolon, or an option has another form than NAME="VALUE"')
    return users
