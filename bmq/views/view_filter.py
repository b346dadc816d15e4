"""A view's compiled filter. Pure.

The parser (bmq.views.filter_syntax) is imported when the first filter is compiled, because its import is slow.
"""

from __future__ import annotations

from bmq.records.record_filter_layout import RecordFilter
from bmq.views.filter_error import InvalidFilter
from bmq.views.predicates import BadPattern, Predicate

FILTER_BYTES_MAX = 8 * 1024
"""Longest text of a filter."""


class ViewFilter:
    """A compiled filter. Immutable.

    `predicate`: decides about a record. `is_by_headers`: it gives the same answer for records with the same headers.
    `kernel_filter`: the same decision by the C kernel; None if the kernel cannot make it.
    """

    __slots__ = ("is_by_headers", "kernel_filter", "predicate", "text")

    def __init__(
        self, text: str, predicate: Predicate, *, is_by_headers: bool, kernel_filter: RecordFilter | None = None
    ) -> None:
        self.text = text
        self.predicate = predicate
        self.is_by_headers = is_by_headers
        self.kernel_filter = kernel_filter


def compiled(text: str) -> ViewFilter:
    """Compile a filter's text. Raises InvalidFilter, whose message is one sentence."""
    size_bytes = len(text.encode("utf-8", "surrogatepass"))
    if size_bytes > FILTER_BYTES_MAX:
        raise InvalidFilter(f"the filter has {size_bytes} bytes, {FILTER_BYTES_MAX} are allowed")
    if not text.strip():
        raise InvalidFilter("the filter is empty; TRUE is the filter that every record passes")
    from bmq.views.filter_syntax import parsed_filter

    try:
        parsed = parsed_filter(text)
    except BadPattern as error:
        raise InvalidFilter(f"a pattern of the filter is refused: {error}") from error
    return ViewFilter(text, parsed.predicate, is_by_headers=parsed.is_by_headers, kernel_filter=parsed.kernel_filter)


def load_parser() -> None:
    """Import the parser now: it takes a third of a second the first time."""
    import bmq.views.filter_syntax  # noqa: F401
