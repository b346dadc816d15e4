"""Predicates over records, with SQL's three truth values. Pure.

A predicate gives True, False, or None: unknown. What is compared has any number of values: a record may have a header
several times. A comparison is true if it is true of one of them, else unknown if it is unknown of one, or if there is none.
Header values and keys are bytes: text if they are UTF-8. What is not, or is no number where a number is compared, is unknown.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import re2

from bmq.views.record_fields import RecordFields

Truth = bool | None
Predicate = Callable[[RecordFields], Truth]
Value = bytes | int | None
Values = Callable[[RecordFields], Sequence[Value]]
"""The values that a name of the filter has in a record; None is null."""
Test = Callable[[Value], Truth]
"""Of one value."""
Number = int | float

NUMBER_LENGTH_MAX: Final = 64
"""Longest header value that is read as a number."""
PATTERN_MEMORY_BYTES_MAX: Final = 1024 * 1024
"""Of one compiled pattern."""
_NUMBER: Final = re.compile(rb"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_ORDERS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
COMPARISONS: Final = frozenset(_ORDERS)


class BadPattern(ValueError):
    """A pattern that is no regular expression, or takes too much memory."""


# --- whole predicates


def constant(truth: bool) -> Predicate:
    return lambda record: truth


def all_of(predicates: Sequence[Predicate]) -> Predicate:
    """AND: false if one is false."""

    def holds(record: RecordFields) -> Truth:
        truth: Truth = True
        for predicate in predicates:
            found = predicate(record)
            if found is False:
                return False
            if found is None:
                truth = None
        return truth

    return holds


def one_of(predicates: Sequence[Predicate]) -> Predicate:
    """OR: true if one is true."""

    def holds(record: RecordFields) -> Truth:
        truth: Truth = False
        for predicate in predicates:
            found = predicate(record)
            if found:
                return True
            if found is None:
                truth = None
        return truth

    return holds


def negation(predicate: Predicate) -> Predicate:
    """NOT: unknown stays unknown."""

    def holds(record: RecordFields) -> Truth:
        found = predicate(record)
        return None if found is None else not found

    return holds


def is_null(values: Values) -> Predicate:
    """Whether there is no value, or all are null; never unknown."""
    return lambda record: all(value is None for value in values(record))


def any_value(values: Values, test: Test) -> Predicate:
    """Whether the test is true of one of the values."""

    def holds(record: RecordFields) -> Truth:
        found = values(record)
        if not found:
            return None
        truth: Truth = False
        for value in found:
            passed = None if value is None else test(value)
            if passed:
                return True
            if passed is None:
                truth = None
        return truth

    return holds


# --- where values come from


def key(record: RecordFields) -> Sequence[Value]:
    return (record.key,)


def timestamp(record: RecordFields) -> Sequence[Value]:
    return (None if record.timestamp_ms < 0 else record.timestamp_ms,)


def offset(record: RecordFields) -> Sequence[Value]:
    return (record.offset,)


def partition(record: RecordFields) -> Sequence[Value]:
    return (record.partition,)


def header(*names: str) -> Values:
    """All headers with one of these names."""
    wanted = frozenset(name.encode() for name in names)
    return lambda record: [value for name, value in record.headers if name in wanted]


# --- tests of one value


def text_test(comparison: str, literal: str) -> Test:
    """Compare text, by code points. `comparison`: one of COMPARISONS."""
    order, wanted = _ORDERS[comparison], literal.encode()

    def passes(value: Value) -> Truth:
        # The order of UTF-8 bytes is that of code points, so nothing has to be decoded but to see that it is text.
        if not isinstance(value, bytes) or not _is_text(value):
            return None
        return order(value, wanted)

    return passes


def number_test(comparison: str, literal: Number) -> Test:
    """Compare numbers. `comparison`: one of COMPARISONS."""
    order = _ORDERS[comparison]

    def passes(value: Value) -> Truth:
        number = number_of(value)
        return None if number is None else order(number, literal)

    return passes


def both(first: Test, second: Test) -> Test:
    """BETWEEN: two tests of the same value."""

    def passes(value: Value) -> Truth:
        one, other = first(value), second(value)
        if one is False or other is False:
            return False
        return None if one is None or other is None else True

    return passes


def listed_test(texts: Sequence[str], numbers: Sequence[Number]) -> Test:
    """IN: whether the value is one of the texts, or as a number one of the numbers."""
    wanted, counted = frozenset(text.encode() for text in texts), frozenset(numbers)

    def passes(value: Value) -> Truth:
        if value in wanted:
            return True
        number = number_of(value) if counted else None
        if number is not None and number in counted:
            return True
        is_unknown = (counted and number is None) or (wanted and not (isinstance(value, bytes) and _is_text(value)))
        return None if is_unknown else False

    return passes


def pattern_test(pattern: str, *, is_whole: bool) -> Test:
    """Whether a regular expression (RE2) matches the whole value, or a part of it. Raises BadPattern."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = PATTERN_MEMORY_BYTES_MAX
    options.never_capture = True
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        raise BadPattern(_reason(error)) from error
    match = compiled.fullmatch if is_whole else compiled.search

    def passes(value: Value) -> Truth:
        if not isinstance(value, bytes) or not _is_text(value):
            return None
        return match(value.decode()) is not None

    return passes


def like_test(like: str, escape: str | None, *, is_case_sensitive: bool) -> Test:
    """LIKE: `%` is any text, `_` any character; `escape` in front of them makes them mean themselves. Raises BadPattern."""
    parts = ["(?s)" if is_case_sensitive else "(?si)"]
    characters = iter(like)
    for character in characters:
        if character == escape:
            character = next(characters, "")
            if not character:
                raise BadPattern("nothing stands behind the last escape character")
            parts.append(re2.escape(character))
        elif character == "%":
            parts.append(".*")
        elif character == "_":
            parts.append(".")
        else:
            parts.append(re2.escape(character))
    return pattern_test("".join(parts), is_whole=True)


def number_of(value: Value) -> Number | None:
    """The number that a value is, or is the text of; None: it is none, or longer than NUMBER_LENGTH_MAX."""
    if isinstance(value, int) or value is None:
        return value
    if len(value) > NUMBER_LENGTH_MAX or _NUMBER.fullmatch(value) is None:
        return None
    try:
        return int(value)
    except ValueError:
        return float(value)


def _is_text(value: bytes) -> bool:
    if value.isascii():
        return True
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
