"""Regular expressions that consumers subscribe with: whole topic names, in RE2's language and in linear time.

Kafka's brokers use RE2J, which has the same language: no look-context, no back references, linear time for every
pattern. Limits on a pattern's length and on the memory of its compiled form stop hostile patterns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import re2

from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError

PATTERN_CHARS_MAX: Final = 4_096
"""Topic names have 249 characters at most."""
COMPILED_BYTES_MAX: Final = 512 * 1024
"""Limit for one pattern, including the memory for matching. RE2 caches the last 128 patterns."""

_OPTIONS: Final = re2.Options()
_OPTIONS.max_mem = COMPILED_BYTES_MAX
_OPTIONS.log_errors = False
_OPTIONS.never_capture = True

Matches = Callable[[str], bool]
"""Whether a whole topic name matches."""


def compiled(regex: str) -> Matches:
    """Raises KafkaError INVALID_REGULAR_EXPRESSION."""
    if len(regex) > PATTERN_CHARS_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex of {len(regex)} characters, {PATTERN_CHARS_MAX} are allowed",
        )
    try:
        pattern = re2.compile(regex, _OPTIONS)
    except re2.error as error:
        reason = error.args[0].decode(errors="replace") if error.args else ""
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {reason}.",
        ) from error
    return lambda name: pattern.fullmatch(name) is not None
