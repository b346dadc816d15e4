"""Tests that are known to fail by chance, and why: tests/quarantine.toml.

    [[test]]
    name = "tests/e2e/test_kill.py::test_live_consumer_survives_a_kill"
    since = 2026-01-31
    cause = "the test looks once at a metric that is written a moment later"
    log = "AssertionError: assert 3 == 4 (…)"

An entry is for what is proven to be the test's fault. The test still runs, and its failure is printed; the stage is not red for it.
An entry ends DAYS_MAX days after `since`, and there are at most ENTRIES_MAX: past either the gate is red. Tests of safety (marker
`safety`: lost, doubled, reordered or corrupt records, two owners) cannot be entered.
"""

from __future__ import annotations

import datetime
import tomllib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FILE: Final = "tests/quarantine.toml"
ENTRIES_MAX: Final = 5
DAYS_MAX: Final = 7


@dataclass(frozen=True, slots=True)
class Entry:
    name: str
    since: datetime.date
    cause: str
    log: str


class BadQuarantine(Exception):
    """The file is no list of such entries."""


def read_quarantine(path: Path) -> list[Entry]:
    """In the order of the file; empty without one. Raises BadQuarantine."""
    if not path.exists():
        return []
    try:
        found = tomllib.loads(path.read_text()).get("test", [])
        entries = [Entry(**entry) for entry in found]
    except (tomllib.TOMLDecodeError, TypeError, AttributeError) as error:
        raise BadQuarantine(f"{path}: {error}") from error
    for entry in entries:
        if type(entry.since) is not datetime.date or not all((entry.name, entry.cause, entry.log)):
            raise BadQuarantine(f"{path}: {entry.name or 'an entry'} needs a name, a date, a cause and a log")
    return entries


def problems(entries: Sequence[Entry], safety: Collection[str], today: datetime.date) -> list[str]:
    """Why the gate is red whatever the tests say. `safety`: names of tests that cannot be entered."""
    found = []
    if len(entries) > ENTRIES_MAX:
        found.append(f"the quarantine has {len(entries)} entries, {ENTRIES_MAX} are allowed")
    for entry in entries:
        if entry.name in safety:
            found.append(f"{entry.name} is a test of safety: it cannot be in quarantine")
        if (today - entry.since).days > DAYS_MAX:
            found.append(f"{entry.name} is in quarantine since {entry.since}, longer than {DAYS_MAX} days")
    return found


def is_excused(failed: Collection[str], entries: Sequence[Entry], safety: Collection[str]) -> bool:
    """Whether every failure is one of the entries. Without a known failure nothing is excused: something else went wrong."""
    return bool(failed) and set(failed) <= {entry.name for entry in entries} - set(safety)
