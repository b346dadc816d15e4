"""What a tool printed, without what differs from server to server and from run to run. Pure.

What is not compared as it stands, and what stands for it:
- the server's address, its cluster's id, its directories and those of the run: SERVER, CLUSTER, DATA, DIR;
- ids of topics, members, producers and connections, points in time: ID, TIME;
- sizes on disk: whether there is one;
- columns of a table that a case names, by the column's name;
- blanks: tables are as wide as what they show; the places where Java's classes threw an exception.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TOPIC_ID: Final = re.compile(r'(TopicId:? ?|topic ID:? ?|topic id |"topicId":")[A-Za-z0-9_-]{22}\b')
_PATTERNS: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (_UUID, "ID"),
    (_TOPIC_ID, r"\1ID"),
    (re.compile(r"\b((?:console|perf)-(?:share-)?consumer-|adminclient-|(?:producer|consumer)-)\d+\b"), r"\1N"),
    (re.compile(r"(correlation ?[iI]d[ =])\d+"), r"\1N"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,:]\d+)?(?:Z|[+-]\d\d:?\d\d)?"), "TIME"),
    (re.compile(r"\b1[5-9]\d{11}\b"), "TIME"),
    (re.compile(r"\[B@[0-9a-f]+"), "[B@ID"),
    (re.compile(r'("size":|"offsetLag":)[1-9]\d*'), r"\1N"),
    # How far a client had come when its time was up is chance.
    (re.compile(r"Timed out waiting for a node assignment\. Call: \w+\(\w+=\w+\)"), "Out of time"),
    (re.compile(r"Call\(callName=.*? timed out at \w+ after \d+ attempt\(s\)"), "Out of time"),
    (re.compile(r"(TimeoutException: ).*"), r"\1..."),
)
_STACK: Final = re.compile(r"^\s+(at [\w.$/<>]+\(|\.\.\. \d+ (more|common frames omitted))")
_NEXT_CONFIG: Final = re.compile(r",(?=[a-z.]+=)")
_BLANKS: Final = re.compile(r"[ \t]+")


@dataclass(frozen=True, slots=True)
class Shown:
    """How one side's output is made comparable. `literals`: texts by what stands for them, the longest first."""

    literals: Mapping[str, str]
    hidden: tuple[str, ...] = ()
    patterns: tuple[tuple[str, str], ...] = ()

    def lines(self, text: str) -> list[str]:
        found = []
        # Formatters of internal topics end no lines.
        for line in text.replace('}{"key":', '}\n{"key":').splitlines():
            if _STACK.match(line):
                continue
            shown = _BLANKS.sub(" ", self.text(line)).rstrip()
            head, named, configs = shown.partition(" Configs: ")
            if named:
                # kafka-topics names them on one line, in no order.
                found += [head, *(f"Config: {one}" for one in sorted(_NEXT_CONFIG.split(configs)))]
            elif shown:
                found.append(shown)
        return list(_without_columns(found, self.hidden))

    def text(self, line: str) -> str:
        for literal, name in self.literals.items():
            line = line.replace(literal, name)
        for pattern, name in _PATTERNS:
            line = pattern.sub(name, line)
        for own, name in self.patterns:
            line = re.sub(own, name, line)
        return line


def _without_columns(lines: Sequence[str], hidden: tuple[str, ...]) -> Iterable[str]:
    columns: list[str] = []
    for line in lines:
        cells = line.strip().split(" ")
        if any(name in cells for name in hidden):
            columns = cells
            yield line
        elif columns and len(columns) - 1 <= len(cells) <= len(columns):
            # The last cell may be empty.
            pairs = zip(columns, cells, strict=False)
            yield " ".join(f"<{column}>" if column in hidden else cell for column, cell in pairs)
        else:
            yield line
