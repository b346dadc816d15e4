"""Differences that are meant, each with its reason: the reviewed list. An entry that nothing meets any more is an error."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from tests.tools_table.compare import Difference


@dataclass(frozen=True, slots=True)
class Intended:
    """`tools`, `cases`: shell patterns. `bmq`, `kafka`: expressions, one of which a differing line of that side has to match
    from its beginning. Every line of a difference needs an entry that names it."""

    name: str
    reason: str
    tools: tuple[str, ...]
    cases: tuple[str, ...] = ("*",)
    bmq: tuple[str, ...] = ()
    kafka: tuple[str, ...] = ()

    def meets(self, tool: str, case: str, side: str, line: str) -> bool:
        return (
            any(fnmatchcase(tool, pattern) for pattern in self.tools)
            and any(fnmatchcase(case, pattern) for pattern in self.cases)
            and any(re.match(pattern, line) for pattern in (self.bmq if side == "bmq" else self.kafka))
        )


INTENDED: Final[tuple[Intended, ...]] = (
    Intended(
        "Defaults that are named",
        "Kafka writes the cluster's min.insync.replicas into its metadata, for its eligible leader replicas; bmq has 128 MiB instead of 1 GiB as the segment size. "
        "kafka-topics names both at every topic, as if they had been given.",
        ("kafka-topics",),
        bmq=(r"Config: segment\.bytes=134217728$",),
        kafka=(r"Config: min\.insync\.replicas=1$",),
    ),
    Intended(
        "No log directories to cordon",
        "Kafka adds that directories may be cordoned when there are too few brokers. bmq's brokers have no directories of their own.",
        ("kafka-topics",),
        bmq=(r".*The target replication factor of 3 cannot be reached because only 1 broker\(s\) are registered\.$",),
        kafka=(r".*registered or some brokers have all their log directories cordoned\.$",),
    ),
)


def reasons_for(
    tool: str, case: str, difference: Difference, entries: Sequence[Intended] = INTENDED
) -> set[str] | None:
    """The names of the entries that explain all of its lines; None when one has no entry."""
    names = set()
    for side, lines in (("bmq", difference.bmq), ("kafka", difference.kafka)):
        for line in lines:
            entry = next((one for one in entries if one.meets(tool, case, side, line)), None)
            if entry is None:
                return None
            names.add(entry.name)
    return names
