"""Patterns of sentences that make a reader guess, and of table cells that are too long. Pure.

The patterns are those of an outside review: a sentence that begins with a bare relative clause ("Who asks waits"), an
unnamed person ("nobody", "whoever"), a quantity without its noun ("for so long"), and archaic turns ("shall", "in vain").
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from tests.unit.docs.pages import prose_lines, sentences, without_code

CELL_CHARACTERS_MAX: Final = 120

# What is wrong, by the pattern that finds it. Name the actor, the thing or the number instead.
RIDDLES: Final[Mapping[str, re.Pattern[str]]] = {
    "an unnamed person: name who acts": re.compile(
        r"\b(nobody|somebody|anybody|whoever|whomever|no one|those who|he who)\b", re.IGNORECASE
    ),
    "an unnamed thing: name it": re.compile(
        r"\bwhatever\b(?! (?:the|their|its|they|topics|happens|fails)\b)", re.IGNORECASE
    ),
    "a sentence that begins with a bare relative clause": re.compile(
        r"(?:^|[.:;!?] |^[-*] |^\d+\. |\| )(?:Who|What|Whose|Whom) (?!.*\?)(?!.*[^:]:\s*$)"
    ),
    "a clause about an unnamed person: name who acts": re.compile(
        r"(?:^|[,;:(] |\b(?:and|but|so|than|by|for|from|to|of|if) )who (?:does|is|was|has|had|[a-z]+s)\b"
    ),
    "a quantity without its noun": re.compile(
        r"\b(?:for|after|in|within|until) so (?:long|much|many)\b(?! as| that)|\bso (?:many|much) (?:of|at|a|follow|later|longer)\b"
        r"|\bof them so\b|\bby so (?:much|many)\b|\bso long after\b|\bas many more\b|\bstood still\b",
        re.IGNORECASE,
    ),
    "an archaic turn": re.compile(
        r"\b(?:shall|in vain|is to be had|are to be had|to be had|may be anybody|put out|gets? on\b|thereby|whereupon|henceforth"
        r"|lets? go\b|stand still|stands still|at the latest\b(?=.*behind))",
        re.IGNORECASE,
    ),
    "an inverted clause: begin with the subject": re.compile(
        r"(?:^|[.;] )(?:Of (?:these|those|what|a|an|the) [^,.]{0,60}? (?:are|is|was|were|has|have)\b|So does|So is|So are|Not so|Nor (?:is|are|does|do)\b"
        r"|Behind (?:these|it|that|what)\b|Of what\b|To what\b|By what\b|From what\b)"
    ),
}


def riddles(text: str) -> Iterator[tuple[int, str, str]]:
    """Number of the paragraph's first line, what is wrong and the words: each finding outside of code and headings."""
    for number, line in sentences(text):
        if line.startswith("#"):
            continue
        plain = without_code(line)
        for wrong, pattern in RIDDLES.items():
            for found in pattern.finditer(plain):
                yield number, wrong, plain[max(0, found.start() - 10) : found.end() + 40].strip()


def long_cells(text: str) -> Iterator[tuple[int, int]]:
    """Line number and length of each table cell above CELL_CHARACTERS_MAX."""
    for number, line in prose_lines(text):
        if line.startswith("|"):
            for cell in re.split(r"(?<!\\)\|", line.strip().strip("|")):
                if len(cell.strip()) > CELL_CHARACTERS_MAX:
                    yield number, len(cell.strip())
