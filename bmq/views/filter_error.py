"""The error of a filter that cannot be used. Pure."""

from __future__ import annotations

from typing import ClassVar

from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError


class InvalidFilter(BmqError):
    """A filter that is not valid. The message is one sentence that says why."""

    code: ClassVar[ErrorCode] = ErrorCode.INVALID_CONFIG
