"""Conditions that the records kernel evaluates: text equality and IN on the key, the tag and headers, with AND and OR. Pure.

Whether such a condition is true depends only on which of its terms are true, so the kernel gets its truth table over the terms.
NOT is not supported: the kernel does not know whether a term that is not true is false or unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from bmq.records.record_filter_layout import STRINGS_MAX, TERMS_MAX, RecordFilter, Term

Combine = Callable[[Iterable[bool]], bool]
"""`all` for AND, `any` for OR."""


def listed(names: Sequence[str], values: Sequence[str]) -> RecordFilter | None:
    """The condition that the key, or a header with one of these names, has one of these values.

    Without `names` the key is compared. None if the condition is too long for the kernel.
    """
    term = Term(tuple(name.encode() for name in names), tuple(dict.fromkeys(value.encode() for value in values)))
    return _bounded(RecordFilter((term,), 0b10))


def constant(truth: bool) -> RecordFilter:
    return RecordFilter((), int(truth))


def combined(filters: Sequence[RecordFilter | None], combine: Combine) -> RecordFilter | None:
    """AND or OR of these conditions; None if one of them is not for the kernel, or if they are too long together."""
    known = [one for one in filters if one is not None]
    if len(known) < len(filters):
        return None
    terms = tuple(dict.fromkeys(term for one in known for term in one.terms))
    if len(terms) > TERMS_MAX:
        return None
    bits = [[terms.index(term) for term in one.terms] for one in known]
    truths = 0
    for mask in range(1 << len(terms)):
        passes = combine(
            bool(one.truths >> sum((mask >> bit & 1) << place for place, bit in enumerate(places)) & 1)
            for one, places in zip(known, bits, strict=True)
        )
        truths |= passes << mask
    return _bounded(RecordFilter(terms, truths))


def _bounded(one: RecordFilter) -> RecordFilter | None:
    strings = sum(len(term.names) + len(term.values) for term in one.terms)
    return one if strings <= STRINGS_MAX else None
