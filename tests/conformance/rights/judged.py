"""What a run found: differences that are on no list, and entries of the list that nothing met. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tests.conformance.intended import INTENDED, reason_for
from tests.conformance.rights.intended import RIGHTS_INTENDED
from tests.conformance.rights.run import Asked
from tests.conformance.schemas import api_name

_NAMES: Final = re.compile(r"[a-z0-9-]+-v\d+-[a-z0-9-]+")
"""What cases call their topics and groups: API, case, version, persona and what it is."""


class Judged:
    """`errors`: requests that are answered otherwise than the lists say."""

    def __init__(self) -> None:
        self.requests = 0
        self.errors = 0
        self._met: set[str] = set()
        self._found: dict[tuple[str, str, tuple[str, ...]], dict[str, list[int]]] = {}

    def add(self, asked: Asked) -> None:
        self.requests += 1
        lines = []
        for one in asked.differences:
            entry = reason_for(asked.api_key, asked.case, one, (*RIGHTS_INTENDED, *INTENDED))
            if entry is None:
                lines.append(_NAMES.sub("*", f"{one.path}: bmq {one.bmq!r}, Kafka {one.kafka!r}"))
            else:
                self._met.add(entry.name)
        if lines:
            self.errors += 1
            alike = self._found.setdefault((api_name(asked.api_key), asked.case, tuple(lines)), {})
            alike.setdefault(asked.persona, []).append(asked.version)

    def lines(self) -> Iterator[str]:
        """Requests that differ alike together."""
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
