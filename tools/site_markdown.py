"""Markdown as GitHub reads it, written so that Python-Markdown reads it alike. Decisions only.

GitHub lets a list, a table or a fence follow a paragraph at once, and nests a list by the width of the marker above it. Python-Markdown
wants a blank line before each of them, and four blanks for each level.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

INDENT: Final = 4
_ITEM: Final = re.compile(r"^( *)([-*+]|\d+[.)])( +)\S")
_FENCE: Final = re.compile(r"^( *)(```|~~~)")


def for_python_markdown(text: str) -> str:
    return "\n".join(_lines(text.split("\n")))


def _lines(lines: list[str]) -> Iterator[str]:
    # Of each open list, from outside: where the text of its items begins.
    starts: list[int] = []
    fence, before, is_after_fence = "", "", False
    for line in lines:
        indent = len(line) - len(line.lstrip(" "))
        if fence:
            yield _moved(line, len(starts) * INDENT - (starts[-1] if starts else 0))
            if line.strip() == fence:
                fence, before, is_after_fence = "", "", True
            continue
        if is_after_fence and line.strip():
            yield ""
        is_after_fence = False
        if not line.strip():
            yield line
            before = ""
            continue
        is_item = _ITEM.match(line)
        if is_item or not before or _FENCE.match(line):
            while starts and indent < starts[-1]:
                starts.pop()
        if is_item:
            if before and not _ITEM.match(before) and not starts:
                yield ""
            yield " " * (len(starts) * INDENT) + line.lstrip(" ")
            starts.append(is_item.end() - 1)
            before = line
            continue
        if opened := _FENCE.match(line):
            fence = opened[2]
            if before:
                yield ""
        elif line.lstrip().startswith("|") and before and not before.lstrip().startswith("|"):
            yield ""
        yield " " * (len(starts) * INDENT) + line.lstrip(" ") if starts else line
        before = line


def _moved(line: str, by: int) -> str:
    if by >= 0:
        return " " * by + line if line.strip() else line
    return line[min(-by, len(line) - len(line.lstrip(" "))) :]
