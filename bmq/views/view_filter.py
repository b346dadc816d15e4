"""A view's filter, ready to be asked about records. Pure.

The module that parses is imported at the first filter.
"""

from __future__ import annotations

from bmq.views.filter_error import InvalidFilter
from bmq.views.predicates import BadPattern, Predicate

FILTER_BYTES_MAX = 8 * 1024
"""Longest text of a filter."""


class ViewFilter:
    """`is_by_headers`: records with the same headers have the same answer. Immutable."""

    __slots__ = ("is_by_headers", "predicate", "text")

    def __init__(self, text: str, predicate: Predicate, *, is_by_headers: bool) -> None:
        self.text = text
        self.predicate = predicate
        self.is_by_headers = is_by_headers


def compiled(text: str) -> ViewFilter:
    """Raises InvalidFilter, with one sentence."""
    size_bytes = len(text.encode("utf-8", "surrogatepass"))
    if size_bytes > FILTER_BYTES_MAX:
        raise InvalidFilter(f"the filter has {size_bytes} bytes, {FILTER_BYTES_MAX} are allowed")
    if not text.strip():
        raise InvalidFilter("the filter is empty; TRUE is the filter that every record passes")
    from bmq.views.filter_syntax import parsed_filter

    try:
        predicate, is_by_headers = parsed_filter(text)
    except BadPattern as error:
        raise InvalidFilter(f"a pattern of the filter is refused: {error}") from error
    return ViewFilter(text, predicate, is_by_headers=is_by_headers)
