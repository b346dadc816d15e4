"""All cases, by the family of their APIs."""

from __future__ import annotations

from tests.conformance.case import Case
from tests.conformance.cases import admin, batches, data, frames, groups, security, share, streams, topics, transactions

DECLARED: tuple[Case, ...] = tuple(
    case
    for family in (data, batches, topics, groups, transactions, admin, security, share, streams)
    for case in family.CASES.found
)


def all_cases() -> list[Case]:
    """Those declared, and behind each API's valid one the hostile frames that are made of it."""
    return [*DECLARED, *frames.made_of(DECLARED)]
