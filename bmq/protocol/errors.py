"""Errors that know their Kafka error code. Every failure that a client should learn of is one of these."""

from __future__ import annotations

from typing import ClassVar, Final

from bmq.protocol.error_codes import ErrorCode

MESSAGE_CHARACTERS_MAX: Final = 8_191
"""A string of the protocol has at most 32,767 bytes, and a character at most four."""


def as_message(text: str) -> str:
    """For a message field: cut where it is too long for one.

    Many quote what the client sent, and an answer that no client and no node can parse would say less.
    """
    return text[:MESSAGE_CHARACTERS_MAX]


class BmqError(Exception):
    """Base of all. `code` goes into the response, `str(error)` into its message field if there is one."""

    code: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR

    def __str__(self) -> str:
        return as_message(super().__str__())


class KafkaError(BmqError):
    """An error with any code, for the many that need no class of their own."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(message or code.name)
        self.code = code  # type: ignore[misc]


class MalformedMessage(BmqError):
    """Bytes that do not parse. The connection they came on is closed."""

    code = ErrorCode.INVALID_REQUEST


class TooManyElements(MalformedMessage):
    """A message whose arrays have more elements in all than its reader takes, and that may parse otherwise."""


class UnsupportedVersion(BmqError):
    """An API or version that is not served."""

    code = ErrorCode.UNSUPPORTED_VERSION
