"""What a run found: differences that are on no list, entries of the list that nothing met, versions that were not asked. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from tests.conformance.answers import CLOSED
from tests.conformance.compare import MISSING, Difference
from tests.conformance.intended import INTENDED, reason_for
from tests.conformance.rights.intended import RIGHTS_INTENDED
from tests.conformance.rights.run import REFUSALS, Asked
from tests.conformance.schemas import api_name

_NAMES: Final = re.compile(r"[a-z0-9-]+-v\d+-[a-z0-9-]+")
"""What cases call their topics and groups: API, case, version, persona and what it is."""


class Judged:
    """`errors`: requests that are answered otherwise than the lists say. `acls`: those of them by which only one server
    refuses something, and ACLs that only one of them lists.
    """

    def __init__(self) -> None:
        self.requests = 0
        self.errors = 0
        self.acls = 0
        self.users: set[str] = set()
        self.versions: set[tuple[int, int]] = set()
        self._listings: list[str] = []
        self._met: set[str] = set()
        self._found: dict[tuple[str, str, tuple[str, ...]], dict[str, list[int]]] = {}

    def add(self, asked: Asked) -> None:
        self.requests += 1
        self.users.add(asked.persona)
        self.versions.add((asked.api_key, asked.version))
        lines, is_of_acls = [], False
        for one in asked.differences:
            entry = reason_for(asked.api_key, asked.case, one, (*RIGHTS_INTENDED, *INTENDED))
            if entry is None:
                lines.append(_NAMES.sub("*", f"{one.path}: bmq {one.bmq!r}, Kafka {one.kafka!r}"))
                is_of_acls = is_of_acls or is_refused_once(one)
            else:
                self._met.add(entry.name)
        if lines:
            self.errors += 1
            self.acls += is_of_acls
            alike = self._found.setdefault((api_name(asked.api_key), asked.case, tuple(lines)), {})
            alike.setdefault(asked.persona, []).append(asked.version)

    def add_listings(self, differences: Iterable[str]) -> None:
        """ACLs that only one server lists."""
        found = list(differences)
        self.acls += len(found)
        self._listings += found

    def lines(self) -> Iterator[str]:
        """Requests that differ alike together."""
        yield from (f"listed by one server: {one}" for one in self._listings)
        for (api, case, differences), personas in self._found.items():
            yield f"{api}: {case}"
            yield from (f"    {one}" for one in differences)
            by_versions: dict[str, list[str]] = {}
            for persona, versions in personas.items():
                by_versions.setdefault(", ".join(map(str, versions)), []).append(persona)
            yield from (f"  versions {versions} as {'; '.join(names)}" for versions, names in by_versions.items())

    def unmet(self) -> list[str]:
        """Entries of the list of rights, after a whole run."""
        return [one.name for one in RIGHTS_INTENDED if one.name not in self._met]


def is_refused_once(difference: Difference) -> bool:
    """Whether one server alone says that the user may not, or leaves something out, or closes the connection."""
    sides = (difference.bmq, difference.kafka)
    return any(one in (MISSING, CLOSED) or (type(one) is int and one in REFUSALS) for one in sides)
