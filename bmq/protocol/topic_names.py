"""Valid topic names. Source: org.apache.kafka.common.internals.Topic."""

from __future__ import annotations

import re
from typing import ClassVar, Final

from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError

NAME_LENGTH_MAX: Final = 249
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


class InvalidTopicName(BmqError):
    """A name that no topic can have; the message gives the name and the reason."""

    code: ClassVar[ErrorCode] = ErrorCode.INVALID_TOPIC_EXCEPTION


def validate_name(name: str) -> None:
    """Raises InvalidTopicName."""
    if not name:
        raise InvalidTopicName("Topic name is invalid: the empty string is not allowed")
    if name in (".", ".."):
        raise InvalidTopicName(f"Topic name is invalid: '{name}' is not allowed")
    if len(name) > NAME_LENGTH_MAX:
        raise InvalidTopicName(
            f"Topic name is invalid: the length of '{name}' is longer than the max allowed length {NAME_LENGTH_MAX}"
        )
    if not _LEGAL.fullmatch(name):
        raise InvalidTopicName(
            f"Topic name is invalid: '{name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )


def collision_key(name: str) -> str:
    """Two topics collide when their keys are equal: clients' metric names replace '.' by '_'."""
    return name.replace(".", "_")
