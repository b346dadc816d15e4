"""Predicates over records, with SQL's three truth values. Pure.

A predicate returns True, False, or None for unknown. A name may have any number of values in a record, because a header may come
several times. A comparison is true if it holds for one of the values; else it is unknown if it is unknown for one of them, or if
there are no values. Keys and header values are bytes. Comparing one as text is unknown unless it is UTF-8; comparing one as a
number is unknown unless it is the text of a number.
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
"""A test of one value of a record."""
Number = int | float

NUMBER_LENGTH_MAX: Final = 64
"""Longest header value that is read as a number."""
PATTERN_MEMORY_BYTES_MAX: Final = 1024 * 1024
"""Most memory of one compiled pattern."""
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
    """A pattern that is not a regular expression of RE2, or takes more than PATTERN_MEMORY_BYTES_MAX."""


# --- whole predicates


def constant(truth: bool) -> Predicate:
    return lambda record: truth


def all_of(predicates: Sequence[Predicate]) -> Predicate:
    """AND: false if one predicate is false, else unknown if one is unknown."""

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
    """OR: true if one predicate is true, else unknown if one is unknown."""

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
    """NOT; of unknown it is unknown."""

    def holds(record: RecordFields) -> Truth:
        found = predicate(record)
        return None if found is None else not found

    return holds


def is_null(values: Values) -> Predicate:
    """IS NULL: whether the record has no value of this name but null; never unknown."""
    return lambda record: all(value is None for value in values(record))


def any_value(values: Values, test: Test) -> Predicate:
    """Whether one of the values passes the test."""

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
    """The values of all headers that have one of these names."""
    wanted = frozenset(name.encode() for name in names)
    return lambda record: [value for name, value in record.headers if name in wanted]


# --- tests of one value


def text_test(comparison: str, literal: str) -> Test:
    """A comparison with text, in the order of code points. `comparison`: one of COMPARISONS."""
    order, wanted = _ORDERS[comparison], literal.encode()

    def passes(value: Value) -> Truth:
        # UTF-8 bytes sort as their code points do. So the bytes are compared, and decoded only to check that they are UTF-8.
        if not isinstance(value, bytes) or not _is_text(value):
            return None
        return order(value, wanted)

    return passes


def number_test(comparison: str, literal: Number) -> Test:
    """A comparison with a number. `comparison`: one of COMPARISONS."""
    order = _ORDERS[comparison]

    def passes(value: Value) -> Truth:
        number = number_of(value)
        return None if number is None else order(number, literal)

    return passes


def both(first: Test, second: Test) -> Test:
    """BETWEEN: both tests of the same value."""

    def passes(value: Value) -> Truth:
        one, other = first(value), second(value)
        if one is False or other is False:
            return False
        return None if one is None or other is None else True

    return passes


def listed_test(texts: Sequence[str], numbers: Sequence[Number]) -> Test:
    """IN: whether the value is one of the texts, or as a number equals one of the numbers."""
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
    """REGEXP: whether a regular expression (RE2) matches the whole value (`is_whole`), or a part of it. Raises BadPattern."""
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
    """LIKE: `%` matches any text, `_` any character; behind the character `escape` they match themselves. Raises BadPattern."""
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
    """The value as a number; None if it is neither one nor the text of one, or is longer than NUMBER_LENGTH_MAX."""
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
